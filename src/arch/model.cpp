#include "arch/model.h"

#include <algorithm>

namespace met::arch {

Model::Model(config::ModelConfig config, Embedding embedding,
             std::vector<std::unique_ptr<layers::TransformerLayer>> stack,
             std::vector<layers::AttentionLayer*> attention, Head head)
    : config_(std::move(config)),
      embedding_(std::move(embedding)),
      stack_(std::move(stack)),
      attention_(std::move(attention)),
      head_(std::move(head)) {}

Result<> Model::forward(const layers::StepBuffers& b, gpu::Stream stream) const {
  MET_TRY(ops::embedding(embedding_.plan, b.ids, embedding_.table, b.tokens(), b.hidden, stream));
  for (const auto& layer : stack_) MET_TRY(layer->forward(b, stream));
  return head_.projection.run(
      {.x = b.hidden, .gather = b.logit_rows, .y = b.logits, .rows = b.logit_count(), .workspace = b.workspace}, stream);
}

std::size_t Model::workspace_bytes(const layers::StepLimits& limits) const {
  std::size_t bytes = head_.projection.workspace_bytes(limits.logits);
  for (const auto& layer : stack_) bytes = std::max(bytes, layer->workspace_bytes(limits));
  return bytes;
}

}  // namespace met::arch
