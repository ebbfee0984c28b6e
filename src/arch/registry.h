// Which recipe builds which model type.
#pragma once

#include "arch/model_builder.h"

namespace met::arch {

/// Describes the model to the builder, layer by layer. One file a family, at most 200 lines.
using Recipe = Result<> (*)(const config::ModelConfig& config, ModelBuilder& model);

/// The recipe of a model_type. Error: kUnsupported with the list of those that exist.
Result<Recipe> find_recipe(std::string_view model_type);

/// Builds `config`'s model from `checkpoint` on `device`: find_recipe, run it, finish.
Result<std::unique_ptr<Model>> build_model(const config::ModelConfig& config, layers::WeightLoader& weights);

Result<> build_gemma3(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_llama(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_qwen2(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_qwen3(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_smollm3(const config::ModelConfig& config, ModelBuilder& model);

}  // namespace met::arch
