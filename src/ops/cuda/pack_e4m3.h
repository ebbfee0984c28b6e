// BF16 weights to E4M3 on the device, while they are loaded.
#pragma once

#include "gpu/backend.h"

namespace met::ops::cuda {

/// Formula and layout: kernels/nvidia/common/pack_e4m3.cu.
struct PackE4m3Plan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
};
Result<PackE4m3Plan> plan_pack_e4m3(gpu::GpuBackend& device);
/// w: BF16 [rows, k] → q: E4M3 [rows, k], scales: F32 [rows]. k is a multiple of 16.
Result<> pack_e4m3(const PackE4m3Plan& plan, gpu::DevicePtr w, gpu::DevicePtr q, gpu::DevicePtr scales,
                   std::int64_t rows, std::int64_t k, gpu::Stream stream);

}  // namespace met::ops::cuda
