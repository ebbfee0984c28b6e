// Carries steps to the device and back. Rules E4, X2, F5.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "core/clock.h"
#include "core/siphash.h"
#include "scheduler/device.h"

namespace met::scheduler {

/// A checkpoint that a step writes: known once it has settled (B5).
struct Capture {
  std::int32_t slot = 0;
  std::int32_t sample = -1;  ///< of the step, whose flag speaks against it, or -1
  Hash128 identity{};
  std::int64_t blocks = 0;
  std::uint64_t session = 0;
};

/// The carrier of one step: made at start, one for each step in flight, used again after it settled.
struct StepSlot {
  StepPlan plan;
  StepBatch batch;
  StepResults results;
  std::vector<Capture> captures;
  std::int64_t started_us = 0;
  std::int64_t done_us = 0;
};

/// Used by the engine's thread alone. Steps finish in the order in which they start.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Takes a committed step. Does not wait for it.
  virtual void start(StepSlot& slot) = 0;
  /// Waits for the oldest step that was started. Errors: kDevice, also when `timeout_us` pass before it is
  /// done.
  virtual Result<> settle(StepSlot& slot, std::int64_t timeout_us) = 0;
};

/// Runs the device on the calling thread: tests, and nothing else that must stay responsive.
class InlineExecutor final : public Executor {
 public:
  InlineExecutor(Device& device, const Clock& clock) : device_(device), clock_(clock) {}
  void start(StepSlot& slot) override;
  Result<> settle(StepSlot& slot, std::int64_t timeout_us) override;

 private:
  Device& device_;
  const Clock& clock_;
  Result<> failed_;
};

/// Owns the one thread that calls the device.
class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(Device& device, const Clock& clock);
  ~ThreadExecutor() override;
  /// Waits for what was ordered and ends the thread. No slot is touched afterwards, also none of a step that
  /// took too long.
  void stop();
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void start(StepSlot& slot) override;
  Result<> settle(StepSlot& slot, std::int64_t timeout_us) override;

 private:
  /// What the thread does next, in order. Two steps in flight make four orders at most.
  struct Order {
    StepSlot* slot = nullptr;
    bool settle = false;
  };
  static constexpr std::size_t kOrdersMax = 8;

  void push(Order order);
  void run();

  Device& device_;
  const Clock& clock_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable ordered_;
  std::condition_variable done_;
  std::array<Order, kOrdersMax> orders_{};
  std::size_t pushed_ = 0;
  std::size_t taken_ = 0;
  std::int64_t settles_asked_ = 0;
  std::int64_t settles_done_ = 0;
  Result<> failed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace met::scheduler
