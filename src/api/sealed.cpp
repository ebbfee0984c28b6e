#include "api/sealed.h"

#include <cstdint>

#include "core/utf8.h"

namespace met::api {
namespace {

constexpr std::string_view kPrefix = "met1.";
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

}  // namespace

std::string sealed(std::string_view text) {
  std::string out(kPrefix);
  std::uint32_t bits = 0;
  int count = 0;  // of them
  for (const char c : text) {
    bits = bits << 8U | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) out += kDigits[bits >> static_cast<unsigned>(count - 6) & 63U];
  }
  if (count > 0) out += kDigits[bits << static_cast<unsigned>(6 - count) & 63U];
  return out;
}

std::optional<std::string> unsealed(std::string_view content) {
  if (!content.starts_with(kPrefix)) return std::nullopt;
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : content.substr(kPrefix.size())) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> static_cast<unsigned>(count) & 255U);
  }
  if (sealed(out) != content || !utf8::valid(out)) return std::nullopt;
  return out;
}

}  // namespace met::api
