// How sequences are expected to go on until their ends, and whether the blocks last until then. Rule S26.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace met::scheduler {

struct Course {
  std::int64_t left = 0;   ///< tokens until it is expected to end
  std::int64_t len = 0;    ///< tokens now
  std::int64_t held = 0;   ///< blocks that it has, or shares with one that has them
  std::int64_t owned = 0;  ///< of them, those that come back at its end
};

/// Outputs that are expected behind `had`, where sequences write `mean`: one that wrote more writes a quarter as much again.
constexpr std::int64_t outputs_behind(std::int64_t had, std::int64_t mean) {
  return std::max(mean - had, had / 4);
}

/// Courses that run beside each other: all grow by a token a step, so the most blocks are held when one is about to end.
class Courses {
 public:
  void clear() { all_.clear(); }
  void add(const Course& course) {
    all_.insert(std::ranges::upper_bound(all_, course.left, {}, &Course::left), course);
  }
  void remove(const Course& course) {
    const auto same = std::ranges::equal_range(all_, course.left, {}, &Course::left);
    all_.erase(same.end() - 1);  // of equal ones the last that was added
  }
  /// Whether `room` blocks beside those held are enough; never true where they are not, and true where there is one more for
  /// each course, less one for `block_tokens` of them. Linear in the courses.
  bool last(std::int64_t room, std::int64_t block_tokens) const {
    std::int64_t tokens = 0;  // of those that have not ended
    std::int64_t held = 0;
    std::int64_t came_back = 0;
    for (const Course& c : all_) {
      tokens += c.len;
      held += c.held;
    }
    auto running = static_cast<std::int64_t>(all_.size());
    for (const Course& c : all_) {
      const std::int64_t blocks = (tokens + running * (c.left + block_tokens - 1)) / block_tokens;
      if (blocks - held - came_back > room) return false;
      tokens -= c.len;
      held -= c.held;
      came_back += c.owned;
      --running;
    }
    return true;
  }

 private:
  std::vector<Course> all_;  ///< by ascending `left`
};

}  // namespace met::scheduler
