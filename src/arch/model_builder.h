// What a recipe talks to: it names parts of a model in order, the builder finds, loads and joins them.
#pragma once

#include <memory>
#include <vector>

#include "arch/model.h"
#include "arch/weight_names.h"
#include "layers/ffn_layer.h"
#include "layers/weight_loader.h"

namespace met::arch {

/// What a recipe says of one attention block; sizes and biases come from the configuration.
struct AttentionPart {
  int window = 0;
  const config::RopeConfig* rope = nullptr;  ///< null: no position embedding
  bool qk_norm = false;
  bool post_norm = false;
  float scale = 0;  ///< 0: 1 / sqrt(head_dim)
};

class ModelBuilder {
 public:
  ModelBuilder(const config::ModelConfig& config, layers::WeightLoader& weights,
               std::span<const WeightName> names);

  Result<> embedding();
  Result<> attention(int layer, const AttentionPart& part);
  Result<> ffn(int layer, bool post_norm = false);
  /// Final norm and head; a tied head multiplies by the embedding table.
  Result<> head();
  std::unique_ptr<Model> finish();

 private:
  std::string name(Role role, int layer = -1) const { return weight_name(names_, role, layer); }
  ops::LinearShape shape(std::int64_t ldx, std::int64_t ldy, Epilogue epilogue = Epilogue::kStore) const;

  const config::ModelConfig& config_;
  layers::WeightLoader& weights_;
  std::span<const WeightName> names_;
  Model::Embedding embedding_;
  ops::LinearPack embedding_pack_;
  std::vector<std::unique_ptr<layers::TransformerLayer>> stack_;
  std::vector<layers::AttentionLayer*> attention_;
  layers::Projection head_;
};

}  // namespace met::arch
