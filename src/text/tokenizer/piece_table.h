// Strings of a vocabulary in one arena: id → bytes and bytes → id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace met::text {

/// Open addressing over ids; insert all, then read from any thread. Cost of a look-up: one hash of the bytes
/// and about one compare.
class PieceTable {
 public:
  static constexpr std::int32_t kNone = -1;
  static constexpr std::size_t kIdsMax = std::size_t{1} << 22U;
  static constexpr std::size_t kPieceBytesMax = std::size_t{1} << 16U;

  void reserve(std::size_t pieces, std::size_t bytes);
  /// Sets the bytes of `id` (0 <= id < kIdsMax, not set before). When the bytes are there already under
  /// another id, the id gets its bytes and look-ups keep finding the first: the result is then false.
  bool add(std::int32_t id, std::string_view bytes);

  /// Id of the bytes or kNone.
  std::int32_t find(std::string_view bytes) const {
    if (slots_.empty()) return kNone;
    const std::uint64_t h = hash(bytes);
    for (std::size_t i = h & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.id < 0) return kNone;
      if (slot.tag == static_cast<std::uint32_t>(h >> 32U) && at(slot.id) == bytes) return slot.id;
    }
  }
  bool contains(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < spans_.size() &&
           spans_[static_cast<std::size_t>(id)].set;
  }
  /// Bytes of an id; empty when the id is not set.
  std::string_view at(std::int32_t id) const {
    if (!contains(id)) return {};
    const Span& s = spans_[static_cast<std::size_t>(id)];
    return {arena_.data() + s.begin, s.size};
  }
  /// One more than the highest id set.
  std::size_t size() const { return spans_.size(); }
  std::size_t longest() const { return longest_; }

  static std::uint64_t hash(std::string_view bytes);

 private:
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t size : 31 = 0;
    std::uint32_t set : 1 = 0;
  };
  struct Slot {
    std::int32_t id = kNone;
    std::uint32_t tag = 0;
  };
  void grow(std::size_t slots);

  std::string arena_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t used_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace met::text
