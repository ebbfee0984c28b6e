// Collects a model's weights for a CUDA device.
#pragma once

#include <span>
#include <string>

#include "arch/model_builder.h"
#include "arch/weight_names.h"
#include "layers/cuda/decoder_weights.h"
#include "layers/cuda/matrix_loader.h"

namespace met::arch {

class CudaModelBuilder final : public ModelBuilder {
 public:
  CudaModelBuilder(const config::ModelConfig& config, layers::cuda::MatrixLoader& weights,
                   std::span<const WeightName> names)
      : config_(config), weights_(weights), names_(names) {}

  Result<> embedding() override;
  Result<> attention(int layer, const AttentionPart& part) override;
  Result<> ffn(int layer, const FfnPart& part) override;
  Result<> moe(int layer) override;
  Result<> head() override;
  layers::cuda::DecoderWeights finish() { return std::move(model_); }

 private:
  std::string name(Role role, int layer = -1) const { return weight_name(names_, role, layer); }
  Result<gpu::DeviceMemory> norm(Role role, int layer, std::int64_t size);

  const config::ModelConfig& config_;
  layers::cuda::MatrixLoader& weights_;
  std::span<const WeightName> names_;
  layers::cuda::DecoderWeights model_;
};

}  // namespace met::arch
