#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "core/json.h"
#include "formats/safetensors.h"

namespace met::formats {

namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::size_t kShardsMax = 10'000;
constexpr std::size_t kIndexBytesMax = 100'000'000;

bool plain_file_name(std::string_view name) {
  return name.size() > kSuffix.size() && name.ends_with(kSuffix) && !name.starts_with('.') &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Error with_path(Error error, const std::string& path) {
  error.message = path + ": " + error.message;
  return error;
}

Result<SafetensorsIndex> read_index(const std::string& path) {
  MET_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > kIndexBytesMax)
    return fail(ErrorCode::kPayloadTooLarge,
                path + " has " + std::to_string(bytes.size()) + " bytes; at most " +
                    std::to_string(kIndexBytesMax) + " are read",
                path);
  auto index = parse_safetensors_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!index) return std::unexpected(with_path(std::move(index).error(), path));
  return index;
}

}  // namespace

Result<SafetensorsIndex> parse_safetensors_index(std::string_view text) {
  auto document = json::parse(text, {.depth_max = 16, .unique_keys = true});
  if (!document) return corrupt("index", "the index is no valid JSON: " + document.error().message);
  const json::Value* const map = document->find("weight_map");
  if (map == nullptr || !map->is_object()) return corrupt("weight_map", "the index has no object weight_map");
  SafetensorsIndex index;
  std::unordered_map<std::string_view, std::uint32_t> places;
  for (const auto& [tensor, shard] : map->as_object()) {
    if (!shard.is_string() || !plain_file_name(shard.as_string()))
      return corrupt("weight_map",
                     "weight_map names for tensor " + shown(tensor) + " the file " +
                         (shard.is_string() ? shown(shard.as_string()) : json::write(shard).substr(0, 80)) +
                         "; it must be a plain file name that ends in .safetensors");
    const auto [place, added] =
        places.try_emplace(shard.as_string(), static_cast<std::uint32_t>(index.shards.size()));
    if (added) index.shards.push_back(shard.as_string());
    if (index.shards.size() > kShardsMax)
      return corrupt("weight_map", "weight_map names more than " + std::to_string(kShardsMax) + " files");
    index.tensors.emplace_back(tensor, place->second);
  }
  if (index.shards.empty()) return corrupt("weight_map", "weight_map is empty");
  return index;
}

Result<SafetensorsDirectory> SafetensorsDirectory::open(const std::string& directory) {
  const std::filesystem::path root(directory);
  SafetensorsDirectory out;
  SafetensorsIndex index;
  std::error_code ec;
  const std::string index_path = (root / kIndexName).string();
  const bool sharded = std::filesystem::exists(index_path, ec);
  if (sharded) {
    MET_ASSIGN(index, read_index(index_path));
  } else {
    index.shards.emplace_back("model.safetensors");
  }
  for (const std::string& name : index.shards) {
    MET_ASSIGN(SafetensorsFile shard, SafetensorsFile::open((root / name).string()));
    out.shards_.push_back(std::move(shard));
  }
  for (const auto& [tensor, place] : index.tensors)
    if (out.shards_[place].find_tensor(tensor) == nullptr)
      return corrupt(tensor, index_path + ": tensor " + shown(tensor) + " is not in " + index.shards[place]);
  std::unordered_map<std::string_view, std::size_t> owner;
  for (std::size_t i = 0; i < out.shards_.size(); ++i)
    for (const TensorEntry& tensor : out.shards_[i].tensors())
      if (const auto [it, added] = owner.try_emplace(tensor.name, i); !added)
        return corrupt(tensor.name, directory + ": tensor " + shown(tensor.name) + " lies in both " +
                                        index.shards[it->second] + " and " + index.shards[i]);
  out.names_ = std::move(index.shards);
  return out;
}

}  // namespace met::formats
