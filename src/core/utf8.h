// UTF-8 at the level of one code point.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace met::utf8 {

inline constexpr char32_t kReplacement = 0xFFFD;

/// One step of decoding. For invalid input `valid` is false and `length` is the maximal subpart that a
/// decoder replaces by one U+FFFD (Unicode 15, section 3.9, table 3-8). `incomplete` marks a well-formed
/// beginning that more bytes could complete. `length` is 0 only for empty input.
struct Decoded {
  char32_t code_point = kReplacement;
  std::size_t length = 0;
  bool valid = false;
  bool incomplete = false;
};

inline Decoded decode(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {kReplacement, 1, false, false};
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t point = lead & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {kReplacement, i, false, true};
    unsigned low = 0x80;
    unsigned high = 0xBF;
    if (i == 1) {  // overlong forms, surrogates and points past U+10FFFF end at the second byte
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (byte(i) < low || byte(i) > high) return {kReplacement, i, false, false};
    point = (point << 6U) | (byte(i) & 0x3FU);
  }
  return {point, size, true, false};
}

inline void append(char32_t point, std::string& out) {
  const auto push = [&](char32_t v) { out += static_cast<char>(static_cast<unsigned char>(v)); };
  if (point < 0x80) {
    push(point);
  } else if (point < 0x800) {
    push(0xC0U | (point >> 6U));
    push(0x80U | (point & 0x3FU));
  } else if (point < 0x10000) {
    push(0xE0U | (point >> 12U));
    push(0x80U | ((point >> 6U) & 0x3FU));
    push(0x80U | (point & 0x3FU));
  } else {
    push(0xF0U | (point >> 18U));
    push(0x80U | ((point >> 12U) & 0x3FU));
    push(0x80U | ((point >> 6U) & 0x3FU));
    push(0x80U | (point & 0x3FU));
  }
}

inline bool valid(std::string_view text) {
  while (!text.empty()) {
    const Decoded d = decode(text);
    if (!d.valid) return false;
    text.remove_prefix(d.length);
  }
  return true;
}

}  // namespace met::utf8
