// Products of many tokens on CUDA devices with tensor cores that read shared memory (sm_90a).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// Formula, layouts, rounding and cost: kernels/hopper/common/gemm.cu.
///
/// A plan serves any count of tokens up to tokens_max, fastest from some half of it on: a step that runs at several
/// sizes has a plan for each. Weights and epilogue are a launch's arguments; plans of equal shape are equal.
///
/// Errors   kUnsupported, naming n or k that are no multiple of 8 (of 16 where gate and up alternate).
struct GemmShape {
  int n = 0;  ///< rows of W, gate and up counted
  int k = 0;
  int tokens_max = 0;
  Epilogue epilogue = Epilogue::kStore;
};

/// One way to cut the product: an entry of the kernel and what it needs.
struct GemmTile {
  std::string_view entry;
  int columns;       ///< rows of W in a tile; rows of x are 128
  int blocks;        ///< of a cluster
  int m_tiles;       ///< of a cluster, on the same rows of W
  int splits;        ///< of k over the cluster
  int shared_bytes;  ///< of a block
  double cost;       ///< of a tile's k, relative: columns over measured efficiency
};
std::span<const GemmTile> gemm_tiles();

struct GemmPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  const GemmTile* tile = nullptr;
  gpu::Dim3 grid;
};

Result<GemmPlan> plan_gemm(gpu::GpuBackend& device, const GemmShape& shape);
/// The same with a tile of gemm_tiles() instead of the one that is expected to be fastest.
Result<GemmPlan> plan_gemm(gpu::GpuBackend& device, const GemmShape& shape, const GemmTile& tile);

/// Tensor maps of both operands, the same for all plans.
Result<DeviceTensorMap> gemm_weights_map(gpu::GpuBackend& device, gpu::DevicePtr weights, int n, int k);
Result<DeviceTensorMap> gemm_x_map(gpu::GpuBackend& device, gpu::DevicePtr x, int tokens_max, int k);

Result<> gemm(const GemmPlan& plan, const GemmArgs& args, gpu::Stream stream);
/// The launch alone, for a caller that enqueues it itself.
gpu::KernelLaunch gemm_launch(const GemmPlan& plan, const GemmArgs& args);

}  // namespace met::ops::cuda
