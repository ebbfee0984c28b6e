// A list of words as one text: "on|off".
#pragma once

#include <string_view>

namespace met {

/// Whether `word` is one of `choices`, which are separated by '|'.
constexpr bool is_choice(std::string_view choices, std::string_view word) {
  for (;;) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == word) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

}  // namespace met
