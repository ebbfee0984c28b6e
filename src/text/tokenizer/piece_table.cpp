#include "text/tokenizer/piece_table.h"

#include <bit>
#include <cstring>

namespace met::text {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

}  // namespace

// Multiply-and-fold over 8-byte words, the last one over the piece's last 8 bytes; the keys are a model's pieces, not an
// adversary's.
std::uint64_t PieceTable::hash(std::string_view bytes) {
  constexpr std::uint64_t kA = 0x9E3779B97F4A7C15;
  constexpr std::uint64_t kB = 0xD6E8FEB86659FD93;
  const auto word_at = []<class Word>(const char* p, Word word) {
    std::memcpy(&word, p, sizeof word);
    return static_cast<std::uint64_t>(word);
  };
  std::uint64_t h = bytes.size() * kA;
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  for (; n > 8; n -= 8, p += 8) h = mix(h ^ word_at(p, std::uint64_t{}), kB);
  std::uint64_t tail = 0;
  if (bytes.size() >= 8) {
    tail = word_at(bytes.data() + bytes.size() - 8, std::uint64_t{});
  } else if (n >= 4) {
    tail = word_at(p, std::uint32_t{}) | word_at(p + n - 4, std::uint32_t{}) << 32U;
  } else if (n > 0) {
    const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(p[i])}; };
    tail = byte(0) | byte(n / 2) << 8U | byte(n - 1) << 16U;
  }
  return mix(h ^ tail, kA);
}

void PieceTable::reserve(std::size_t pieces, std::size_t bytes) {
  spans_.reserve(pieces);
  arena_.reserve(bytes);
  grow(std::bit_ceil(pieces * 2 + 16));
}

void PieceTable::grow(std::size_t slots) {
  if (slots <= slots_.size()) return;
  std::vector<Slot> old(slots);
  old.swap(slots_);
  mask_ = slots - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    std::size_t i = hash(at(slot.id)) & mask_;
    while (slots_[i].id >= 0) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
}

bool PieceTable::add(std::int32_t id, std::string_view bytes) {
  if ((used_ + 1) * 2 > slots_.size()) grow(slots_.empty() ? 64 : slots_.size() * 2);
  const auto index = static_cast<std::size_t>(id);
  if (index >= spans_.size()) spans_.resize(index + 1);
  spans_[index] = {.begin = static_cast<std::uint32_t>(arena_.size()),
                   .size = static_cast<std::uint32_t>(bytes.size()),
                   .set = 1};
  arena_.append(bytes);
  if (bytes.size() > longest_) longest_ = bytes.size();
  const std::uint64_t h = hash(bytes);
  const auto tag = static_cast<std::uint32_t>(h >> 32U);
  std::size_t i = h & mask_;
  for (; slots_[i].id >= 0; i = (i + 1) & mask_)
    if (slots_[i].tag == tag && at(slots_[i].id) == bytes) return false;
  slots_[i] = {id, tag};
  ++used_;
  return true;
}

}  // namespace met::text
