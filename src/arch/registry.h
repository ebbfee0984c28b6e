// Which recipe builds which model type.
#pragma once

#include "arch/model_builder.h"

namespace met::arch {

/// Describes the model to the builder, layer by layer. One file a family, at most 200 lines.
using Recipe = Result<> (*)(const config::ModelConfig& config, ModelBuilder& model);

/// First pass: checks names, shapes and types of every tensor that `config`'s recipe asks for, and adds up
/// what loading will take. Errors: no recipe; a list of all tensors that do not fit.
Result<> check_model(const config::ModelConfig& config, layers::WeightLoader& weights);
/// Second pass: loads them.
Result<std::unique_ptr<Model>> build_model(const config::ModelConfig& config, layers::WeightLoader& weights);

Result<> build_gemma3(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_llama(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_qwen2(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_qwen3(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_smollm3(const config::ModelConfig& config, ModelBuilder& model);

}  // namespace met::arch
