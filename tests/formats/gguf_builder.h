// Writes GGUF bytes for tests: correct ones by default, and every field can be set wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace met::testing {

/// Little-endian byte string under construction.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof value);
    data_.append(raw, sizeof raw);
    return *this;
  }
  Bytes& text(std::string_view s) {
    put<std::uint64_t>(s.size());
    return raw(s);
  }
  Bytes& raw(std::string_view s) {
    data_ += s;
    return *this;
  }
  const std::string& str() const { return data_; }

 private:
  std::string data_;
};

inline std::span<const std::byte> as_bytes(std::string_view s) {
  return std::as_bytes(std::span(s.data(), s.size()));
}

/// A GGUF file. Metadata values are given as (type number, raw value bytes).
class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< used for padding; written only by kv()
  std::int64_t tensor_count = -1;
  std::int64_t metadata_count = -1;

  GgufBuilder& kv(std::string_view key, std::uint32_t type, std::string_view value) {
    metadata_.text(key).put(type).raw(value);
    ++metadata_written_;
    return *this;
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t v) { return kv(key, 4, Bytes().put(v).str()); }
  GgufBuilder& f32(std::string_view key, float v) { return kv(key, 6, Bytes().put(v).str()); }
  GgufBuilder& flag(std::string_view key, bool v) { return kv(key, 7, Bytes().put<std::uint8_t>(v).str()); }
  GgufBuilder& string(std::string_view key, std::string_view v) { return kv(key, 8, Bytes().text(v).str()); }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& v) {
    Bytes b;
    b.put<std::uint32_t>(8).put<std::uint64_t>(v.size());
    for (const std::string& s : v) b.text(s);
    return kv(key, 9, b.str());
  }
  GgufBuilder& i32s(std::string_view key, const std::vector<std::int32_t>& v) {
    Bytes b;
    b.put<std::uint32_t>(5).put<std::uint64_t>(v.size());
    for (const std::int32_t i : v) b.put(i);
    return kv(key, 9, b.str());
  }
  /// Adds a table row and its data. `offset` < 0: the next aligned place.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                      std::string_view data, std::int64_t offset = -1) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    tensors_.text(name).put(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t d : dims) tensors_.put(d);
    tensors_.put(type).put<std::uint64_t>(offset < 0 ? data_.size() : static_cast<std::uint64_t>(offset));
    data_ += data;
    ++tensors_written_;
    return *this;
  }
  /// The same with `floats` as F32 data.
  GgufBuilder& tensor_f32(std::string_view name, const std::vector<std::uint64_t>& dims,
                          const std::vector<float>& floats) {
    return tensor(name, dims, 0,
                  {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)});
  }

  std::string header() const {
    const auto count = [](std::int64_t claimed, std::uint64_t real) {
      return claimed < 0 ? real : static_cast<std::uint64_t>(claimed);
    };
    return Bytes()
        .raw("GGUF")
        .put(version)
        .put(count(tensor_count, tensors_written_))
        .put(count(metadata_count, metadata_written_))
        .raw(metadata_.str())
        .raw(tensors_.str())
        .str();
  }
  std::string build() const {
    std::string out = header();
    if (!data_.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

 private:
  Bytes metadata_;
  Bytes tensors_;
  std::string data_;
  std::uint64_t metadata_written_ = 0;
  std::uint64_t tensors_written_ = 0;
};

}  // namespace met::testing
