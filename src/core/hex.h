// Hexadecimal digits.
#pragma once

#include <cstdint>
#include <string>

namespace met::hex {

/// What a digit of either case stands for; -1 for any other character.
constexpr int value(char32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  const char32_t lower = c | 0x20U;
  return c > '9' && lower >= 'a' && lower <= 'f' ? static_cast<int>(lower - 'a') + 10 : -1;
}

/// The last `digits` digits of `number`, in lower case.
inline void append(std::uint64_t number, int digits, std::string& out) {
  for (int shift = 4 * digits - 4; shift >= 0; shift -= 4) out += "0123456789abcdef"[number >> shift & 15U];
}

}  // namespace met::hex
