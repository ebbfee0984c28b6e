// Head norms, rotary embedding and the cache write of prefill tokens on CUDA devices.
#pragma once

#include "core/dtype.h"
#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// Formula, rounding and cost: kernels/nvidia/common/rope_kv.cu. Everything that may differ from layer to layer is in
/// RopeKvDeviceArgs; one plan serves all layers of a step.
///
/// Errors   kUnsupported for a head_dim or rotary_dim that is no multiple of 16 or too large, or another cache type.
struct RopeKvShape {
  int head_dim = 0;
  int rotary_dim = 0;          ///< 0: no rotation
  DType cache = DType::kBF16;  ///< or F8E4M3
  int tokens_max = 0;          ///< of a step, decode tokens counted
};

struct RopeKvPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  gpu::Dim3 grid;
};

Result<RopeKvPlan> plan_rope_kv(gpu::GpuBackend& device, const RopeKvShape& shape);
Result<> rope_kv(const RopeKvPlan& plan, const RopeKvDeviceArgs& args, gpu::Stream stream);
/// The launch alone, for a caller that enqueues it itself.
gpu::KernelLaunch rope_kv_launch(const RopeKvPlan& plan, const RopeKvDeviceArgs& args);

}  // namespace met::ops::cuda
