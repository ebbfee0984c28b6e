// GGUF bytes → parser → every look-up → ModelConfig. Any outcome but a crash, a sanitizer's report or endless
// work is right; what parses must hold together.
#include <cstdint>
#include <span>

#include "config/read_model_config.h"
#include "formats/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = met::formats::GgufFile::parse(std::as_bytes(std::span(data, size)));
  if (!file) {
    MET_CHECK(!file.error().message.empty());
    return 0;
  }
  std::size_t sum = 0;
  for (const auto& [key, value] : file->metadata()) {
    MET_CHECK(file->find(key) == &value);
    if (const auto strings = value.strings()) {
      for (const std::string_view s : *strings)
        sum += s.size() + (s.empty() ? 0 : static_cast<unsigned char>(s.back()));
    } else if (value.is_array() && value.size() > 0) {
      sum += static_cast<std::size_t>(value.number(value.size() - 1).value_or(0) > 0);
    }
    sum += value.type_name().size() + static_cast<std::size_t>(value.integer().has_value());
  }
  for (const auto& tensor : file->tensors()) {
    MET_CHECK(file->find_tensor(tensor.name) == &tensor);
    const auto bytes = file->data(tensor);
    if (!bytes.empty())
      sum += static_cast<std::size_t>(bytes.front()) + static_cast<std::size_t>(bytes.back());
  }
  const auto config = met::config::model_config_from_gguf(*file);
  if (!config) MET_CHECK(!config.error().message.empty() && !config.error().field.empty());
  asm volatile("" : : "r"(sum));  // the reads must happen
  return 0;
}
