// How models write the values of a call: JSON, or a notation of their own.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace met::grammar {

enum class Style {
  kJson,
  kGemma4,  ///< {key:value,…}; strings between kGemma4Quote without escapes, bare keys, no blanks
  kPython,  ///< Python literals; the outermost object is keyword arguments: key=value, …
  // One tag a parameter (TagSpelling): a string stands in it as it is, everything else as JSON.
  kQwenXml,
  kMinimaxXml,
  kGlmXml,
  kDeepseekXml,
};

inline constexpr std::string_view kGemma4Quote = "<|\"|>";

/// How a style writes a parameter: open, name, name_end, value_open, value, close. Each marker begins with a "<" and
/// has no other.
struct TagSpelling {
  std::string_view open;
  std::string_view name_end;
  std::string_view value_open;  ///< blanks may stand before it; empty: the value follows the name
  std::string_view close;
  std::string_view next;  ///< inside of a value it would be read as the next parameter; empty: nothing would
  std::string_view edge;  ///< on both sides of a value, no part of it
  bool attributes = false;  ///< the name stands between double quotes
  bool typed = false;       ///< an attribute behind the name says whether the value is a text

  /// What no value may hold: it would end there.
  std::vector<std::string_view> ends() const {
    return next.empty() ? std::vector{close} : std::vector{close, next};
  }
};

/// Nothing for styles without tags.
const TagSpelling* tag_spelling(Style style);

/// "json", "gemma4", "python", "qwen_xml", "minimax_xml", "glm_xml", "deepseek_xml".
std::optional<Style> style_named(std::string_view name);

/// Whether the style's own markers hold `spelling`.
bool style_writes(Style style, std::string_view spelling);

}  // namespace met::grammar
