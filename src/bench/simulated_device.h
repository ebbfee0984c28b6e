// A device that computes nothing and takes the time that a model of steps gives it. Rules T2, X2.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/request_trace.h"
#include "core/virtual_clock.h"
#include "scheduler/device.h"

namespace met::bench {

/// What a step takes: weights once, then by its tokens and by what they attend to. Defaults are those of
/// Qwen3-8B in BF16 on an H200, fitted to the tables of docs/performance.md.
struct StepTime {
  std::int64_t step_us = 4000;          ///< of every step
  std::int64_t mixed_us = 1500;         ///< more of one with decode rows and prefill: other kernels, no graph
  std::int64_t token_ns = 20'000;       ///< of each token
  std::int64_t context_ns = 32;         ///< of each position that a row finds in the cache
  std::int64_t pair_ps = 1200;          ///< of each pair of a prefill token and a position that it attends to
  std::int64_t swap_block_ns = 43'000;  ///< of each block to the host pool, or back: 2.25 MiB at 55 GB/s
  std::int64_t host_us = 50;  ///< from a plan to the start of its step; hidden while another one runs

  /// Of all but the swap copies.
  std::int64_t of(const scheduler::StepBatch& batch) const;
  std::int64_t of_swaps(const scheduler::StepBatch& batch) const;
};

/// Tokens of request i, which its sampler's seed names, are those of its traced text.
class SimulatedDevice final : public scheduler::Device {
 public:
  SimulatedDevice(const StepTime& time, std::span<const TracedRequest> requests, int rows,
                  VirtualClock& clock)
      : time_(time), requests_(requests), clock_(clock), rows_(static_cast<std::size_t>(rows)) {}

  Result<> enqueue(const scheduler::StepPlan& plan, const scheduler::StepBatch& batch) override;
  Result<> settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) override;
  /// Time in which a step ran.
  std::int64_t busy_us() const { return busy_us_; }

 private:
  struct DeviceRow {
    std::size_t request = 0;
    std::int64_t prompt = 0;
  };
  struct Step {
    std::int64_t done_us = 0;
    std::int64_t swap_us = 0;
    std::vector<scheduler::TokenId> ids;
  };

  const StepTime time_;
  const std::span<const TracedRequest> requests_;
  VirtualClock& clock_;
  std::vector<DeviceRow> rows_;
  std::array<Step, 2> steps_;
  std::uint64_t enqueued_ = 0;
  std::uint64_t settled_ = 0;
  std::int64_t last_done_us_ = 0;
  std::int64_t busy_us_ = 0;
};

}  // namespace met::bench
