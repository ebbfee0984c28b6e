// SmolLM3: as Llama, with layers that carry no position embedding.
// Sources: arXiv:2501.18795 (mixing layers with and without rotation); config.json of the checkpoints.
#include "arch/registry.h"

namespace met::arch {

Result<> build_smollm3(const config::ModelConfig& config, ModelBuilder& model) {
  MET_TRY(model.embedding());
  for (int layer = 0; layer < config.layers; ++layer) {
    const config::LayerConfig& own = config.layer[static_cast<std::size_t>(layer)];
    MET_TRY(model.attention(layer, {.window = own.window, .rope = own.rope ? &config.rope : nullptr}));
    MET_TRY(model.ffn(layer, {}));
  }
  return model.head();
}

}  // namespace met::arch
