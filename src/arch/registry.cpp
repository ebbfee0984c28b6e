#include "arch/registry.h"

#include <algorithm>

namespace met::arch {

namespace {

struct Family {
  std::string_view model_type;
  Recipe recipe;
  std::span<const WeightName> (*names)();
};

constexpr Family kFamilies[] = {
    {"gemma3", build_gemma3, gemma3_names},   {"gemma3_text", build_gemma3, gemma3_names},
    {"llama", build_llama, common_names},     {"mistral", build_llama, common_names},
    {"qwen2", build_qwen2, common_names},     {"qwen3", build_qwen3, common_names},
    {"smollm3", build_smollm3, common_names},
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

}  // namespace

Result<> check_model(const config::ModelConfig& config, layers::WeightLoader& weights) {
  MET_ASSIGN(const Family* family, find_family(config.model_type));
  ModelBuilder model(config, weights, family->names());
  MET_TRY(family->recipe(config, model));
  return weights.begin_loading();
}

Result<std::unique_ptr<Model>> build_model(const config::ModelConfig& config, layers::WeightLoader& weights) {
  MET_ASSIGN(const Family* family, find_family(config.model_type));
  ModelBuilder model(config, weights, family->names());
  MET_TRY(family->recipe(config, model));
  return model.finish();
}

}  // namespace met::arch
