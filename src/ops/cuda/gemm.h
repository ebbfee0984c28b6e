// Matrix products of many tokens on CUDA devices, with bias, residual and activation fused.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/dtype.h"
#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// One product of a step that has room for tokens_max rows. Formula, layouts, rounding and cost:
/// kernels/hopper/common/gemm.cu, and gemm_e4m3.cu for E4M3 weights. Weights, rows and epilogue are a launch's arguments;
/// those of the plan and of its launches agree.
///
/// A plan serves any count of rows up to tokens_max, fastest from some half of it on.
///
/// Errors   kUnsupported, naming n that is no multiple of 8 (of 16 with a gated epilogue), k that is no multiple of 8
///          (E4M3: 16), or another weight type.
struct GemmShape {
  int n = 0;  ///< rows of W, gate and up counted
  int k = 0;
  int tokens_max = 0;
  DType weights = DType::kBF16;  ///< and x: BF16 or F8E4M3
  Epilogue epilogue = Epilogue::kStore;
  bool block_scales = false;  ///< E4M3: weights have a scale for 128 x 128 values, not for each row
  bool next_norm = false;     ///< launches give GemmArgs::scaled, for up to kGemmNormRows tokens
};

/// One way to cut the product: an entry of a kernel and what it needs.
struct GemmTile {
  std::string_view entry;
  DType weights;
  int columns;       ///< rows of W in a tile; rows of x are 128
  int blocks;        ///< of a cluster
  int m_tiles;       ///< of a cluster, on the same rows of W
  int splits;        ///< of k over the cluster
  int shared_bytes;  ///< of a block
  double ns_k;       ///< measured time of a tile: for each value of k,
  double us_tile;    ///< and what its start and end add
};
std::span<const GemmTile> gemm_tiles();
/// Whether the tile computes products of this shape.
bool serves(const GemmTile& tile, const GemmShape& shape);

struct GemmPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  GemmShape shape;
  const GemmTile* tile = nullptr;
  gpu::Dim3 grid;
  int squares_count = 0;  ///< parts that kResidual writes for each row where `next_norm`
};

Result<GemmPlan> plan_gemm(gpu::GpuBackend& device, const GemmShape& shape);
/// The same with a tile of gemm_tiles() instead of the one that is expected to be fastest.
Result<GemmPlan> plan_gemm(gpu::GpuBackend& device, const GemmShape& shape, const GemmTile& tile);

/// Tensor maps of both operands, the same for all plans. `type`: BF16 or F8E4M3.
Result<DeviceTensorMap> gemm_weights_map(gpu::GpuBackend& device, gpu::DevicePtr weights, int n, int k,
                                         DType type = DType::kBF16);
Result<DeviceTensorMap> gemm_x_map(gpu::GpuBackend& device, gpu::DevicePtr x, int rows, int k,
                                   DType type = DType::kBF16);

Result<> gemm(const GemmPlan& plan, const GemmArgs& args, gpu::Stream stream);
/// The launch alone, for a caller that enqueues it itself.
gpu::KernelLaunch gemm_launch(const GemmPlan& plan, const GemmArgs& args);

}  // namespace met::ops::cuda
