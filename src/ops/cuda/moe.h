// Products of a mixture-of-experts layer and their sum on CUDA devices. Formulas: met/moe_ops.h.
#pragma once

#include "core/dtype.h"
#include "gpu/backend.h"
#include "met/moe_ops.h"

namespace met::ops::cuda {

/// Products of up to `tokens` tokens with the experts that a router chose for each. Rounding and cost:
/// kernels/hopper/common/moe_gemm.cu, moe_gemm_e4m3.cu.
///
/// Errors   kUnsupported, naming the size: k or n no multiple of 8, k of E4M3 or n with a gated epilogue none of 16, more
///          than 512 experts.
struct MoeGemmShape {
  std::int64_t n = 0;  ///< rows of an expert's W, gate and up counted
  std::int64_t k = 0;
  int experts = 0;
  int top_k = 0;
  int tokens = 0;  ///< of a step, at most: decides the tile, and so is part of what a row's bits depend on
  Epilogue epilogue = Epilogue::kStore;
  DType weights = DType::kBF16;  ///< or F8E4M3, as the rows they are multiplied by
};

struct MoeGemmPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  MoeGemmShape shape;
  int rows = 0;  ///< of W a tile
  gpu::Dim3 grid, block;
  std::uint32_t shared_bytes = 0;
};

struct MoeGemmTensors {
  DeviceTensorMap weights;       ///< moe_weights_map
  gpu::DevicePtr weight_scales;  ///< E4M3: as MoeGemmArgs has them
  bool block_scales = false;
  gpu::DevicePtr x;         ///< [tokens, k] where `gathers`, else [tokens * top_k, k] in the order of places
  gpu::DevicePtr x_scales;  ///< E4M3: as `quantise` leaves them
  std::int32_t x_scales_ld = 0;
  MoePairs pairs;
  gpu::DevicePtr choices;  ///< null where the router orders the pairs
  gpu::DevicePtr counts;   ///< StepCounts
  gpu::DevicePtr y;        ///< [tokens * top_k, ldy]
  std::int64_t ldy = 0;
  bool gathers = false;
};

Result<MoeGemmPlan> plan_moe_gemm(gpu::GpuBackend& device, const MoeGemmShape& shape);
/// How the kernel sees W [experts * n, k]; the same for plans of equal n, k and rows.
Result<DeviceTensorMap> moe_weights_map(const MoeGemmPlan& plan, gpu::DevicePtr weights);
gpu::KernelLaunch moe_gemm_launch(const MoeGemmPlan& plan, const MoeGemmTensors& tensors);

/// Sum over a token's experts, residual and norms. Errors   kUnsupported: dim no multiple of 8 or over 8192.
struct MoeCombinePlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  gpu::Dim3 grid, block;
};
Result<MoeCombinePlan> plan_moe_combine(gpu::GpuBackend& device, std::int64_t dim, int tokens_max);
gpu::KernelLaunch moe_combine_launch(const MoeCombinePlan& plan, const MoeCombineArgs& args);

}  // namespace met::ops::cuda
