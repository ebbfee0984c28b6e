// The pairs (token, expert) of a mixture-of-experts layer, on every device. C++20, no dependencies.
#pragma once

#include <cstdint>

namespace met {

/// The pairs (token, expert) of a step, as a mixture layer's router leaves them: an expert's pairs have neighbouring
/// places, in any order.
struct MoePairs {
  std::int32_t* begin;   // [experts + 1] first place of each expert; the last: all pairs
  std::int32_t* tokens;  // [tokens * top_k] token of each place
  std::int32_t* places;  // [tokens, top_k] places of a token's pairs, its greatest probability first
  float* weights;        // [tokens, top_k] FP32
};

}  // namespace met
