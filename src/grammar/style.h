// How models write the values of a call: JSON, or a notation of their own.
#pragma once

#include <optional>
#include <string_view>

namespace met::grammar {

enum class Style {
  kJson,
  kGemma4,  ///< {key:value,…}; strings between kGemma4Quote without escapes, bare keys, no blanks
  kPython,  ///< Python literals; the outermost object is keyword arguments: key=value, …
};

inline constexpr std::string_view kGemma4Quote = "<|\"|>";

/// "json", "gemma4", "python".
std::optional<Style> style_named(std::string_view name);

}  // namespace met::grammar
