// Llama 2 to 3.x and Mistral: pre-norm blocks, grouped-query attention, SiLU-gated feed-forward.
// Sources: arXiv:2302.13971, arXiv:2407.21783, arXiv:2310.06825; config.json of the checkpoints.
#include "arch/registry.h"

namespace met::arch {

Result<> build_llama(const config::ModelConfig& config, ModelBuilder& model) {
  MET_TRY(model.embedding());
  for (int layer = 0; layer < config.layers; ++layer) {
    const config::LayerConfig& own = config.layer[static_cast<std::size_t>(layer)];
    MET_TRY(model.attention(layer, {.window = own.window, .rope = &config.rope}));
    MET_TRY(model.ffn(layer, {}));
  }
  return model.head();
}

}  // namespace met::arch
