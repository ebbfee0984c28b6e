// A clock that stands where it is set.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/clock.h"

namespace met {

/// Not thread-safe.
class VirtualClock final : public Clock {
 public:
  std::int64_t now_us() const override { return now_us_; }
  /// Never goes back.
  void set(std::int64_t now_us) { now_us_ = std::max(now_us_, now_us); }

 private:
  std::int64_t now_us_ = 0;
};

}  // namespace met
