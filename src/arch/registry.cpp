#include "arch/registry.h"

#include <algorithm>

#include "arch/cuda_model_builder.h"
#include "arch/host_model_builder.h"

namespace met::arch {

namespace {

struct Family {
  std::string_view model_type;
  Recipe recipe;
  std::span<const WeightName> (*names)();
};

constexpr Family kFamilies[] = {
    {"gemma3", build_gemma3, gemma3_names},       {"gemma3_text", build_gemma3, gemma3_names},
    {"llama", build_llama, common_names},         {"mistral", build_llama, common_names},
    {"qwen2", build_qwen2, common_names},         {"qwen3", build_qwen3, common_names},
    {"qwen3_moe", build_qwen3_moe, common_names}, {"smollm3", build_smollm3, common_names},
};
static_assert(std::ranges::adjacent_find(kFamilies, std::ranges::greater_equal{}, &Family::model_type) ==
                  std::end(kFamilies),
              "sorted, and a doubled model_type does not compile");

Result<const Family*> find_family(std::string_view model_type) {
  const auto it = std::ranges::find(kFamilies, model_type, &Family::model_type);
  if (it != std::end(kFamilies)) return it;
  std::string known;
  for (const Family& family : kFamilies)
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  return unsupported("model_type",
                     "no recipe for model type '" + std::string(model_type) + "'; supported are " + known);
}

template <class Builder, class Loader>
Result<> check(const config::ModelConfig& config, Loader& weights) {
  MET_ASSIGN(const Family* family, find_family(config.model_type));
  weights.finder().declare(config);
  Builder builder(config, weights, family->names());
  MET_TRY(family->recipe(config, builder));
  return weights.finder().begin_loading();
}

}  // namespace

Result<> check_model(const config::ModelConfig& config, layers::WeightLoader& weights) {
  return check<HostModelBuilder>(config, weights);
}
Result<> check_model(const config::ModelConfig& config, layers::cuda::MatrixLoader& weights) {
  return check<CudaModelBuilder>(config, weights);
}

Result<std::unique_ptr<Model>> build_model(const config::ModelConfig& config, layers::WeightLoader& weights) {
  MET_ASSIGN(const Family* family, find_family(config.model_type));
  HostModelBuilder builder(config, weights, family->names());
  MET_TRY(family->recipe(config, builder));
  return builder.finish();
}

Result<layers::cuda::DecoderWeights> build_model(const config::ModelConfig& config,
                                                 layers::cuda::MatrixLoader& weights) {
  MET_ASSIGN(const Family* family, find_family(config.model_type));
  CudaModelBuilder builder(config, weights, family->names());
  MET_TRY(family->recipe(config, builder));
  MET_TRY(weights.finish());
  return builder.finish();
}

}  // namespace met::arch
