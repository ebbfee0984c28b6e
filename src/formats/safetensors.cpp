#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>

#include "core/json.h"

namespace met::formats {

namespace {

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the bound of the reference library
constexpr std::size_t kRankMax = 16;

struct Type {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<DType> dtype;
};
constexpr Type kTypes[] = {
    {"BF16", 2, DType::kBF16},
    {"BOOL", 1, DType::kBool},
    {"F16", 2, DType::kF16},
    {"F32", 4, DType::kF32},
    {"F64", 8, DType::kF64},
    {"F8_E4M3", 1, DType::kF8E4M3},
    {"F8_E5M2", 1, DType::kF8E5M2},
    {"F8_E8M0", 1, {}},
    {"I16", 2, DType::kI16},
    {"I32", 4, DType::kI32},
    {"I64", 8, DType::kI64},
    {"I8", 1, DType::kI8},
    {"U16", 2, {}},
    {"U32", 4, {}},
    {"U64", 8, {}},
    {"U8", 1, DType::kU8},
};

const Type* type_of(std::string_view name) {
  const auto* const it = std::ranges::find(kTypes, name, &Type::name);
  return it == std::end(kTypes) ? nullptr : it;
}

Result<std::uint64_t> read_shape(const json::Value* shape, TensorEntry& out, const std::string& what) {
  if (shape == nullptr || !shape->is_array()) return corrupt(out.name, what + " has no shape");
  if (shape->as_array().size() > kRankMax)
    return corrupt(out.name, what + " has more than " + std::to_string(kRankMax) + " dimensions");
  std::uint64_t elements = 1;
  for (const json::Value& v : shape->as_array()) {
    if (!v.is_int() || v.as_int() < 0)
      return corrupt(out.name,
                     what + " has the dimension " + json::write(v) + "; sizes are integers from 0 on");
    const auto product = checked_product(elements, static_cast<std::uint64_t>(v.as_int()));
    if (!product) return corrupt(out.name, what + " has a shape that no file can hold");
    elements = *product;
    out.shape.push_back(v.as_int());
  }
  return elements;
}

Result<> read_span(const json::Value* offsets, std::uint64_t data_at, std::uint64_t data_bytes,
                   TensorEntry& out, const std::string& what) {
  const auto is_offset = [](const json::Value& v) { return v.is_int() && v.as_int() >= 0; };
  if (offsets == nullptr || !offsets->is_array() || offsets->as_array().size() != 2 ||
      !std::ranges::all_of(offsets->as_array(), is_offset))
    return corrupt(out.name, what + " has no data_offsets of two integers from 0 on");
  const auto begin = static_cast<std::uint64_t>(offsets->as_array()[0].as_int());
  const auto end = static_cast<std::uint64_t>(offsets->as_array()[1].as_int());
  if (begin > end || end > data_bytes)
    return corrupt(out.name, what + " has data_offsets [" + std::to_string(begin) + ", " +
                                 std::to_string(end) + "], but the file holds " + std::to_string(data_bytes) +
                                 " bytes of data");
  out.offset = data_at + begin;
  out.bytes = end - begin;
  return {};
}

Result<TensorEntry> read_tensor(const std::string& name, const json::Value& value, std::uint64_t data_at,
                                std::uint64_t data_bytes) {
  TensorEntry out{.name = name};
  const std::string what = "tensor " + shown(name);
  if (name.empty()) return corrupt("header", "a tensor has an empty name");
  if (!value.is_object()) return corrupt(name, what + " is described by no object");
  const json::Value* const dtype = value.find("dtype");
  if (dtype == nullptr || !dtype->is_string()) return corrupt(name, what + " has no dtype");
  const Type* const type = type_of(dtype->as_string());
  if (type == nullptr) return unsupported(name, what + " has the unknown dtype " + shown(dtype->as_string()));
  out.type_name = type->name;
  out.dtype = type->dtype;
  MET_ASSIGN(const std::uint64_t elements, read_shape(value.find("shape"), out, what));
  MET_TRY(read_span(value.find("data_offsets"), data_at, data_bytes, out, what));
  const auto bytes = checked_product(elements, type->bytes);
  if (!bytes || *bytes != out.bytes)
    return corrupt(name, what + " spans " + std::to_string(out.bytes) +
                             " bytes, but its shape and dtype need " +
                             (bytes ? std::to_string(*bytes) : std::string("more than any file holds")));
  return out;
}

Result<json::Value> read_header(std::span<const std::byte> bytes, std::uint64_t& header_bytes) {
  if (bytes.size() < sizeof header_bytes)
    return corrupt("header", "the file ends inside the length of the header");
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const std::uint64_t left = bytes.size() - sizeof header_bytes;
  if (header_bytes > left || header_bytes > kHeaderBytesMax)
    return corrupt("header", "the header claims " + std::to_string(header_bytes) + " bytes; the file has " +
                                 std::to_string(left) + " after its length and at most " +
                                 std::to_string(kHeaderBytesMax) + " are read");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof header_bytes,
                              header_bytes);
  auto header = json::parse(text, {.depth_max = 8, .unique_keys = true});
  if (!header) return corrupt("header", "the header is no valid JSON: " + header.error().message);
  if (!header->is_object()) return corrupt("header", "the header is no JSON object");
  return header;
}

Error with_path(Error error, const std::string& path) {
  error.message = path + ": " + error.message;
  return error;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes) {
  std::uint64_t header_bytes = 0;
  MET_ASSIGN(const json::Value header, read_header(bytes, header_bytes));
  const std::uint64_t data_at = sizeof header_bytes + header_bytes;
  SafetensorsFile file;
  file.bytes_ = bytes;
  for (const auto& [name, value] : header.as_object()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return corrupt("__metadata__", "__metadata__ is no object");
      for (const auto& [key, text] : value.as_object()) {
        if (!text.is_string()) return corrupt("__metadata__", "__metadata__ holds a value that is no string");
        file.metadata_.emplace_back(key, text.as_string());
      }
      continue;
    }
    MET_ASSIGN(TensorEntry tensor, read_tensor(name, value, data_at, bytes.size() - data_at));
    file.tensors_.push_back(std::move(tensor));
  }
  MET_ASSIGN(file.order_, index_by_name(file.tensors_));
  MET_TRY(check_spans(file.tensors_, bytes.size()));
  return file;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  MET_ASSIGN(MappedFile map, MappedFile::open(path));
  auto parsed = parse(map.bytes());
  if (!parsed) return std::unexpected(with_path(std::move(parsed).error(), path));
  parsed->file_ = std::move(map);
  return parsed;
}

const TensorEntry* SafetensorsFile::find_tensor(std::string_view name) const {
  return find_by_name(tensors_, order_, name);
}

}  // namespace met::formats
