// Reads the header of a GGUF file. Nothing is reserved by a claimed count, and every length is compared with
// the bytes that are left before it is used.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "formats/ggml_type.h"
#include "formats/gguf.h"

namespace met::formats {

namespace {

constexpr std::uint32_t kMagic = 0x46554747;         // "GGUF" read as little endian
constexpr std::uint32_t kMagicSwapped = 0x47475546;  // "FUGG": written by a byte-swapping writer
constexpr std::uint64_t kKeyBytesMax = 65535;        // the format's own bound
constexpr std::uint64_t kTensorNameBytesMax = 1024;  // ggml allows 63
constexpr std::uint32_t kRankMax = 4;                // GGML_MAX_DIMS
constexpr std::uint64_t kElementsMax = 1ULL << 62U;  // byte counts of every type stay below 2^63 + 2^62
constexpr std::uint64_t kAlignmentMax = 1ULL << 30U;
constexpr std::uint64_t kMetadataBytesMin = 8 + 4 + 1;    // empty key, type, one byte
constexpr std::uint64_t kTensorBytesMin = 8 + 4 + 4 + 8;  // empty name, rank 0, type, offset

// Bytes of one value of a fixed-size kind; 0 for strings and arrays.
std::uint64_t size_of(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

}  // namespace

class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<GgufFile> parse() {
    MET_TRY(header());
    for (std::uint64_t i = 0; i < metadata_count_; ++i) MET_TRY(metadata_entry(i));
    MET_TRY(index_metadata());
    MET_TRY(alignment());
    for (std::uint64_t i = 0; i < tensor_count_; ++i) MET_TRY(tensor_entry(i));
    MET_TRY(place_tensors());
    file_.bytes_ = bytes_;
    return std::move(file_);
  }

 private:
  std::uint64_t left() const { return bytes_.size() - at_; }

  std::unexpected<Error> truncated(const std::string& what) const {
    return corrupt(what, "the file ends at byte " + std::to_string(bytes_.size()) + ", inside " + what);
  }

