// Flags and the hardware's defaults → what the scheduler is started with. One way for the server and for the
// simulator, so that what was compared is what runs.
#pragma once

#include "config/settings.h"
#include "engine/recurrent_switches.h"
#include "kernels/resolve.h"
#include "scheduler/engine.h"

namespace met::engine {

/// What a plan depends on of the device, and of the model.
struct DeviceTraits {
  bool feeds_ids = false;       ///< sampled ids stay on it, so that two steps can be in flight (E6)
  bool unified_memory = false;  ///< the CPU
  RecurrentTraits recurrent;
};

/// All but `blocks_total`, which is the memory plan's. Errors: a switch that cannot take effect (P3).
Result<scheduler::PlanConfig> plan_config(const config::Settings& settings, const kernels::Hardware& hardware,
                                          const DeviceTraits& device, std::int64_t max_seq_len);

/// All but what names the model: `vocab_size`, `cache_identity` and `cache_key`.
scheduler::EngineConfig engine_config(const config::Settings& settings, const scheduler::PlanConfig& plan);

}  // namespace met::engine
