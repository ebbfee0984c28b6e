// The serving engine: one thread that owns every sequence and block, one that runs the device, and the client
// that the outside talks to.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/clock.h"
#include "core/siphash.h"
#include "scheduler/device.h"
#include "scheduler/plan.h"
#include "scheduler/request.h"
#include "scheduler/spill.h"

namespace met::scheduler {

/// Numbers fixed at start. Defaults are those of the contract.
struct EngineConfig {
  PlanConfig plan;
  int max_num_seqs = 128;  ///< accepted and not ended (E12)
  int vocab_size = 0;      ///< ids of a request must be below; 0: not checked
  bool prefix_caching = true;
  std::string cache_identity;                 ///< model fingerprint and KV format: the root of B3
  SipKey cache_key{};                         ///< from the system at start; fixed in traces (B3)
  std::int64_t request_timeout_us = 0;        ///< of requests without their own; 0: none (R7)
  std::int64_t step_timeout_us = 60'000'000;  ///< a longer step is a device failure (F5)
  std::int64_t slow_consumer_us = 5'000'000;  ///< a full channel without progress for so long ends (R11)
  std::int64_t block_bytes = 0;               ///< of K and V of all layers, for the numbers of swaps
  std::int64_t swap_block_ns = 0;  ///< of a block to the host pool and back, measured at start; 0: unknown
  int channel_tokens = 1024;       ///< ids that a choice's channel holds (R11)
};

/// Runs until it is destroyed; then live requests end with `cancelled` and the threads are joined.
/// `on_fault` is called once, from the engine's thread, after a device failure has ended every request with
/// kDevice (F4); it is where the process arranges its exit.
/// `device` is used from the executor's thread alone and must outlive the engine, as must `clock` and `spill`, which may be
/// null where the configuration has no places on disk.
/// Errors: those of validate(PlanConfig).
Result<std::unique_ptr<Client>> start_engine(const EngineConfig& config, Device& device, const Clock& clock,
                                             std::function<void(const Error&)> on_fault,
                                             Spill* spill = nullptr);

}  // namespace met::scheduler