  template <class T>
  Result<T> read(const std::string& what) {
    if (left() < sizeof(T)) return truncated(what);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  Result<std::span<const std::byte>> take(std::uint64_t count, const std::string& what) {
    if (count > left())
      return corrupt(what, what + " claims " + std::to_string(count) + " bytes, but " +
                               std::to_string(left()) + " are left in the file");
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }

  Result<std::string_view> short_text(std::uint64_t bytes_max, const std::string& what) {
    MET_ASSIGN(const auto length, read<std::uint64_t>("the length of " + what));
    if (length > bytes_max)
      return corrupt(what, what + " is " + std::to_string(length) + " bytes long; at most " +
                               std::to_string(bytes_max) + " are allowed");
    if (length == 0) return corrupt(what, what + " is empty");
    MET_ASSIGN(const auto text, take(length, what));
    return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
  }

  Result<> header() {
    MET_ASSIGN(const auto magic, read<std::uint32_t>("the magic number"));
    if (magic == kMagicSwapped) return unsupported("magic", "big-endian GGUF files are not supported");
    if (magic != kMagic) return corrupt("magic", "this is no GGUF file: it does not begin with \"GGUF\"");
    MET_ASSIGN(const auto version, read<std::uint32_t>("the version"));
    if ((version & 0xFFFFU) == 0 && version != 0)
      return unsupported("version", "big-endian GGUF files are not supported");
    if (version == 1)
      return unsupported("version",
                         "GGUF version 1 is not supported; convert the model again (versions 2 and 3 are)");
    if (version != 2 && version != 3)
      return unsupported("version",
                         "GGUF version " + std::to_string(version) + " is not supported; 2 and 3 are");
    file_.version_ = static_cast<int>(version);
    MET_ASSIGN(tensor_count_, read<std::uint64_t>("the tensor count"));
    MET_ASSIGN(metadata_count_, read<std::uint64_t>("the metadata count"));
    MET_TRY(check_count("tensor count", tensor_count_, kTensorBytesMin));
    return check_count("metadata count", metadata_count_, kMetadataBytesMin);
  }

  Result<> check_count(const char* what, std::uint64_t count, std::uint64_t bytes_each) const {
    if (count <= left() / bytes_each) return {};
    return corrupt(what, std::string("the ") + what + " " + std::to_string(count) +
                             " does not fit a file of " + std::to_string(bytes_.size()) + " bytes");
  }

  Result<> metadata_entry(std::uint64_t index) {
    MET_ASSIGN(const std::string_view key, short_text(kKeyBytesMax, "metadata key " + std::to_string(index)));
    const std::string what = "metadata key " + shown(key);
    MET_ASSIGN(const GgufType type, value_type(what));
    if (type == GgufType::kArray) return array(key, what);
    if (type == GgufType::kString) {
      MET_ASSIGN(const auto length, read<std::uint64_t>(what));
      MET_ASSIGN(const auto text, take(length, what));
      file_.metadata_.push_back({key, GgufValue(type, type, 1, text)});
      return {};
    }
    MET_ASSIGN(const auto bytes, take(size_of(type), what));
    if (type == GgufType::kBool) MET_TRY(check_bools(bytes, what));
    file_.metadata_.push_back({key, GgufValue(type, type, 1, bytes)});
    return {};
  }

  Result<GgufType> value_type(const std::string& what) {
    MET_ASSIGN(const auto number, read<std::uint32_t>(what));
    if (number > static_cast<std::uint32_t>(GgufType::kF64))
      return unsupported(what, what + " has the unknown value type " + std::to_string(number));
    return static_cast<GgufType>(number);
  }

  static Result<> check_bools(std::span<const std::byte> bytes, const std::string& what) {
    if (std::ranges::all_of(bytes, [](std::byte b) { return b <= std::byte{1}; })) return {};
    return corrupt(what, what + " holds a bool that is neither 0 nor 1");
  }

  Result<> array(std::string_view key, const std::string& what) {
    MET_ASSIGN(const GgufType element, value_type(what));
    if (element == GgufType::kArray)
      return unsupported(what, what + " is an array of arrays, which is not supported");
    MET_ASSIGN(const auto count, read<std::uint64_t>(what));
    const std::uint64_t size = size_of(element);
    const std::uint64_t bytes_each = size == 0 ? sizeof(std::uint64_t) : size;
    if (count > left() / bytes_each)
      return corrupt(what, what + " claims " + std::to_string(count) + " elements, but " +
                               std::to_string(left()) + " bytes are left in the file");
    const std::uint64_t begin = at_;
    if (size != 0) {
      at_ += count * size;
    } else {
      MET_TRY(skip_strings(count, what));
    }
    const auto bytes = bytes_.subspan(begin, at_ - begin);
    if (element == GgufType::kBool) MET_TRY(check_bools(bytes, what));
    file_.metadata_.push_back({key, GgufValue(GgufType::kArray, element, count, bytes)});
    return {};
  }

  Result<> skip_strings(std::uint64_t count, const std::string& what) {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t length = 0;
      if (left() < sizeof length) return truncated(what);
      std::memcpy(&length, bytes_.data() + at_, sizeof length);
      at_ += sizeof length;
      if (length > left())
        return corrupt(what, "element " + std::to_string(i) + " of " + what + " claims " +
                                 std::to_string(length) + " bytes, but " + std::to_string(left()) +
                                 " are left in the file");
      at_ += length;
    }
    return {};
  }

  Result<> index_metadata() {
    auto& order = file_.metadata_order_;
    order.resize(file_.metadata_.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto key = [&](std::uint32_t i) { return file_.metadata_[i].key; };
    std::ranges::sort(order, {}, key);
    const auto twice = std::ranges::adjacent_find(order, {}, key);
    if (twice == order.end()) return {};
    return corrupt(std::string(key(*twice)),
                   "metadata key " + shown(key(*twice)) + " stands in the file twice");
  }

  Result<> alignment() {
    const GgufValue* const value = file_.find("general.alignment");
    if (value == nullptr) return {};
    const auto alignment = value->integer();
    if (!alignment || *alignment <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(*alignment)) ||
        static_cast<std::uint64_t>(*alignment) > kAlignmentMax)
      return corrupt("general.alignment", "general.alignment is " +
                                              (alignment ? std::to_string(*alignment) : value->type_name()) +
                                              "; it must be a power of two up to 2^30");
    file_.alignment_ = static_cast<std::uint64_t>(*alignment);
    return {};
  }

