// Safetensors bytes → parser → every tensor; the same bytes as an index of shards.
#include <cstdint>
#include <span>

#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = met::formats::parse_safetensors_index({reinterpret_cast<const char*>(data), size});
  if (index)
    for (const std::string& shard : index->shards) MET_CHECK(shard.find('/') == std::string::npos, shard);
  const auto file = met::formats::SafetensorsFile::parse(std::as_bytes(std::span(data, size)));
  if (!file) {
    MET_CHECK(!file.error().message.empty() && !file.error().field.empty());
    return 0;
  }
  std::size_t sum = 0;
  for (const auto& tensor : file->tensors()) {
    MET_CHECK(file->find_tensor(tensor.name) == &tensor);
    const auto bytes = file->data(tensor);
    if (!bytes.empty())
      sum += static_cast<std::size_t>(bytes.front()) + static_cast<std::size_t>(bytes.back());
  }
  asm volatile("" : : "r"(sum));  // the reads must happen
  return 0;
}
