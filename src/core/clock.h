// Monotonic time, as a value that tests can drive.
#pragma once

#include <chrono>
#include <cstdint>

namespace met {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Microseconds of one monotonic clock; its zero means nothing. Safe from any thread.
  virtual std::int64_t now_us() const = 0;
};

class SteadyClock final : public Clock {
 public:
  std::int64_t now_us() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace met
