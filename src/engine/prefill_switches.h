// The prefill mode of a process, from its settings and its hardware. Rule P3.
#pragma once

#include "config/settings.h"
#include "core/error.h"
#include "core/prefill_mode.h"
#include "kernels/table.h"

namespace met::engine {

/// A switch that is `auto` takes the hardware's [defaults], and where it has none, what PrefillMode begins with.
/// Errors: a switch that was turned on and cannot take effect, by its flag.
Result<PrefillMode> resolve_prefill_mode(const config::Settings& settings, const kernels::Hardware& hardware,
                                         int max_batch_size);

}  // namespace met::engine
