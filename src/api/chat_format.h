// What a chat tells its template about tools and reasoning, and how its answer is then read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/model_text.h"
#include "api/request.h"
#include "text/machine/answer_parser.h"

namespace met::api {

/// The template's options: the tools that the model may see, the switch and the effort of reasoning. What the
/// request says beats the server's defaults, and --disable-thinking beats both. Errors: kUnsupported, field
/// "tools", for a model that cannot be shown any or whose calls cannot be read.
Result<RenderOptions> render_options(const GenerationRequest& request, const ModelText& model);

/// `prompt` is the rendered text, whose end decides where the answer begins.
text::AnswerFormat answer_format(const GenerationRequest& request, const ModelText& model,
                                 std::string_view prompt);

/// Where in such an answer the request's grammar begins: behind its reasoning.
grammar::Start grammar_start(const text::AnswerFormat& format);

/// Names by which templates know the switch of reasoning.
inline constexpr std::string_view kThinkingSwitches[] = {"enable_thinking", "thinking"};

/// What the first of them says that `variables` set to a boolean.
std::optional<bool> thinking_switch(const json::Object& variables);

/// Tokens of reasoning at most: none where the request or the server wants none, else what the request says, or its
/// effort where the template does not take one, within the server's bound. nullopt: as many as the model likes.
std::optional<std::int64_t> thinking_budget(const GenerationRequest& request, const ModelText& model);

/// The request's tools may be called.
bool has_active_tools(const GenerationRequest& request);

}  // namespace met::api
