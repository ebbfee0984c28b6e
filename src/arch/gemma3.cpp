// Gemma 3 text: sliding and full layers with rotary bases of their own, normalised heads, norms on both sides
// of each block, scaled embeddings, GELU-gated feed-forward. Sources: arXiv:2503.19786; config.json of the
// checkpoints.
#include "arch/registry.h"

namespace met::arch {

Result<> build_gemma3(const config::ModelConfig& config, ModelBuilder& model) {
  MET_TRY(model.embedding());
  for (int layer = 0; layer < config.layers; ++layer) {
    const config::LayerConfig& own = config.layer[static_cast<std::size_t>(layer)];
    MET_TRY(model.attention(layer, {.window = own.window,
                                    .rope = own.local_rope ? &config.rope_local : &config.rope,
                                    .qk_norm = true,
                                    .post_norm = true,
                                    .scale = static_cast<float>(config.attention_scale)}));
    MET_TRY(model.ffn(layer, {.post_norm = true}));
  }
  return model.head();
}

}  // namespace met::arch
