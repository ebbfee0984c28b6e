// Whether blocks last until sequences end, against a model that runs them token by token (S26).
#include "scheduler/courses.h"

#include <gtest/gtest.h>

#include <random>

namespace met::scheduler {
namespace {

/// The most blocks that the courses take beside those held now, every token of every one in turn.
std::int64_t most_taken(const std::vector<Course>& courses, std::int64_t block_tokens) {
  std::int64_t longest = 0;
  for (const Course& c : courses) longest = std::max(longest, c.left);
  std::int64_t most = 0;
  for (std::int64_t step = 0; step <= longest; ++step) {
    std::int64_t taken = 0;
    for (const Course& c : courses)
      taken += step > c.left ? -c.owned : (c.len + step + block_tokens - 1) / block_tokens - c.held;
    most = std::max(most, taken);
  }
  return most;
}

TEST(Courses, LastWhereEveryTokenHasItsBlock) {
  std::mt19937 random(11);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  int enough = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::int64_t block = between(1, 16);
    std::vector<Course> list;
    Courses courses;
    for (int n = between(1, 12); n > 0; --n) {
      const std::int64_t len = between(1, 100);
      const std::int64_t held = between(0, 1) * ((len + block - 1) / block);
      list.push_back({between(0, 60), len, held, held > 0 ? between(0, static_cast<int>(held)) : 0});
      courses.add(list.back());
      if (between(0, 2) > 0) continue;
      const Course other{between(0, 60), between(1, 100), 0, 0};
      courses.add(other);
      courses.remove(other);
    }
    const std::int64_t most = most_taken(list, block);
    EXPECT_FALSE(courses.last(most - 1, block));
    EXPECT_TRUE(courses.last(most + std::ssize(list) * (block - 1) / block, block));
    enough += courses.last(most, block) ? 1 : 0;
  }
  EXPECT_GT(enough, 0);
}

TEST(Courses, AStreamThatBeginsLateUsesWhatTheOthersGiveBack) {
  // 40 blocks of 16: two streams of 400 do not fit side by side, but the second may begin when the first has 250.
  Courses courses;
  courses.add({.left = 150, .len = 265, .held = 17, .owned = 17});
  const Course late{.left = 400, .len = 15, .held = 0, .owned = 0};
  courses.add(late);
  EXPECT_TRUE(courses.last(40 - 17, 16));
  courses.remove(late);
  courses.remove({.left = 150});
  courses.add({.left = 390, .len = 25, .held = 2, .owned = 2});
  courses.add(late);
  EXPECT_FALSE(courses.last(40 - 2, 16));
}

}  // namespace
}  // namespace met::scheduler
