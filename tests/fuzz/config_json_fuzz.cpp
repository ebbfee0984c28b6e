// JSON text → config.json and generation_config.json. What is accepted keeps the bounds that recipes rely on.
#include <cstdint>
#include <string_view>

#include "config/read_model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = met::json::parse({reinterpret_cast<const char*>(data), size});
  if (!document) return 0;
  const auto generation = met::config::generation_defaults_from_json(*document);
  if (!generation) MET_CHECK(!generation.error().field.empty());
  const auto config = met::config::model_config_from_json(*document);
  if (!config) {
    MET_CHECK(!config.error().message.empty() && !config.error().field.empty());
    return 0;
  }
  MET_CHECK(config->hidden > 0 && config->heads > 0 && config->kv_heads > 0 && config->ffn > 0);
  MET_CHECK(config->heads % config->kv_heads == 0 && config->head_dim % 2 == 0);
  MET_CHECK(config->layers == static_cast<int>(config->layer.size()));
  MET_CHECK(config->rope.theta > 0 && config->vocabulary > 0 && config->max_positions > 0);
  return 0;
}
