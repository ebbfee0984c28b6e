#include "formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace met::formats {

namespace {

constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                       "bool", "string", "array", "u64", "i64", "f64"};

template <class T>
T load(const std::byte* at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::unexpected<Error> wrong_kind(std::string_view key, const GgufValue& value, std::string_view wanted) {
  return corrupt(std::string(key), "metadata key " + shown(key) + " is of type " + value.type_name() +
                                       ", but " + std::string(wanted) + " is needed");
}

}  // namespace

std::string_view name(GgufType type) {
  const auto i = static_cast<std::size_t>(type);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

std::string_view GgufStrings::Iterator::operator*() const {
  return {reinterpret_cast<const char*>(at_ + sizeof(std::uint64_t)), load<std::uint64_t>(at_)};
}
GgufStrings::Iterator& GgufStrings::Iterator::operator++() {
  at_ += sizeof(std::uint64_t) + load<std::uint64_t>(at_);
  --left_;
  return *this;
}

std::optional<std::int64_t> GgufValue::integer_at(GgufType kind, std::size_t i) const {
  const std::byte* const data = bytes_.data();
  switch (kind) {
    case GgufType::kU8:
    case GgufType::kBool:
      if (kind == GgufType::kBool && !is_array()) return std::nullopt;
      return load<std::uint8_t>(data + i);
    case GgufType::kI8:
      return load<std::int8_t>(data + i);
    case GgufType::kU16:
      return load<std::uint16_t>(data + i * 2);
    case GgufType::kI16:
      return load<std::int16_t>(data + i * 2);
    case GgufType::kU32:
      return load<std::uint32_t>(data + i * 4);
    case GgufType::kI32:
      return load<std::int32_t>(data + i * 4);
    case GgufType::kU64: {
      const auto value = load<std::uint64_t>(data + i * 8);
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    case GgufType::kI64:
      return load<std::int64_t>(data + i * 8);
    default:
      return std::nullopt;
  }
}

std::optional<double> GgufValue::number_at(GgufType kind, std::size_t i) const {
  if (kind == GgufType::kF32) return load<float>(bytes_.data() + i * 4);
  if (kind == GgufType::kF64) return load<double>(bytes_.data() + i * 8);
  if (kind == GgufType::kU64) return static_cast<double>(load<std::uint64_t>(bytes_.data() + i * 8));
  const std::optional<std::int64_t> value = integer_at(kind, i);
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::optional<bool> GgufValue::boolean() const {
  if (type_ != GgufType::kBool) return std::nullopt;
  return load<std::uint8_t>(bytes_.data()) != 0;
}

std::optional<std::string_view> GgufValue::string() const {
  if (type_ != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
}

std::optional<GgufStrings> GgufValue::strings() const {
  if (!is_array() || element_ != GgufType::kString) return std::nullopt;
  return GgufStrings(bytes_.data(), count_);
}

std::string GgufValue::type_name() const {
  return is_array() ? "array of " + std::string(name(element_)) : std::string(name(type_));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto key_of = [&](std::uint32_t i) { return metadata_[i].key; };
  const auto it = std::ranges::lower_bound(metadata_order_, key, {}, key_of);
  return it == metadata_order_.end() || key_of(*it) != key ? nullptr : &metadata_[*it].value;
}

const TensorEntry* GgufFile::find_tensor(std::string_view name) const {
  return find_by_name(tensors_, tensor_order_, name);
}

Result<std::optional<std::int64_t>> GgufFile::integer(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto v = value->integer()) return v;
  return wrong_kind(key, *value, "an integer below 2^63");
}
Result<std::optional<double>> GgufFile::number(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto v = value->number()) return v;
  return wrong_kind(key, *value, "a number");
}
Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto v = value->boolean()) return v;
  return wrong_kind(key, *value, "a bool");
}
Result<std::optional<std::string_view>> GgufFile::string(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto v = value->string()) return v;
  return wrong_kind(key, *value, "a string");
}
Result<std::optional<GgufStrings>> GgufFile::strings(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto v = value->strings()) return v;
  return wrong_kind(key, *value, "an array of strings");
}

}  // namespace met::formats
