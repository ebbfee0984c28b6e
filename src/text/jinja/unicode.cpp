#include "text/jinja/unicode.h"

#include <utf8proc.h>

namespace met::text::jinja {

namespace {

utf8proc_category_t category(char32_t p) { return utf8proc_category(static_cast<utf8proc_int32_t>(p)); }

struct Special {
  char32_t point;
  const char32_t* upper;
};
// SpecialCasing.txt of Unicode 15, the unconditional mappings to several code points that text meets.
constexpr Special kSpecial[] = {
    {0xDF, U"SS"},
    {0x149, U"\u02BCN"},
    {0x1F0, U"J\u030C"},
    {0x390, U"\u0399\u0308\u0301"},
    {0x3B0, U"\u03A5\u0308\u0301"},
    {0x587, U"\u0535\u0552"},
    {0x1E96, U"H\u0331"},
    {0x1E97, U"T\u0308"},
    {0x1E98, U"W\u030A"},
    {0x1E99, U"Y\u030A"},
    {0x1E9A, U"A\u02BE"},
    {0xFB00, U"FF"},
    {0xFB01, U"FI"},
    {0xFB02, U"FL"},
    {0xFB03, U"FFI"},
    {0xFB04, U"FFL"},
    {0xFB05, U"ST"},
    {0xFB06, U"ST"},
};

std::u32string one(utf8proc_int32_t p) { return std::u32string(1, static_cast<char32_t>(p)); }

}  // namespace

bool is_space(char32_t p) {
  if (p < 0x80) return p == ' ' || (p >= 9 && p <= 13) || (p >= 0x1C && p <= 0x1F);
  return p == 0x85 || p == 0xA0 || p == 0x1680 || (p >= 0x2000 && p <= 0x200A) || p == 0x2028 ||
         p == 0x2029 || p == 0x202F || p == 0x205F || p == 0x3000;
}

bool is_alpha(char32_t p) {
  const auto c = category(p);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t p) {
  const bool superscript = p == 0xB2 || p == 0xB3 || p == 0xB9 || (p >= 0x2070 && p <= 0x2089);
  return superscript || category(p) == UTF8PROC_CATEGORY_ND;
}

bool is_upper(char32_t p) { return category(p) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t p) { return category(p) == UTF8PROC_CATEGORY_LL || p == 0xAA || p == 0xBA; }
bool is_cased(char32_t p) { return is_upper(p) || is_lower(p) || category(p) == UTF8PROC_CATEGORY_LT; }

std::u32string to_upper(char32_t p) {
  for (const Special& s : kSpecial)
    if (s.point == p) return s.upper;
  return one(utf8proc_toupper(static_cast<utf8proc_int32_t>(p)));
}

std::u32string to_lower(char32_t p) {
  if (p == 0x130) return U"i\u0307";
  return one(utf8proc_tolower(static_cast<utf8proc_int32_t>(p)));
}

std::u32string to_title(char32_t p) {
  for (const Special& s : kSpecial) {
    if (s.point != p) continue;
    std::u32string title = s.upper;
    for (std::size_t i = 1; i < title.size(); ++i)
      title[i] = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(title[i])));
    return title;
  }
  return one(utf8proc_totitle(static_cast<utf8proc_int32_t>(p)));
}

}  // namespace met::text::jinja
