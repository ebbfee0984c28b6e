// Inverse frequencies of rotary position embeddings: a pure function of the configuration.
#pragma once

#include <vector>

#include "config/model_config.h"
#include "core/error.h"

namespace met::ops {

/// cos(position * inverse[i]) * scale and sin(...) * scale rotate pair i of a head.
struct RopeFrequencies {
  std::vector<float> inverse;  ///< [rotary_dim / 2]
  float scale = 1.0F;          ///< yarn's attention factor
  int rotary_dim = 0;
};

/// Frequencies for heads of `head_dim` values.
///
/// Errors   kUnsupported for kinds whose frequencies change with the length of the text (dynamic, longrope);
///          kInvalidArgument for factors that are not positive or a rotary dimension that is odd.
/// Source   RoFormer arXiv:2104.09864 (plain); position interpolation arXiv:2306.15595 (linear); NTK by parts
/// and
///          YaRN arXiv:2309.00071 (yarn); llama3: Llama 3.1's published rope_scaling rule.
Result<RopeFrequencies> rope_frequencies(const config::RopeConfig& rope, int head_dim);

}  // namespace met::ops
