// Rows of activations to E4M3 for the products of gemm_e4m3, RMS-normalised first where asked.
#pragma once

#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// Formula, rounding and cost: kernels/nvidia/common/quantise.cu.
///
/// Errors   kUnsupported for k that is no multiple of 16 or above 24,576, of pairs 6,144.
struct QuantiseShape {
  int k = 0;
  int tokens = 0;  ///< rows at most
};

/// The longest row.
inline constexpr int kQuantiseMax = 24'576;

struct QuantisePlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  gpu::Dim3 grid, block;
};

/// Values from the scales of one block of k to those of the next, for rows up to `tokens_max`.
constexpr int quantise_scales_ld(int tokens_max) { return (tokens_max + 127) / 128 * 128; }

/// Values of k that share a scale in the rows that `gemm` reads beside weights with such scales.
constexpr int gemm_scale_values(bool block_scales) {
  return block_scales ? kBlockScaleValues : kRowScaleValues;
}

Result<QuantisePlan> plan_quantise(gpu::GpuBackend& device, const QuantiseShape& shape);
Result<> quantise(const QuantisePlan& plan, const QuantiseArgs& args, gpu::Stream stream);
/// The launch alone, for a caller that enqueues it itself.
gpu::KernelLaunch quantise_launch(const QuantisePlan& plan, const QuantiseArgs& args);

/// For the many short rows of a mixture's experts, without a norm: `each` for every one of args.counts->tokens, at most
/// shape.tokens.
Result<QuantisePlan> plan_quantise_pairs(gpu::GpuBackend& device, const QuantiseShape& shape);
gpu::KernelLaunch quantise_pairs_launch(const QuantisePlan& plan, const QuantiseArgs& args,
                                        std::int32_t each);

}  // namespace met::ops::cuda
