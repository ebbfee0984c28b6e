#include "api/constraint.h"

#include <algorithm>
#include <utility>

#include "api/chat_format.h"
#include "api/thinking_budget.h"
#include "api/tool_grammar.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;

/// The form as a part of a structural tag; nullopt where it cannot be one.
std::optional<V> as_part(const grammar::Spec& spec) {
  using grammar::Kind;
  switch (spec.kind) {
    case Kind::kJsonObject:
      return json::Object{{"type", "json_schema"}, {"json_schema", json::Object{{"type", "object"}}}};
    case Kind::kJsonSchema:
      return json::Object{{"type", "json_schema"}, {"json_schema", spec.value}};
    case Kind::kRegex:
      return json::Object{{"type", "regex"}, {"pattern", spec.value}};
    case Kind::kEbnf:
      return json::Object{{"type", "grammar"}, {"grammar", spec.value}};
    case Kind::kStructuralTag: {
      const V* format = spec.value.find("format");
      return format == nullptr ? std::nullopt : std::optional<V>(*format);
    }
    case Kind::kChoice: {
      json::Array choices;
      for (const V& text : spec.value.as_array())
        choices.push_back(json::Object{{"type", "const_string"}, {"value", text}});
      return json::Object{{"type", "or"}, {"elements", std::move(choices)}};
    }
  }
  return std::nullopt;
}

CallSpelling::Markers python_markers(const text::Tokenizer& tokenizer) {
  if (tokenizer.find("<|tool_call_start|>")) return {"<|tool_call_start|>", "<|tool_call_end|>"};
  if (tokenizer.find("<|python_start|>")) return {"<|python_start|>", "<|python_end|>"};
  return {};
}

V either(const V& calls, V form) {
  json::Array parts;
  parts.push_back(*calls.find("format"));
  parts.push_back(std::move(form));
  json::Object format{{"type", "or"}, {"elements", std::move(parts)}};
  return json::Object{{"type", "structural_tag"}, {"format", std::move(format)}};
}

}  // namespace

Result<std::optional<grammar::Spec>> output_grammar(const GenerationRequest& request,
                                                    const ModelText& model) {
  if (!has_active_tools(request)) return request.grammar;
  const CallSpelling spelling{.format = model.habits.tools,
                              .mistral_arguments = model.tokenizer.find("[ARGS]").has_value(),
                              .deepseek_tags = model.tokenizer.find("｜DSML｜").has_value(),
                              .python_markers = python_markers(model.tokenizer)};
  const auto tag = [](V value) {
    return grammar::Spec{.kind = grammar::Kind::kStructuralTag, .value = std::move(value), .field = "tools"};
  };
  const std::optional<V> calls = forced_calls(spelling, request.tools, request.tool_choice);
  if (request.tool_choice.mode == ToolChoice::Mode::kRequired) {
    if (!calls)
      return unsupported("tool_choice", concat("calls in the format ", text::name(model.habits.tools),
                                               " cannot be enforced: tool_choice must be none or auto"));
    return tag(*calls);
  }
  if (request.grammar) {
    std::optional<V> form = as_part(*request.grammar);
    if (!calls || !form)
      return unsupported(request.grammar->field,
                         concat(request.grammar->field,
                                " cannot be had together with tools in this form: tool_choice must be none"));
    return tag(either(*calls, std::move(*form)));
  }
  if (std::ranges::none_of(request.tools, &text::Tool::strict)) return std::nullopt;
  const std::optional<V> free = free_calls(spelling, request.tools, request.tool_choice);
  if (!free) return std::nullopt;
  return tag(*free);
}

Result<std::shared_ptr<const sampling::Constraint>> output_constraint(const GenerationRequest& request,
                                                                      const ModelText& model,
                                                                      const text::AnswerFormat& format) {
  MET_ASSIGN(const std::optional<grammar::Spec> spec, output_grammar(request, model));
  std::shared_ptr<const sampling::Constraint> constraint;
  if (spec) {
    if (model.grammars == nullptr)
      return unsupported(spec->field, concat(spec->field, " is not served with this model"));
    // A call in harmony is a channel of its own: it need not wait for the final one.
    const bool at_once = format.reasoning == text::ReasoningFormat::kHarmony && spec->field == "tools";
    const grammar::Start start = at_once ? grammar::Start{} : grammar_start(format);
    auto compiled = model.grammars->compile(*spec, start, request.stop_token_ids);
    // Of calls and a form that are compiled as one the form may be to blame; the error is then its field's.
    const bool with_form = request.grammar && request.tool_choice.mode != ToolChoice::Mode::kRequired;
    if (!compiled && with_form) MET_TRY(model.grammars->compile(*request.grammar));
    MET_ASSIGN(constraint, std::move(compiled));
  }
  if (const auto budget = thinking_bound(request, model, format))
    return thinking_budget_constraint(*budget, format.reasoning, format.start, model.tokenizer,
                                      std::move(constraint));
  return constraint;
}

std::optional<std::int64_t> thinking_bound(const GenerationRequest& request, const ModelText& model,
                                           const text::AnswerFormat& format) {
  const bool thinks = request.prompts.empty() && format.start != text::ReasoningStart::kClosed &&
                      format.reasoning != text::ReasoningFormat::kNone;
  return thinks ? thinking_budget(request, model) : std::nullopt;
}

}  // namespace met::api
