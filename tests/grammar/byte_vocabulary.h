// A vocabulary of the 256 bytes, an end id and a special token, and texts put through constraints over it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace met::grammar::test {

inline constexpr std::int32_t kEnd = 256;
inline constexpr std::int32_t kSpecial = 257;  ///< spells "<|x|>"
inline constexpr std::size_t kWidth = 300;     ///< wider than the vocabulary, as padded models are

inline Vocabulary byte_vocabulary() {
  Vocabulary out;
  for (int byte = 0; byte < 256; ++byte) out.tokens.emplace_back(1, static_cast<char>(byte));
  out.tokens.emplace_back("<|end|>");
  out.tokens.emplace_back("<|x|>");
  out.special = {kEnd, kSpecial};
  out.end_ids = {kEnd};
  out.width = kWidth;
  return out;
}

inline std::vector<std::uint32_t> no_bits() { return std::vector<std::uint32_t>((kWidth + 31) / 32); }

inline bool has_bit(const std::vector<std::uint32_t>& mask, std::int32_t id) {
  return (mask[static_cast<std::size_t>(id) / 32] >> (static_cast<std::size_t>(id) % 32) & 1U) != 0;
}

/// Ids that may follow; every id when the state says nothing.
inline std::vector<std::uint32_t> mask_of(sampling::ConstraintState& state) {
  std::vector<std::uint32_t> mask = no_bits();
  if (!state.fill(mask)) std::fill(mask.begin(), mask.end(), ~0U);
  return mask;
}

/// Feeds bytes by the masks; false at the first one that may not follow.
inline bool feed(sampling::ConstraintState& state, std::string_view text) {
  for (const char c : text) {
    const auto id = static_cast<std::int32_t>(static_cast<unsigned char>(c));
    if (!has_bit(mask_of(state), id) || !state.accept(id)) return false;
  }
  return true;
}

/// Whether the whole text may be written and end there.
inline bool accepts(const sampling::Constraint& constraint, std::string_view text) {
  const std::unique_ptr<sampling::ConstraintState> state = constraint.begin();
  return feed(*state, text) && has_bit(mask_of(*state), kEnd);
}

}  // namespace met::grammar::test
