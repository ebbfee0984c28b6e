// Time, as a value that tests can drive.
#pragma once

#include <chrono>
#include <cstdint>

namespace met {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Microseconds; safe from any thread. Monotonic and without a meaning of its zero, unless the class says so.
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

/// Wall time since 1970: for what outlives the process.
class UnixClock final : public Clock {
 public:
  std::int64_t now_us() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace met
