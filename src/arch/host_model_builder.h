// Builds a model of the CPU's layers.
#pragma once

#include <memory>
#include <vector>

#include "arch/model.h"
#include "arch/model_builder.h"
#include "arch/weight_names.h"
#include "layers/ffn_layer.h"
#include "layers/moe_layer.h"
#include "layers/weight_loader.h"

namespace met::arch {

class HostModelBuilder final : public ModelBuilder {
 public:
  HostModelBuilder(const config::ModelConfig& config, layers::WeightLoader& weights,
                   std::span<const WeightName> names);

  Result<> embedding() override;
  Result<> attention(int layer, const AttentionPart& part) override;
  Result<> ffn(int layer, const FfnPart& part) override;
  Result<> moe(int layer) override;
  Result<> head() override;
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
