// The one place where checkpoints of recurrent state are settled: how many, how often, and how a prompt's tail is saved.
// Rules H4, H6, H7, H9, P3.
#pragma once

#include "config/settings.h"
#include "scheduler/plan.h"

namespace met::engine {

/// What they depend on of the model and its kernel target.
struct RecurrentTraits {
  bool has_state = false;          ///< some layer's state is no function of the KV cache
  bool captures_midchunk = false;  ///< the target's prefill kernel saves the state inside a chunk
};

/// Errors: kUnsupported for a flag or key of the file that cannot take effect (P3). A variable of the environment that cannot
/// is no error: it may be meant for another model.
Result<scheduler::RecurrentConfig> resolve_recurrent(const config::Settings& settings,
                                                     const RecurrentTraits& traits);

}  // namespace met::engine
