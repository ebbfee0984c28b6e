// Argument structs of the CUDA kernels of mixture-of-experts layers; conventions as cuda_ops.h. A file of its own: kernels
// that do not include it need not be compiled again with it.
#pragma once

#include "met/cuda_ops.h"
#include "met/moe_pairs.h"

namespace met {

/// Up to these sizes a router may leave the tokens' choices, and `moe_gemm` puts the pairs in order.
constexpr int kMoeOrderTokens = 256;
constexpr int kMoeOrderPairs = 2048;
constexpr int kMoeOrderExperts = 128;

/// Router of a mixture layer (module `moe_router`): p = softmax_e(x[t] . router[e]); the top_k greatest are chosen, of equal
/// ones the lower e; weights are their p, divided by their sum where `renormalise`. Module `moe_choose` leaves the pairs to
/// `moe_gemm`: it writes choices and pairs.weights, and needs no scratch.
struct MoeRouterArgs {
  const Bf16Bits* x;       // [tokens, hidden]
  RowSquares norm;         // parts null: x is normalised; else x / rms(row) is, and is stored to `normed`
  Bf16Bits* normed;        // [tokens, hidden]
  const Bf16Bits* router;  // [experts, hidden]
  MoePairs pairs;
  std::int32_t* choices;  // [tokens, top_k] experts of a token, its greatest probability first
  const StepCounts* counts;
  std::int32_t hidden;
  std::int32_t experts;
  std::int32_t top_k;
  std::int32_t renormalise;
  float* logits;           // [tokens, experts] scratch
  std::int32_t* finished;  // [ceil(tokens / 16) + 1], zero before and after each launch
};

/// Products of few tokens with their experts (module `moe_few`), which are chosen from the router's logits as MoeRouterArgs
/// says; pairs lie in order of experts, then of tokens.
///   moe_few_gate_up  y[p, i] = act(gate_i . x[t]) * (up_i . x[t]), t the token of pair p; rows of an expert's W alternate 8
///                    of gate, 8 of up
///   moe_few_down     h = residual[t] + sum_p weight_p * (W_p x[p]), then as ProjectionArgs with kResidual
struct MoeFewArgs {
  const float* logits;  // [tokens, experts]
  const StepCounts* counts;
  const void* weights;  // [experts, n, k] BF16 or E4M3
  /// E4M3: [experts, n], or where block_scales [experts, ceil(n / 128), ceil(k / 128)]; of gate and up the blocks of each,
  /// [experts, ceil(n / 256), 2, ceil(k / 128)]; else null
  const float* weight_scales;
  const Bf16Bits* x;       // [tokens, k], or [pairs, k]
  Bf16Bits* y;             // [pairs, n / 2]
  Bf16Bits* residual;      // [tokens, n], as scaled
  const float* next_norm;  // [n]
  Bf16Bits* scaled;
  float* squares;  // [tokens, n / 16]
  std::int32_t experts;
  std::int32_t top_k;
  std::int32_t renormalise;
  std::int32_t n;
  std::int32_t k;
  std::int32_t block_scales;
  Epilogue epilogue;  // kSiluMul or kGeluMul
};

/// Products of a mixture layer (module `moe_gemm`): for each place p of expert e
///   s[n] = sum_k W[e, n, k] x[row, k], row = tokens[p] where `gathers`, else p
///   kStore   y[p, n] = s;   kSiluMul, kGeluMul  rows of W alternate 8 of gate, 8 of up; y[p, n / 2] = act(gate) * up
/// Where choices are given, of the pairs only `places` is, in order of experts, then of tokens: stored where `gathers`.
/// Without `gathers` pairs or choices are not of the kernel in front, but older.
struct MoeGemmArgs {
  DeviceTensorMap weights;     // [experts * n, k] BF16 or E4M3
  const float* weight_scales;  // E4M3: as MoeFewArgs; else null
  const void* x;               // [rows, k], of the weights' type
  const float* x_scales;       // E4M3: [ceil(k / 128), x_scales_ld]; else null
  MoePairs pairs;
  const std::int32_t* choices;  // as MoeRouterArgs, or null
  const StepCounts* counts;
  Bf16Bits* y;  // [pairs, ldy]
  std::int64_t ldy;
  std::int32_t experts;
  std::int32_t top_k;
  std::int32_t n;
  std::int32_t k;
  std::int32_t gathers;
  std::int32_t x_scales_ld;
  std::int32_t block_scales;
  Epilogue epilogue;
};

/// Sum over a token's experts, in the order of its choice (module `moe_combine`):
///   h = bf16(residual[t] + sum_j weights[t, j] * y[places[t, j]]), stored back; then as ResidualNormArgs
/// Only y comes from the kernel in front.
struct MoeCombineArgs {
  Bf16Bits* residual;  // [tokens, dim]
  const Bf16Bits* y;   // [pairs, dim]
  MoePairs pairs;
  const float* norm;       // [dim] or null
  Bf16Bits* normed;        // [tokens, dim] h / rms(h) * norm
  const float* next_norm;  // [dim] or null
  Bf16Bits* scaled;        // [tokens, dim] h * next_norm
  float* squares;          // [tokens, 1]
  const StepCounts* counts;
  std::int64_t dim;
  std::int32_t top_k;
  float eps;
};

}  // namespace met
