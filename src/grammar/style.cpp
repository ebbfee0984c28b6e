#include "grammar/style.h"

#include <algorithm>
#include <array>
#include <utility>

namespace met::grammar {
namespace {

constexpr std::array<std::pair<std::string_view, Style>, 7> kNames = {
    {{"json", Style::kJson},
     {"gemma4", Style::kGemma4},
     {"python", Style::kPython},
     {"qwen_xml", Style::kQwenXml},
     {"minimax_xml", Style::kMinimaxXml},
     {"glm_xml", Style::kGlmXml},
     {"deepseek_xml", Style::kDeepseekXml}}};

constexpr TagSpelling kQwen{.open = "<parameter=",
                            .name_end = ">",
                            .value_open = {},
                            .close = "</parameter>",
                            .next = "<parameter=",
                            .edge = "\n"};
constexpr TagSpelling kMinimax{.open = "<parameter name=\"",
                               .name_end = "\">",
                               .value_open = {},
                               .close = "</parameter>",
                               .next = "<parameter ",
                               .edge = {},
                               .attributes = true};
constexpr TagSpelling kGlm{.open = "<arg_key>",
                           .name_end = "</arg_key>",
                           .value_open = "<arg_value>",
                           .close = "</arg_value>",
                           .next = {},
                           .edge = {}};
constexpr TagSpelling kDeepseek{.open = "<｜DSML｜parameter name=\"",
                                .name_end = "\"",
                                .value_open = {},
                                .close = "</｜DSML｜parameter>",
                                .next = "<｜DSML｜parameter ",
                                .edge = {},
                                .attributes = true,
                                .typed = true};

}  // namespace

const TagSpelling* tag_spelling(Style style) {
  switch (style) {
    case Style::kQwenXml:
      return &kQwen;
    case Style::kMinimaxXml:
      return &kMinimax;
    case Style::kGlmXml:
      return &kGlm;
    case Style::kDeepseekXml:
      return &kDeepseek;
    case Style::kJson:
    case Style::kGemma4:
    case Style::kPython:
      return nullptr;
  }
  return nullptr;
}

std::optional<Style> style_named(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name, [](const auto& pair) { return pair.first; });
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

bool style_writes(Style style, std::string_view spelling) {
  if (style == Style::kGemma4) return kGemma4Quote.contains(spelling);
  const TagSpelling* tag = tag_spelling(style);
  if (tag == nullptr) return false;
  return std::ranges::any_of(std::array{tag->open, tag->name_end, tag->value_open, tag->close},
                             [&](std::string_view marker) { return marker.contains(spelling); });
}

}  // namespace met::grammar
