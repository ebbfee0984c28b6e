// Random weights made on the device (`--load-format dummy`).
#pragma once

#include "gpu/backend.h"

namespace met::ops::cuda {

/// w[i] uniform in +-0.035 (standard deviation 0.02, as models are initialised), from (seed, i) alone.
struct DummyWeightsPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
};
Result<DummyWeightsPlan> plan_dummy_weights(gpu::GpuBackend& device);
/// `count` BF16 values, a multiple of 8.
Result<> dummy_weights(const DummyWeightsPlan& plan, gpu::DevicePtr w, std::size_t count, std::uint64_t seed,
                       gpu::Stream stream);

}  // namespace met::ops::cuda
