#include "api/chat_format.h"

#include <algorithm>

#include "text/reasoning/harmony.h"

namespace met::api {
namespace {

/// Whether the request wants reasoning, where it says so: a variable of the template goes first.
std::optional<bool> wants_thinking(const GenerationRequest& request, const ModelText& model) {
  if (model.habits.disable_thinking) return false;
  if (const auto own = thinking_switch(request.chat_template_kwargs)) return own;
  if (request.thinking.enabled) return request.thinking.enabled;
  if (request.reasoning_effort == "none") return false;
  if (request.thinking.budget_tokens == 0) return false;
  if (!request.reasoning_effort.empty() || request.thinking.budget_tokens) return true;
  const bool says_nothing = !request.chat_template_kwargs.contains("enable_thinking");
  if (says_nothing && has_active_tools(request) && !model.habits.thinking_in_tools) return false;
  return std::nullopt;
}

/// Whether no reasoning may come, whatever the template makes of its switch.
bool forbids_thinking(const GenerationRequest& request, const ModelText& model) {
  return wants_thinking(request, model).or_else([&] { return model.habits.default_thinking; }) == false;
}

void set_unless_given(json::Object& variables, std::string_view name, json::Value value) {
  if (!variables.contains(name)) variables.append(std::string(name), std::move(value));
}

/// Inside the block that an unfinished last message has opened itself.
bool continues_reasoning(const GenerationRequest& request, text::ReasoningFormat format) {
  if (!request.continue_final_message || format == text::ReasoningFormat::kNone) return false;
  const json::Value* content = request.messages.back().find("content");
  if (content == nullptr || !content->is_string()) return false;
  const std::string& text = content->as_string();
  const std::size_t open = text.rfind(text::reasoning_open(format));
  const std::size_t close = text.rfind(text::reasoning_close(format));
  return open != std::string::npos && (close == std::string::npos || close < open);
}

}  // namespace

std::optional<bool> thinking_switch(const json::Object& variables) {
  for (const std::string_view name : kThinkingSwitches)
    if (const json::Value* value = variables.find(name); value != nullptr && value->is_bool())
      return value->as_bool();
  return std::nullopt;
}

bool has_active_tools(const GenerationRequest& request) {
  return !request.tools.empty() && request.tool_choice.mode != ToolChoice::Mode::kNone;
}

Result<RenderOptions> render_options(const GenerationRequest& request, const ModelText& model) {
  RenderOptions options;
  options.continue_final_message = request.continue_final_message;
  options.add_generation_prompt = request.add_generation_prompt.value_or(!request.continue_final_message);
  options.add_special_tokens = request.add_special_tokens.value_or(false);
  options.variables = request.chat_template_kwargs;
  if (!request.reasoning_effort.empty() && request.reasoning_effort != "none")
    set_unless_given(options.variables, "reasoning_effort", request.reasoning_effort);
  if (request.thinking.preserve)
    set_unless_given(options.variables, "preserve_thinking", *request.thinking.preserve);
  if (const auto thinks = wants_thinking(request, model))
    for (const std::string_view name : kThinkingSwitches) {
      if (model.habits.disable_thinking) options.variables.erase(name);
      set_unless_given(options.variables, name, *thinks);
    }
  if (!has_active_tools(request)) return options;
  if (!model.habits.takes_tools)
    return unsupported("tools",
                       "this model's chat template has no place for tools: start with --chat-template");
  if (model.habits.tools == text::ToolFormat::kNone)
    return unsupported("tools", "how this model writes calls is not known: start with --tool-call-parser");
  const bool shows_all =
      request.tool_choice.mode == ToolChoice::Mode::kRequired || request.tool_choice.only.empty();
  for (const text::Tool& tool : request.tools)
    if (shows_all || std::ranges::find(request.tool_choice.only, tool.name) != request.tool_choice.only.end())
      options.tools.push_back(tool.definition);
  return options;
}

text::AnswerFormat answer_format(const GenerationRequest& request, const ModelText& model,
                                 std::string_view prompt) {
  using text::ReasoningFormat;
  text::AnswerFormat format;
  format.reasoning = model.habits.reasoning;
  format.start = text::reasoning_start(format.reasoning, prompt);
  if (format.reasoning == ReasoningFormat::kHarmony) format.harmony_header = text::harmony_header(prompt);
  if (continues_reasoning(request, format.reasoning)) format.start = text::ReasoningStart::kOpen;
  if (!has_active_tools(request)) return format;
  format.tool_format = model.habits.tools;
  format.tools = std::make_shared<const text::ToolSet>(request.tools);
  format.calls_max = request.tool_choice.parallel.value_or(true) ? 0 : 1;
  return format;
}

grammar::Start grammar_start(const text::AnswerFormat& format) {
  using When = grammar::Start::When;
  if (format.reasoning == text::ReasoningFormat::kNone || format.start == text::ReasoningStart::kClosed)
    return {};
  if (format.reasoning == text::ReasoningFormat::kHarmony)
    return {.when = When::kAfterClose, .open = {}, .close = "<|channel|>final<|message|>"};
  return {.when = format.start == text::ReasoningStart::kOpen ? When::kAfterClose : When::kAfterThought,
          .open = std::string(text::reasoning_open(format.reasoning)),
          .close = std::string(text::reasoning_close(format.reasoning))};
}

std::optional<std::int64_t> thinking_budget(const GenerationRequest& request, const ModelText& model) {
  if (forbids_thinking(request, model)) return 0;
  std::optional<std::int64_t> budget = request.thinking.budget_tokens;
  const std::int64_t medium = model.habits.effort_tokens;
  if (const std::string& effort = request.reasoning_effort; !budget && !model.habits.takes_effort) {
    if (effort == "minimal") budget = medium / 4;
    if (effort == "low" || effort == "medium") budget = medium;
    if (effort == "high") budget = 2 * medium;
    if (effort == "xhigh") budget = 4 * medium;
  }
  if (budget && request.max_tokens) budget = std::min(*budget, *request.max_tokens * 9 / 10);
  if (const auto bound = model.habits.budget_max; bound) budget = std::min(budget.value_or(*bound), *bound);
  return budget;
}

}  // namespace met::api
