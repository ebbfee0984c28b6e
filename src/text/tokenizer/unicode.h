// Properties of code points and normal forms, as the tokenizers' libraries see them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/utf8.h"

namespace met::text {

/// Major classes that split patterns ask for.
enum class CharClass : std::uint8_t { kOther, kLetter, kMark, kNumber, kPunctuation, kSymbol, kSeparator };

/// Of Unicode 14, which the reference's regular expressions use.
CharClass char_class(char32_t c);
inline bool is_letter(char32_t c) {
  return c < 0x80 ? (c | 32U) - U'a' < 26 : char_class(c) == CharClass::kLetter;
}
inline bool is_number(char32_t c) { return c < 0x80 ? c - U'0' < 10 : char_class(c) == CharClass::kNumber; }
/// Property White_Space.
inline bool is_space(char32_t c) {
  if (c < 0x85) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
/// Category P*, and every ASCII character that is neither letter, digit, blank nor control.
bool is_punctuation(char32_t c);
/// \w: letters, marks, decimal digits, letter numbers, connector punctuation, other alphabetic.
bool is_word(char32_t c);
bool is_nonspacing_mark(char32_t c);
/// Categories Cc, Cf, Co, Cs except tab, line feed and carriage return.
bool is_control(char32_t c);
/// CJK ideographs as BERT defines them.
bool is_chinese(char32_t c);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
/// Normal form of valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);
/// Appends the lower case of one code point (one or two code points, no context).
void append_lower(char32_t c, std::string& out);

/// Script of a code point for splitting: Hiragana and Katakana count as Han; 0 for a blank and for what
/// Unicode 9, which the reference's table is made from, did not know.
std::uint8_t split_script(char32_t c);
/// True where a user-perceived character ends between the two; `state` starts as 0 for each text.
bool grapheme_break(char32_t before, char32_t after, std::int32_t& state);

/// The first code point of valid, non-empty UTF-8 and its length; cheap for ASCII.
struct Point {
  char32_t c;
  std::size_t size;
};
inline Point first_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const auto tail = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]) & 0x3FU);
  };
  if (lead < 0xE0) return {((lead & 0x1FU) << 6U) | tail(1), 2};
  if (lead < 0xF0) return {((lead & 0x0FU) << 12U) | (tail(1) << 6U) | tail(2), 3};
  return {((lead & 0x07U) << 18U) | (tail(1) << 12U) | (tail(2) << 6U) | tail(3), 4};
}

}  // namespace met::text
