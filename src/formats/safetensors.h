// The safetensors container: one file, or shards named by model.safetensors.index.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/mapped_file.h"
#include "formats/tensor_entry.h"

namespace met::formats {

/// One parsed file. Move-only; views stay valid when it moves.
///
/// Errors: kDataLoss for damage, kUnsupported for a dtype that is not known. `field` is the tensor, or
/// "header".
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  /// The same over bytes that the caller keeps alive and unchanged.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes);

  std::span<const std::byte> file_bytes() const { return bytes_; }
  /// `__metadata__`, in the file's order.
  std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }
  /// In the header's order.
  std::span<const TensorEntry> tensors() const { return tensors_; }
  const TensorEntry* find_tensor(std::string_view name) const;
  std::span<const std::byte> data(const TensorEntry& tensor) const {
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }

 private:
  MappedFile file_;  // empty when the caller keeps the bytes
  std::span<const std::byte> bytes_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::vector<TensorEntry> tensors_;
  std::vector<std::uint32_t> order_;  // by name
};

/// Names of the shards, each once, in the order of their first tensor; and which tensor lies in which.
struct SafetensorsIndex {
  std::vector<std::string> shards;
  std::vector<std::pair<std::string, std::uint32_t>> tensors;  ///< name, index into shards
};

/// Reads the text of model.safetensors.index.json. A shard is a plain file name ending in ".safetensors": no
/// directory part, so that an index cannot reach outside its directory.
Result<SafetensorsIndex> parse_safetensors_index(std::string_view text);

/// All shards of a directory: those of the index where there is one, else model.safetensors. Every tensor
/// that the index names lies in the shard it names, and no tensor lies in two.
class SafetensorsDirectory {
 public:
  static Result<SafetensorsDirectory> open(const std::string& directory);

  std::span<const SafetensorsFile> shards() const { return shards_; }
  std::span<const std::string> shard_names() const { return names_; }

 private:
  std::vector<SafetensorsFile> shards_;
  std::vector<std::string> names_;
};

}  // namespace met::formats
