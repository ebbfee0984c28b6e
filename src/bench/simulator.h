// Replays a trace of requests through the real scheduler and block manager on a virtual clock: the same tick
// loop, door and channels as the server's, over a device that only takes time. One replica or many behind a
// router. Rules E5, T2; docs/simulation.md.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "bench/fine_histogram.h"
#include "bench/replica_router.h"
#include "bench/request_trace.h"
#include "bench/simulated_device.h"
#include "scheduler/engine.h"

namespace met::bench {

struct SimulationOptions {
  scheduler::EngineConfig engine;  ///< of each replica
  StepTime time;
  int replicas = 1;
  Router router = Router::kLeastLoaded;
};

/// Times in microseconds from arrival at the router.
struct Latencies {
  FineHistogram first_token;
  FineHistogram between_tokens;  ///< gaps between successive emissions
  FineHistogram whole;           ///< of requests that finished
  friend bool operator==(const Latencies&, const Latencies&) = default;
};

struct Simulated {
  std::int64_t requests = 0;
  std::int64_t finished = 0;
  std::int64_t refused = 0;        ///< more than --max-num-seqs on their replica
  std::int64_t too_long = 0;       ///< can never run
  std::int64_t left = 0;           ///< their client went
  std::int64_t ended_early = 0;    ///< by a time limit or an error
  std::int64_t duration_us = 0;    ///< from the first arrival to the last event
  std::int64_t prompt_tokens = 0;  ///< of requests that were admitted
  std::int64_t output_tokens = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t swaps = 0;  ///< of them
  std::int64_t recomputed_tokens = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t evictions = 0;
  std::int64_t states_stored = 0;  ///< checkpoints of recurrent state
  std::int64_t states_restored = 0;
  std::int64_t steps = 0;
  std::int64_t busy_us = 0;       ///< of all replicas' devices
  std::int64_t waiting_most = 0;  ///< on one replica
  double queued_s = 0;            ///< mean time until admission
  std::int64_t skips_most = 0;    ///< ticks in a row without an admission round (S11)
  Latencies all;
  std::map<std::uint64_t, Latencies> tenants;  ///< where the trace has more than one
  friend bool operator==(const Simulated&, const Simulated&) = default;
};

/// Equal arguments give equal results. Errors: those of validate(PlanConfig); kInternal when a replica did not get
/// everything back, which is a defect.
Result<Simulated> simulate(std::span<const TracedRequest> trace, const SimulationOptions& options);

}  // namespace met::bench
