// What the machine can do at most, measured at the start of a run: shares are against these, never against a
// data sheet.
#pragma once

#include "core/error.h"
#include "gpu/backend.h"

namespace met::bench {

/// Bytes a second that the device reads from memory beyond its caches.
Result<double> measure_read_bandwidth(gpu::GpuBackend& device);

/// Bytes a second that `threads` threads read together from memory beyond the caches: the best of several
/// passes over a buffer of 512 MiB.
double measure_read_bandwidth(int threads);

}  // namespace met::bench
