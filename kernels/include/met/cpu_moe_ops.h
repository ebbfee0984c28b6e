// Argument structs of the CPU kernels of mixture-of-experts layers; conventions as ops.h, contracts in src/ops/moe/moe.h.
#pragma once

#include "met/moe_pairs.h"
#include "met/ops.h"

namespace met {

/// Rows [begin[e], begin[e + 1]) of a linear product meet matrix e.
struct ExpertLinearArgs {
  LinearArgs linear;          // rows: address of begin[experts]; no bias
  const std::int32_t* begin;  // [experts + 1]
  std::int64_t experts;
  std::int64_t expert_bytes;  // from one packed matrix to the next
};

/// Softmax over the experts, the top_k greatest, and the pairs in order of (expert, token).
struct MoeRouteArgs {
  float* logits;  // [tokens, experts]; contents are lost
  MoePairs pairs;
  const std::int32_t* tokens;
  std::int32_t experts;
  std::int32_t top_k;
  std::int32_t renormalise;  // 1: a token's weights sum to 1
};

/// hidden[t] += sum_j weights[t, j] * y[places[t, j]]
struct ExpertSumArgs {
  const float* y;  // [pairs, dim]
  MoePairs pairs;
  float* hidden;  // [tokens, dim]
  const std::int32_t* tokens;
  std::int64_t dim;
  std::int32_t top_k;
};

}  // namespace met