  Result<> tensor_entry(std::uint64_t index) {
    MET_ASSIGN(const std::string_view name,
               short_text(kTensorNameBytesMax, "the name of tensor " + std::to_string(index)));
    TensorEntry tensor{.name = std::string(name)};
    const std::string what = "tensor " + shown(name);
    MET_ASSIGN(const auto rank, read<std::uint32_t>(what));
    if (rank > kRankMax)
      return corrupt(tensor.name,
                     what + " has " + std::to_string(rank) + " dimensions; at most 4 are allowed");
    std::uint64_t elements = 1;
    for (std::uint32_t d = 0; d < rank; ++d) {
      MET_ASSIGN(const auto size, read<std::uint64_t>(what));
      const auto product = checked_product(elements, size);
      if (size == 0 || !product || *product > kElementsMax)
        return corrupt(tensor.name, what + " has dimension " + std::to_string(d) + " of size " +
                                        std::to_string(size) + ", which no file can hold");
      elements = *product;
      tensor.shape.push_back(static_cast<std::int64_t>(size));
    }
    std::ranges::reverse(tensor.shape);
    MET_TRY(tensor_size(tensor, elements, what));
    MET_ASSIGN(tensor.offset, read<std::uint64_t>(what));
    if (tensor.offset % file_.alignment_ != 0)
      return corrupt(tensor.name, what + " lies at offset " + std::to_string(tensor.offset) +
                                      ", which is no multiple of the alignment " +
                                      std::to_string(file_.alignment_));
    file_.tensors_.push_back(std::move(tensor));
    return {};
  }

  Result<> tensor_size(TensorEntry& tensor, std::uint64_t elements, const std::string& what) {
    MET_ASSIGN(const auto number, read<std::uint32_t>(what));
    const GgmlType* const type = ggml_type(number);
    if (type == nullptr)
      return unsupported(tensor.name, what + " has the unknown ggml type " + std::to_string(number));
    const std::uint64_t row = tensor.shape.empty() ? 1 : static_cast<std::uint64_t>(tensor.shape.back());
    if (row % type->block_elements != 0)
      return corrupt(tensor.name,
                     what + " has rows of " + std::to_string(row) + " elements, no multiple of the " +
                         std::to_string(type->block_elements) + " in a block of " + std::string(type->name));
    const auto bytes = checked_product(elements / type->block_elements, type->block_bytes);
    if (!bytes) return corrupt(tensor.name, what + " is larger than any file");
    tensor.type_name = type->name;
    tensor.dtype = type->dtype;
    tensor.bytes = *bytes;
    return {};
  }

  // Turns offsets from the start of the data section into offsets from the start of the file.
  Result<> place_tensors() {
    const std::uint64_t data = (at_ + file_.alignment_ - 1) / file_.alignment_ * file_.alignment_;
    for (TensorEntry& tensor : file_.tensors_)
      if (__builtin_add_overflow(tensor.offset, data, &tensor.offset))
        return corrupt(tensor.name, "tensor " + shown(tensor.name) + " lies at an offset outside the file");
    MET_ASSIGN(file_.tensor_order_, index_by_name(file_.tensors_));
    return check_spans(file_.tensors_, bytes_.size());
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t metadata_count_ = 0;
  GgufFile file_;
};

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) { return GgufParser(bytes).parse(); }

Result<GgufFile> GgufFile::open(const std::string& path) {
  MET_ASSIGN(MappedFile map, MappedFile::open(path));
  auto parsed = parse(map.bytes());
  if (!parsed) {
    Error error = std::move(parsed).error();
    error.message = path + ": " + error.message;
    return std::unexpected(std::move(error));
  }
  parsed->file_ = std::move(map);
  return parsed;
}

}  // namespace met::formats
