// Norms of the residual stream, and the embedding that begins it, on CUDA devices.
#pragma once

#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// Formula, rounding and cost: kernels/nvidia/common/residual_norm.cu. One plan serves all norms of a step.
///
/// Errors   kUnsupported for a dim that is no multiple of 8 or beyond 32768.
struct ResidualNormShape {
  std::int64_t dim = 0;
  int rows_max = 0;
  bool fixed_order = false;  ///< a row's bits do not depend on rows_max (`--batch-invariant`)
};

struct ResidualNormPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  gpu::Dim3 grid;
  gpu::Dim3 block;
};

Result<ResidualNormPlan> plan_residual_norm(gpu::GpuBackend& device, const ResidualNormShape& shape);
/// args.dim is the plan's.
Result<> residual_norm(const ResidualNormPlan& plan, const ResidualNormArgs& args, gpu::Stream stream);
/// The launch alone, for a caller that enqueues it itself.
gpu::KernelLaunch residual_norm_launch(const ResidualNormPlan& plan, const ResidualNormArgs& args);

/// Formula, rounding and cost: kernels/nvidia/common/embedding.cu.
///
/// Errors   kUnsupported for a dim that is no multiple of 8.
struct EmbeddingDevicePlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  gpu::Dim3 grid;
};

Result<EmbeddingDevicePlan> plan_embedding_device(gpu::GpuBackend& device, std::int64_t dim, int tokens_max);
Result<> embedding_device(const EmbeddingDevicePlan& plan, const EmbeddingDeviceArgs& args,
                          gpu::Stream stream);
gpu::KernelLaunch embedding_device_launch(const EmbeddingDevicePlan& plan, const EmbeddingDeviceArgs& args);

}  // namespace met::ops::cuda
