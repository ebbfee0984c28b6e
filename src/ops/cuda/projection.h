// Matrix products of a decode step on CUDA devices, with norm, bias, residual and activation fused.
#pragma once

#include "core/dtype.h"
#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// One projection of a step that has room for `tokens` rows. Formula, rounding and cost: ProjectionArgs and
/// kernels/hopper/common/projection.cu, projection_e4m3.cu.
///
/// Errors   kUnsupported, naming the size: k no multiple of 8 (E4M3: 16), tokens out of 1 … 256 (E4M3: 32), n no multiple
///          of 16 with a gated epilogue, another weight type.
inline constexpr int kProjectionTokensE4m3 = 32;
/// That share a scale in CodedRows.
inline constexpr int kScaleValues = 32;

struct ProjectionShape {
  std::int64_t n = 0;  ///< rows of W, gate and up counted
  std::int64_t k = 0;
  int tokens = 0;                ///< rows of x at most, 1 … 256; rounded up to 8, 16, 32, 64, 128 or 256
  int tokens_max = 0;            ///< rows that x has in memory
  DType weights = DType::kBF16;  ///< or F8E4M3
  bool block_scales = false;     ///< E4M3: weight_scales are of blocks
  Epilogue epilogue = Epilogue::kStore;
  bool coded = false;  ///< E4M3, gated or residual: rows may go out as codes
  int shared_max =
      0;  ///< bytes of shared memory a block takes at most, so that another kernel fits beside it; 0: all
};

struct ProjectionPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  ProjectionShape shape;
  ProjectionTile tile;
  int columns = 0;  ///< of the batch side: tokens, rounded up
  gpu::Dim3 grid, block;
  std::uint32_t shared_bytes = 0;
  int squares_count = 0;  ///< parts that kResidual writes for each row of the residual
};

/// Addresses of one launch; what ProjectionArgs calls optional may be 0.
struct ProjectionTensors {
  gpu::DevicePtr weights;        ///< [n, k]
  gpu::DevicePtr x;              ///< [tokens_max, ldx], the first k values of a row; E4M3 with E4M3 weights
  gpu::DevicePtr x_scales;       ///< F32, E4M3 only: [ceil(k / 128), plan.columns, 4]
  gpu::DevicePtr counts;         ///< StepCounts
  gpu::DevicePtr weight_scales;  ///< F32, E4M3 only: as ProjectionArgs
  gpu::DevicePtr bias;           ///< [n] F32
  RowSquares norm;
  gpu::DevicePtr residual;
  gpu::DevicePtr y;
  gpu::DevicePtr next_norm;  ///< [n] F32
  gpu::DevicePtr scaled;
  gpu::DevicePtr squares;  ///< [tokens, plan.squares_count] F32
  CodedRows coded;         ///< as ProjectionArgs
  std::int64_t ldx = 0;    ///< values from one row of x to the next, a multiple of 8 (E4M3: 16); 0: k
  std::int64_t ldy = 0;
  bool logits = false;  ///< rows = counts->logits
  bool y_f32 = false;
};

Result<ProjectionPlan> plan_projection(gpu::GpuBackend& device, const ProjectionShape& shape);
/// The same with a tile of the caller's choice (rows, split, teams, chunks and flight; 0: all stages), to measure it.
Result<ProjectionPlan> plan_projection(gpu::GpuBackend& device, const ProjectionShape& shape,
                                       const ProjectionTile& tile);

Result<> projection(const ProjectionPlan& plan, const ProjectionTensors& tensors, gpu::Stream stream);
/// The launch alone, for a caller that enqueues it itself.
Result<gpu::KernelLaunch> projection_launch(const ProjectionPlan& plan, const ProjectionTensors& tensors);

}  // namespace met::ops::cuda
