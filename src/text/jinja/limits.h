// What one render may cost, and how a template fails.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace met::text::jinja {

/// Bounds on one template. A template comes from a checkpoint or a request, so it is hostile input.
struct Limits {
  std::size_t source_bytes_max = 1 << 20;
  std::uint64_t steps_max = 50'000'000;      ///< nodes evaluated, plus one for each 64 bytes or items handled
  std::int64_t time_ms_max = 3000;           ///< wall time of a render
  std::size_t output_bytes_max = 64U << 20;  ///< rendered text
  std::size_t memory_bytes_max = 512U << 20;  ///< live strings and containers of the render
  int depth_max = 600;                        ///< nested nodes, calls and containers
};

enum class FailureKind { kSyntax, kType, kValue, kUndefined, kSecurity, kRuntime, kRaised, kLimit };

/// Thrown inside this folder only; `Template` turns it into an Error. `kRaised` is the template's own
/// `raise_exception`.
struct Failure {
  FailureKind kind = FailureKind::kRuntime;
  std::string message;
  int line = 0;
  int column = 0;
};

[[noreturn]] inline void raise(FailureKind kind, std::string message) {
  throw Failure{kind, std::move(message), 0, 0};
}
[[noreturn]] inline void type_error(std::string message) { raise(FailureKind::kType, std::move(message)); }
[[noreturn]] inline void value_error(std::string message) { raise(FailureKind::kValue, std::move(message)); }

/// Counts what a render uses; each overrun is a kLimit failure.
class Budget {
 public:
  explicit Budget(const Limits& limits)
      : limits_(limits),
        deadline_(std::chrono::steady_clock::now() + std::chrono::milliseconds(limits.time_ms_max)) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ >= next_check_) check();
  }
  /// Work over `count` bytes or items.
  void scan(std::size_t count) { step(count / 64); }
  void take(std::size_t bytes) {
    live_bytes_ += bytes;
    if (live_bytes_ > limits_.memory_bytes_max) {
      live_bytes_ -= bytes;
      raise(FailureKind::kLimit,
            "the template needs more than " + std::to_string(limits_.memory_bytes_max) + " bytes of memory");
    }
  }
  void give(std::size_t bytes) { live_bytes_ -= bytes; }
  const Limits& limits() const { return limits_; }

  /// Nesting of the native stack.
  class Depth {
   public:
    explicit Depth(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.depth_max) {
        --budget_.depth_;
        raise(FailureKind::kLimit,
              "the template nests deeper than " + std::to_string(budget_.limits_.depth_max) + " levels");
      }
    }
    ~Depth() { --budget_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Budget& budget_;
  };

 private:
  void check() {
    constexpr std::uint64_t kStepsBetweenClocks = 4096;
    if (steps_ > limits_.steps_max)
      raise(FailureKind::kLimit,
            "the template takes more than " + std::to_string(limits_.steps_max) + " steps");
    if (std::chrono::steady_clock::now() > deadline_)
      raise(FailureKind::kLimit,
            "the template takes longer than " + std::to_string(limits_.time_ms_max) + " ms");
    next_check_ = std::min(limits_.steps_max + 1, steps_ + kStepsBetweenClocks);
  }

  Limits limits_;
  std::chrono::steady_clock::time_point deadline_;
  std::uint64_t steps_ = 0;
  std::uint64_t next_check_ = 0;
  std::size_t live_bytes_ = 0;
  int depth_ = 0;
};

}  // namespace met::text::jinja
