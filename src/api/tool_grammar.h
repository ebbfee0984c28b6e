// Calls as a grammar: what the output must be so that its calls are calls of the request's tools.
#pragma once

#include <optional>
#include <string_view>

#include "api/request.h"
#include "core/json.h"
#include "text/tools/tool_parser.h"

namespace met::api {

/// What the spelling of a call depends on besides its format.
struct CallSpelling {
  text::ToolFormat format = text::ToolFormat::kNone;
  bool mistral_arguments = true;  ///< the vocabulary knows [ARGS]; else calls are one list
  bool deepseek_tags = false;     ///< the vocabulary knows ｜DSML｜; else calls stand between markers
  struct Markers {
    std::string_view open;
    std::string_view close;
  };
  Markers python_markers = {};  ///< around a pythonic list, where the vocabulary knows some
};

/// A structural tag ({"type": "structural_tag", "format": …}) that holds the output to calls, one at least: of the
/// tools that the choice allows, with arguments that fit their schemas; one alone, unless `parallel` is on and the
/// choice names no function. nullopt for kNone.
std::optional<json::Value> forced_calls(const CallSpelling& spelling, const std::vector<text::Tool>& tools,
                                        const ToolChoice& choice);

/// The same where calls are free: text until a call begins, which then must be one of a tool's.
std::optional<json::Value> free_calls(const CallSpelling& spelling, const std::vector<text::Tool>& tools,
                                      const ToolChoice& choice);

}  // namespace met::api
