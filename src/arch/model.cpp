#include "arch/model.h"

namespace met::arch {

Model::Model(config::ModelConfig config, Embedding embedding,
             std::vector<std::unique_ptr<layers::TransformerLayer>> stack,
             std::vector<layers::AttentionLayer*> attention, layers::Projection head)
    : config_(std::move(config)),
      embedding_(std::move(embedding)),
      stack_(std::move(stack)),
      attention_(std::move(attention)),
      head_(std::move(head)) {}

Result<> Model::forward(const layers::StepBuffers& b, gpu::Stream stream) const {
  MET_TRY(ops::embedding(embedding_.plan, b.ids, embedding_.table, b.tokens(), b.hidden, stream));
  for (const auto& layer : stack_) MET_TRY(layer->forward(b, stream));
  return head_.run({.x = b.hidden,
                    .gather = b.logit_rows,
                    .y = b.logits,
                    .rows = b.logit_count(),
                    .workspace = b.workspace},
                   stream);
}

}  // namespace met::arch
