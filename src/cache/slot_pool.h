// Places for swapped blocks in one tier, host memory or disk: numbers alone. Model-free, no device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"

namespace met::cache {

using SwapSlot = std::int32_t;

/// Slots 0 … total - 1; the one that was given back last is taken first. Not thread-safe. Nothing allocates after
/// construction but the tables of those who take.
class SlotPool {
 public:
  explicit SlotPool(std::int32_t total) : total_(total) {
    free_.reserve(static_cast<std::size_t>(total));
    for (SwapSlot slot = total; slot-- > 0;) free_.push_back(slot);
  }
  std::int32_t total() const { return total_; }
  std::int32_t free() const { return static_cast<std::int32_t>(free_.size()); }

  /// Appends `count` slots to `table`; there must be as many.
  void take(std::int64_t count, std::vector<SwapSlot>& table) {
    MET_CHECK(count <= free(), "more slots than are free");
    for (; count > 0; --count) {
      table.push_back(free_.back());
      free_.pop_back();
    }
  }
  void give_back(std::span<const SwapSlot> slots) {
    MET_CHECK(std::ssize(free_) + std::ssize(slots) <= total_, "slots given back twice");
    free_.insert(free_.end(), slots.begin(), slots.end());
  }

 private:
  std::int32_t total_;
  std::vector<SwapSlot> free_;  ///< a stack
};

}  // namespace met::cache
