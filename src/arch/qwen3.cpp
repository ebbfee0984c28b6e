// Qwen3 dense, 0.6B to 32B: each query and key head is normalised before its rotation.
// Sources: arXiv:2505.09388; config.json of the checkpoints.
#include "arch/registry.h"

namespace met::arch {

Result<> build_qwen3(const config::ModelConfig& config, ModelBuilder& model) {
  MET_TRY(model.embedding());
  for (int layer = 0; layer < config.layers; ++layer) {
    const config::LayerConfig& own = config.layer[static_cast<std::size_t>(layer)];
    MET_TRY(model.attention(layer, {.window = own.window, .rope = &config.rope, .qk_norm = true}));
    MET_TRY(model.ffn(layer, {}));
  }
  return model.head();
}

}  // namespace met::arch
