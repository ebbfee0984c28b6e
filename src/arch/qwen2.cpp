// Qwen2 and Qwen2.5 dense: as Llama, with biases on query, key and value and a sliding window on the upper
// layers. Sources: arXiv:2407.10671; config.json of the checkpoints.
#include "arch/registry.h"

namespace met::arch {

Result<> build_qwen2(const config::ModelConfig& config, ModelBuilder& model) {
  MET_TRY(model.embedding());
  for (int layer = 0; layer < config.layers; ++layer) {
    const config::LayerConfig& own = config.layer[static_cast<std::size_t>(layer)];
    MET_TRY(model.attention(layer, {.window = own.window, .rope = &config.rope}));
    MET_TRY(model.ffn(layer, {}));
  }
  return model.head();
}

}  // namespace met::arch
