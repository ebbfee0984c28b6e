// Messages glued from text and numbers: concat("expected ", 5, ", got ", name).
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>

namespace met {

namespace detail {
inline void append_part(std::string& out, std::string_view part) { out += part; }
inline void append_part(std::string& out, char part) { out += part; }
template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, char> && !std::is_same_v<T, bool>)
void append_part(std::string& out, T part) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, part);
  out.append(text, end.ptr);
}
}  // namespace detail

/// The parts one after the other; numbers in their shortest decimal form.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (detail::append_part(out, parts), ...);
  return out;
}

}  // namespace met
