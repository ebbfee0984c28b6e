// A built model: the layers of one checkpoint on one device.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "config/model_config.h"
#include "layers/attention_layer.h"
#include "ops/embedding/embedding.h"

namespace met::arch {

/// Everything that a forward pass needs but the buffers.
class Model {
 public:
  struct Embedding {
    ops::EmbeddingPlan plan;
    gpu::DevicePtr table;  ///< owned by `head` when tied, else by `owned`
    gpu::DeviceMemory owned;
  };

  Model(config::ModelConfig config, Embedding embedding,
        std::vector<std::unique_ptr<layers::TransformerLayer>> stack,
        std::vector<layers::AttentionLayer*> attention, layers::Projection head);

  /// Enqueues one step: embedding, layers, logits of the wanted rows.
  Result<> forward(const layers::StepBuffers& buffers, gpu::Stream stream) const;
  /// Gives attention layer i its part of the paged cache. Called once, before the first forward.
  void bind(std::size_t attention_layer, const layers::KvLayer& cache) {
    attention_[attention_layer]->bind(cache);
  }

  const config::ModelConfig& config() const { return config_; }
  std::size_t attention_layers() const { return attention_.size(); }
  const layers::AttentionSpec& attention_spec(std::size_t i) const { return attention_[i]->spec(); }

 private:
  config::ModelConfig config_;
  Embedding embedding_;
  std::vector<std::unique_ptr<layers::TransformerLayer>> stack_;
  std::vector<layers::AttentionLayer*> attention_;
  layers::Projection head_;  ///< final norm folded in; gathers the wanted rows
};

}  // namespace met::arch
