// Which recipe builds which model type.
#pragma once

#include <memory>

#include "arch/model.h"
#include "arch/model_builder.h"
#include "layers/cuda/decoder_weights.h"
#include "layers/cuda/matrix_loader.h"
#include "layers/weight_loader.h"

namespace met::arch {

/// Describes the model to the builder, layer by layer. One file a family, at most 200 lines.
using Recipe = Result<> (*)(const config::ModelConfig& config, ModelBuilder& model);

/// First pass: checks names, shapes and types of every tensor that `config`'s recipe asks for, and adds up
/// what loading will take. Errors: no recipe; a list of all tensors that do not fit.
Result<> check_model(const config::ModelConfig& config, layers::WeightLoader& weights);
Result<> check_model(const config::ModelConfig& config, layers::cuda::MatrixLoader& weights);
/// Second pass: loads them, for the CPU or for a CUDA device.
Result<std::unique_ptr<Model>> build_model(const config::ModelConfig& config, layers::WeightLoader& weights);
Result<layers::cuda::DecoderWeights> build_model(const config::ModelConfig& config,
                                                 layers::cuda::MatrixLoader& weights);

Result<> build_gemma3(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_llama(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_qwen2(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_qwen3(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_qwen3_moe(const config::ModelConfig& config, ModelBuilder& model);
Result<> build_smollm3(const config::ModelConfig& config, ModelBuilder& model);

}  // namespace met::arch
