// The alphabet of byte-level vocabularies: 256 printable characters that stand for the 256 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/utf8.h"

namespace met::text {

namespace byte_alphabet_detail {
constexpr bool printable(unsigned b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }
constexpr auto make_forward() {
  std::array<char16_t, 256> map{};
  char16_t next = 256;
  for (unsigned b = 0; b < 256; ++b) map[b] = printable(b) ? static_cast<char16_t>(b) : next++;
  return map;
}
constexpr auto make_backward() {
  std::array<std::int16_t, 512> map{};
  map.fill(-1);
  const auto forward = make_forward();
  for (unsigned b = 0; b < 256; ++b) map[forward[b]] = static_cast<std::int16_t>(b);
  return map;
}
inline constexpr auto kForward = make_forward();
inline constexpr auto kBackward = make_backward();
}  // namespace byte_alphabet_detail

/// Character that stands for the byte.
constexpr char32_t byte_character(unsigned char byte) { return byte_alphabet_detail::kForward[byte]; }
/// Byte that the character stands for, or -1.
constexpr int character_byte(char32_t c) { return c < 512 ? byte_alphabet_detail::kBackward[c] : -1; }

/// Appends the spelling of `bytes`.
inline void spell_bytes(std::string_view bytes, std::string& out) {
  for (const char c : bytes) utf8::append(byte_character(static_cast<unsigned char>(c)), out);
}
/// Appends the bytes that `spelling` (valid UTF-8) stands for; false and nothing appended when a character
/// is outside the alphabet.
inline bool unspell_bytes(std::string_view spelling, std::string& out) {
  const std::size_t before = out.size();
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    const auto lead = static_cast<unsigned char>(spelling[i]);
    char32_t point = lead;
    if (lead >= 0xC0 && lead < 0xE0 && i + 1 < spelling.size())  // the alphabet ends below U+0200
      point = ((lead & 0x1FU) << 6U) | (static_cast<unsigned char>(spelling[++i]) & 0x3FU);
    else if (lead >= 0x80)
      point = 0xFFFD;
    const int byte = character_byte(point);
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte);
  }
  return true;
}

}  // namespace met::text
