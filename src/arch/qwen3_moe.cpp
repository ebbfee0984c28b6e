// Qwen3 mixtures of experts, 30B-A3B and 235B-A22B: as Qwen3, with a router and experts in place of the feed-forward block
// of sparse layers. Sources: arXiv:2505.09388; config.json of the checkpoints.
#include "arch/registry.h"

namespace met::arch {

Result<> build_qwen3_moe(const config::ModelConfig& config, ModelBuilder& model) {
  MET_TRY(model.embedding());
  for (int layer = 0; layer < config.layers; ++layer) {
    const config::LayerConfig& own = config.layer[static_cast<std::size_t>(layer)];
    MET_TRY(model.attention(layer, {.window = own.window, .rope = &config.rope, .qk_norm = true}));
    MET_TRY(own.sparse ? model.moe(layer) : model.ffn(layer, {}));
  }
  return model.head();
}

}  // namespace met::arch
