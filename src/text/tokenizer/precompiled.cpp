// SentencePiece's compiled normalisation rules: u32 size of a double array, the array, then the replacement
// strings, each ended by a zero byte. The array maps the bytes of a source string to the offset of its
// replacement.
#include <cstring>

#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/unicode.h"

namespace met::text {
namespace {

// A unit of a darts-clone double array (its file format).
struct Unit {
  std::uint32_t bits;
  bool has_leaf() const { return ((bits >> 8U) & 1U) == 1; }
  std::uint32_t value() const { return bits & 0x7FFFFFFFU; }
  std::uint32_t label() const { return bits & 0x800000FFU; }
  std::uint32_t offset() const { return (bits >> 10U) << ((bits & 0x200U) >> 6U); }
};

class Precompiled final : public Normalizer {
 public:
  Precompiled(std::vector<Unit> units, std::string strings)
      : units_(std::move(units)), strings_(std::move(strings)) {}

  // A grapheme of fewer than six bytes is looked up whole, then each code point by itself.
  void apply(MarkedText& text) const override {
    MarkedWriter out(text);
    const std::string_view all = text.text;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = grapheme_end(all, at);
      std::string_view replacement;
      if (end - at < 6 && find(all.substr(at, end - at), replacement)) {
        out.put(replacement, at, end);
      } else {
        for (std::size_t i = at; i < end;) {
          const std::size_t next = i + first_point(all.substr(i)).size;
          if (find(all.substr(i, next - i), replacement))
            out.put(replacement, i, next);
          else
            out.copy(i, next);
          i = next;
        }
      }
      at = end;
    }
    text = out.take();
  }

 private:
  static std::size_t grapheme_end(std::string_view all, std::size_t at) {
    std::int32_t state = 0;
    Point p = first_point(all.substr(at));
    std::size_t end = at + p.size;
    while (end < all.size()) {
      const Point next = first_point(all.substr(end));
      if (grapheme_break(p.c, next.c, state)) break;
      end += next.size;
      p = next;
    }
    return end;
  }

  // Replacement of the shortest source string that is a prefix of `key`.
  bool find(std::string_view key, std::string_view& replacement) const {
    std::size_t node = 0;
    node ^= units_[0].offset();
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= units_.size() || units_[node].label() != byte) return false;
      const Unit unit = units_[node];
      node ^= unit.offset();
      if (!unit.has_leaf()) continue;
      if (node >= units_.size()) return false;
      const std::size_t offset = units_[node].value();
      if (offset >= strings_.size() || (static_cast<unsigned char>(strings_[offset]) & 0xC0U) == 0x80)
        return false;
      replacement = std::string_view(strings_).substr(offset);
      replacement = replacement.substr(0, replacement.find('\0'));
      return true;
    }
    return false;
  }

  std::vector<Unit> units_;
  std::string strings_;
};

}  // namespace

Result<std::unique_ptr<Normalizer>> make_precompiled(std::string blob) {
  std::uint32_t bytes = 0;
  if (blob.size() >= 4) std::memcpy(&bytes, blob.data(), 4);
  if (bytes < 4 || bytes % 4 != 0 || bytes > blob.size() - 4)
    return invalid("precompiled_charsmap", "a map of " + std::to_string(blob.size()) +
                                               " bytes does not hold its table of " + std::to_string(bytes) +
                                               " bytes");
  std::vector<Unit> units(bytes / 4);
  std::memcpy(units.data(), blob.data() + 4, bytes);
  std::string strings = blob.substr(4 + bytes);
  if (!utf8::valid(strings)) return invalid("precompiled_charsmap", "the replacement strings are not UTF-8");
  return std::make_unique<Precompiled>(std::move(units), std::move(strings));
}

}  // namespace met::text
