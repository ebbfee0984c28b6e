// The GGUF container, versions 2 and 3: typed metadata and a table of tensors over memory-mapped bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "formats/mapped_file.h"
#include "formats/tensor_entry.h"

namespace met::formats {

/// Kinds of metadata values, numbered as in the file.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
/// "u32", "string", ...
std::string_view name(GgufType type);

/// The strings of an array, in order. Each step reads one length; nothing is copied. Valid as long as the
/// file.
class GgufStrings {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const std::byte* at, std::uint64_t left) : at_(at), left_(left) {}
    std::string_view operator*() const;
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.left_ == 0; }

   private:
    const std::byte* at_ = nullptr;
    std::uint64_t left_ = 0;
  };

  GgufStrings(const std::byte* at, std::uint64_t count) : at_(at), count_(count) {}
  Iterator begin() const { return {at_, count_}; }
  std::default_sentinel_t end() const { return {}; }
  std::size_t size() const { return count_; }

 private:
  const std::byte* at_;
  std::uint64_t count_;
};

/// One metadata value: a view into the file, valid as long as it. Lengths were checked when the file was
/// parsed.
class GgufValue {
 public:
  GgufValue(GgufType type, GgufType element, std::uint64_t count, std::span<const std::byte> bytes)
      : type_(type), element_(element), count_(count), bytes_(bytes) {}

  GgufType type() const { return type_; }
  /// Value of any integer kind that fits int64.
  std::optional<std::int64_t> integer() const { return integer_at(type_, 0); }
  /// Value of any integer or float kind.
  std::optional<double> number() const { return number_at(type_, 0); }
  std::optional<bool> boolean() const;
  std::optional<std::string_view> string() const;

  bool is_array() const { return type_ == GgufType::kArray; }
  /// Kind of an array's elements; the value's own kind when it is no array.
  GgufType element_type() const { return element_; }
  /// Number of an array's elements; 1 when it is no array.
  std::size_t size() const { return count_; }
  /// Elements of an array of integers (or bools, as 0 and 1) or of numbers; i < size(). Empty for other
  /// kinds.
  std::optional<std::int64_t> integer(std::size_t i) const { return integer_at(element_, i); }
  std::optional<double> number(std::size_t i) const { return number_at(element_, i); }
  /// Elements of an array of strings; nothing for other kinds.
  std::optional<GgufStrings> strings() const;

  /// "u32", "array of string", ... for messages.
  std::string type_name() const;

 private:
  std::optional<std::int64_t> integer_at(GgufType kind, std::size_t i) const;
  std::optional<double> number_at(GgufType kind, std::size_t i) const;

  GgufType type_;
  GgufType element_;
  std::uint64_t count_;
  std::span<const std::byte> bytes_;  // the scalar, the string's text, or the array's elements
};

struct GgufEntry {
  std::string_view key;  ///< view into the file
  GgufValue value;
};

/// A parsed file. Move-only; views stay valid when it moves. Opening costs one pass over the metadata (about
/// a millisecond for 100,000 strings) and takes memory for the tables of entries only.
///
/// Errors: kDataLoss for damage, kUnsupported for what newer (or very old) writers may have meant. `field` is
/// the tensor, the metadata key or the header member.
class GgufFile {
 public:
  static Result<GgufFile> open(const std::string& path);
  /// The same over bytes that the caller keeps alive and unchanged, at any alignment.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  int version() const { return version_; }
  std::uint64_t alignment() const { return alignment_; }
  std::span<const std::byte> file_bytes() const { return bytes_; }

  /// In the file's order.
  std::span<const GgufEntry> metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;

  /// Look-ups with the kind checked. Absent key: `nullopt`. Other kind: kDataLoss naming the key and both
  /// kinds.
  Result<std::optional<std::int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> string(std::string_view key) const;
  Result<std::optional<GgufStrings>> strings(std::string_view key) const;

  /// In the file's order.
  std::span<const TensorEntry> tensors() const { return tensors_; }
  const TensorEntry* find_tensor(std::string_view name) const;
  std::span<const std::byte> data(const TensorEntry& tensor) const {
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }

 private:
  friend class GgufParser;
  MappedFile file_;  // empty when the caller keeps the bytes
  std::span<const std::byte> bytes_;
  int version_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<GgufEntry> metadata_;
  std::vector<std::uint32_t> metadata_order_;  // by key
  std::vector<TensorEntry> tensors_;
  std::vector<std::uint32_t> tensor_order_;  // by name
};

}  // namespace met::formats
