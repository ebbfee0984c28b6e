// What a recipe talks to: it names the parts of a model in order, a builder for the device finds, loads and joins them.
#pragma once

#include <cmath>

#include "config/model_config.h"
#include "core/error.h"

namespace met::arch {

/// What a recipe says of one attention block; sizes and biases come from the configuration.
struct AttentionPart {
  int window = 0;
  const config::RopeConfig* rope = nullptr;  ///< null: no position embedding
  bool qk_norm = false;
  bool post_norm = false;
  float scale = 0;  ///< 0: 1 / sqrt(head_dim)
};

/// The factor of q . k.
inline float attention_scale(const AttentionPart& part, int head_dim) {
  return part.scale != 0 ? part.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

/// What a recipe says of one feed-forward block.
struct FfnPart {
  bool post_norm = false;
};

/// Calls come in the model's order: embedding, then attention and ffn (or moe) of each layer, then head.
class ModelBuilder {
 public:
  virtual ~ModelBuilder() = default;
  virtual Result<> embedding() = 0;
  virtual Result<> attention(int layer, const AttentionPart& part) = 0;
  virtual Result<> ffn(int layer, const FfnPart& part) = 0;
  /// A mixture of experts in place of the feed-forward block; sizes come from the configuration.
  virtual Result<> moe(int layer) = 0;
  /// Final norm and head; a tied head multiplies by the embedding table.
  virtual Result<> head() = 0;
};

}  // namespace met::arch
