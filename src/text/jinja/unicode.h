// Properties and case mappings of code points, as Python's str sees them.
#pragma once

#include <string>

namespace met::text::jinja {

bool is_space(char32_t point);
bool is_alpha(char32_t point);
bool is_digit(char32_t point);
bool is_upper(char32_t point);
bool is_lower(char32_t point);
bool is_cased(char32_t point);
/// Full mappings; one code point may become up to three.
std::u32string to_upper(char32_t point);
std::u32string to_lower(char32_t point);
std::u32string to_title(char32_t point);

}  // namespace met::text::jinja
