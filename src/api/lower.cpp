#include "api/lower.h"

#include <algorithm>

#include "api/fields.h"
#include "core/concat.h"

namespace met::api {
namespace {

/// Fields of chat alone: a body of another front end that has them is not understood there.
constexpr std::string_view kChatOnly[] = {
    "add_generation_prompt",
    "audio",
    "best_of",
    "continue_final_message",
    "echo",
    "function_call",
    "functions",
    "logprobs",
    "max_completion_tokens",
    "metadata",
    "store",
    "max_tokens",
    "messages",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "prompt_logprobs",
    "reasoning_effort",
    "response_format",
    "return_token_ids",
    "stream_options",
    "tool_choice",
    "tools",
    "top_logprobs",
    "use_beam_search",
    "verbosity",
    "web_search_options",
};

}  // namespace

json::Object passed_through(const json::Object& body, std::span<const std::string_view> own,
                            std::vector<std::string>& ignored) {
  json::Object out;
  for (const auto& [name, value] : body) {
    if (std::ranges::find(own, name) != own.end()) continue;
    if (std::ranges::find(kChatOnly, name) != std::end(kChatOnly)) {
      ignored.push_back(name);
    } else {
      out.append(name, value);
    }
  }
  return out;
}

Error in_own_terms(Error error, std::span<const Renamed> names) {
  for (const Renamed& name : names) {
    if (error.field != name.chat) continue;
    error.field = name.own;
    if (error.message.starts_with(name.chat)) error.message.replace(0, name.chat.size(), name.own);
    break;
  }
  return error;
}

void name_form_in_own_terms(GenerationRequest& request, std::span<const Renamed> names) {
  if (!request.grammar) return;
  const auto name = std::ranges::find(names, request.grammar->field, &Renamed::chat);
  if (name != names.end()) request.grammar->field = name->own;
}

const json::Value* given(const json::Value& body, std::string_view name) {
  const json::Value* v = body.find(name);
  return v == nullptr || v->is_null() ? nullptr : v;
}

Result<std::string> need_text(const json::Value& object, std::string_view name, std::string_view field,
                              std::string_view place) {
  const json::Value* v = given(object, name);
  if (v == nullptr) return invalid(std::string(field), concat(place, ".", name, " is missing"));
  if (!v->is_string())
    return invalid(std::string(field), concat(place, ".", name, " must be a string, got ", shown(*v)));
  return v->as_string();
}

json::Value text_part(std::string text) { return json::Object{{"type", "text"}, {"text", std::move(text)}}; }

}  // namespace met::api
