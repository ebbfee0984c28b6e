// A mixture-of-experts layer for few tokens on CUDA devices: router, gate and up, down.
#pragma once

#include "core/dtype.h"
#include "gpu/backend.h"
#include "met/moe_ops.h"

namespace met::ops::cuda {

/// Formulas, rounding and cost: MoeRouterArgs (up to the logits), MoeFewArgs and kernels/nvidia/common/moe_few.cu, moe_few_e4m3.cu. A row's
/// bits depend on nothing else in the step. The three launches follow each other with nothing in between: `down` reads
/// the logits before it waits.
struct MoeFewShape {
  int hidden = 0;
  int width = 0;  ///< of an expert
  int experts = 0;
  int top_k = 0;
  int tokens = 0;  ///< of a step, at most
  bool renormalise = false;
  Epilogue activation = Epilogue::kSiluMul;
  DType gate_up = DType::kBF16;  ///< of their weights, or F8E4M3
  DType down = DType::kBF16;
};

struct MoeFewPlan {
  gpu::GpuBackend* device = nullptr;
  MoeFewShape shape;
  gpu::KernelHandle logits, gate_up, down;
  gpu::Dim3 logits_grid, gate_up_grid, down_grid, down_block;
  std::uint32_t gate_up_shared = 0;
  std::uint32_t down_shared = 0;
  /// Parts of a row's sum of squares that `down` leaves.
  int squares_count() const { return static_cast<int>(down_grid.x); }
};

/// Matrices of all experts, and of E4M3 their scales as MoeFewArgs has them.
struct ExpertWeights {
  gpu::DevicePtr data;
  gpu::DevicePtr scales;
  bool block_scales = false;
};

struct MoeFewTensors {
  gpu::DevicePtr counts;  ///< StepCounts
  gpu::DevicePtr x;       ///< [tokens, hidden] BF16, scaled as RowSquares tells
  RowSquares norm;        ///< of x
  gpu::DevicePtr router;  ///< [experts, hidden] BF16
  ExpertWeights gate_up;  ///< [experts, 2 width, hidden], rows alternate 8 of gate, 8 of up
  ExpertWeights down;     ///< [experts, hidden, width]
  gpu::DevicePtr normed;  ///< [tokens, hidden] scratch
  gpu::DevicePtr logits;  ///< F32 [tokens, experts] scratch
  gpu::DevicePtr y;       ///< [tokens * top_k, width] scratch
  gpu::DevicePtr residual;
  gpu::DevicePtr next_norm;
  gpu::DevicePtr scaled;
  gpu::DevicePtr squares;  ///< F32 [tokens, squares_count()]
};

/// Whether these kernels take the shape; wider steps and larger layers go through moe.h.
bool fits_moe_few(const MoeFewShape& shape);
/// Precondition: fits_moe_few.
Result<MoeFewPlan> plan_moe_few(gpu::GpuBackend& device, const MoeFewShape& shape);

gpu::KernelLaunch moe_few_logits_launch(const MoeFewPlan& plan, const MoeFewTensors& tensors);
gpu::KernelLaunch moe_few_gate_up_launch(const MoeFewPlan& plan, const MoeFewTensors& tensors);
gpu::KernelLaunch moe_few_down_launch(const MoeFewPlan& plan, const MoeFewTensors& tensors);
/// All three.
Result<> moe_few(const MoeFewPlan& plan, const MoeFewTensors& tensors, gpu::Stream stream);

}  // namespace met::ops::cuda
