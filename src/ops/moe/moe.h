// A mixture-of-experts layer on the CPU: who goes where, the products, and their sum. The pairs are those of the CUDA
// kernels (met/moe_pairs.h), so that a layer reads the same on both.
#pragma once

#include "met/cpu_moe_ops.h"
#include "ops/linear/linear.h"

namespace met::ops {

/// Device addresses of MoePairs.
struct MoePairBuffers {
  gpu::DevicePtr begin, tokens, places, weights;
};

/// p = softmax_e(logits[t, e]); the top_k greatest are chosen, of equal ones the lower e; weights are their p, divided by
/// their sum where `renormalise`. Pairs of an expert lie in order of tokens.
///
/// Shapes   logits: [tokens, experts], lost; pairs as MoePairs; `tokens` is read on the device.
/// Rows     a token's choice and weights depend on its own logits alone, bit for bit.
/// Oracle   FP64, tests/ops/moe_test.cpp.
/// Cost     tokens * top_k * experts comparisons over all threads; the grouping is one thread's.
/// Source   Shazeer et al., Outrageously Large Neural Networks, arXiv:1701.06538; the order of Qwen3-MoE: softmax first.
struct MoeRoutePlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  int experts = 0;
  int top_k = 0;
  bool renormalise = false;
};
Result<MoeRoutePlan> plan_moe_route(gpu::GpuBackend& device, int experts, int top_k, bool renormalise);
Result<> moe_route(const MoeRoutePlan& plan, gpu::DevicePtr logits, const MoePairBuffers& pairs,
                   gpu::DevicePtr tokens, gpu::Stream stream);

/// As linear (ops/linear/linear.h) for place p of expert e: W is matrix e of `experts` alike, one behind the other.
///
/// Shapes   x, y: rows are places; with `gather` (pairs.tokens) x has a row a token. No bias.
/// Rows     y[p] depends on its own row and expert alone, bit for bit, and equals linear's with that matrix.
/// Cost     reads the matrices of chosen experts once up to 64 places each.
struct ExpertLinearPlan {
  LinearPlan linear;
  int experts = 0;
  std::size_t expert_bytes = 0;  ///< from one packed matrix to the next
};
/// Bytes from one packed matrix to the next.
inline std::size_t expert_stride(const LinearPack& pack) { return (pack.packed_bytes + 63) / 64 * 64; }
Result<ExpertLinearPlan> plan_expert_linear(gpu::GpuBackend& device, const LinearPack& pack,
                                            const LinearShape& shape, int experts);
/// `tensors.rows` is set here: all pairs.
Result<> expert_linear(const ExpertLinearPlan& plan, LinearTensors tensors, const MoePairBuffers& pairs,
                       gpu::Stream stream);

/// hidden[t] += sum_j weights[t, j] * y[places[t, j]], summed in the order of the choice.
///
/// Shapes   y: [pairs, dim]; hidden: [tokens, dim]; `tokens` is read on the device.
/// Rows     independent.
/// Oracle   FP64, tests/ops/moe_test.cpp.
struct ExpertSumPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  std::int64_t dim = 0;
  int top_k = 0;
};
Result<ExpertSumPlan> plan_expert_sum(gpu::GpuBackend& device, std::int64_t dim, int top_k);
Result<> expert_sum(const ExpertSumPlan& plan, gpu::DevicePtr y, const MoePairBuffers& pairs,
                    gpu::DevicePtr hidden, gpu::DevicePtr tokens, gpu::Stream stream);

}  // namespace met::ops
