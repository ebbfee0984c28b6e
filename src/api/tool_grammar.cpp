#include "api/tool_grammar.h"

#include <algorithm>
#include <string>

#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;
using text::Tool;
using text::ToolFormat;

/// How a format writes one call around its arguments, and the calls of one answer.
struct Form {
  std::string before_name;
  std::string after_name;
  std::string after_arguments;
  std::string_view style = "json";  // of the arguments
  std::string separator;            // between calls
  std::string before_all;
  std::string after_all;
  std::string_view trigger;  // begins a call in free text; empty: none does
};

std::optional<Form> form_of(const CallSpelling& spelling) {
  switch (spelling.format) {
    case ToolFormat::kHermes:
      return Form{.before_name = "<tool_call>\n{\"name\": \"",
                  .after_name = "\", \"arguments\": ",
                  .after_arguments = "}\n</tool_call>",
                  .separator = "\n",
                  .trigger = "<tool_call>"};
    case ToolFormat::kQwen3Coder:
    case ToolFormat::kQwen3Xml:
      return Form{.before_name = "<tool_call>\n<function=",
                  .after_name = ">\n",
                  .after_arguments = "\n</function>\n</tool_call>",
                  .style = "qwen_xml",
                  .separator = "\n",
                  .trigger = "<tool_call>"};
    case ToolFormat::kMinimaxXml:
      return Form{.before_name = "<minimax:tool_call>\n<invoke name=\"",
                  .after_name = "\">\n",
                  .after_arguments = "\n</invoke>\n</minimax:tool_call>",
                  .style = "minimax_xml",
                  .separator = "\n",
                  .trigger = "<minimax:tool_call>"};
    case ToolFormat::kPoolsideV1:
    case ToolFormat::kGlm47:
      return Form{.before_name = "<tool_call>",
                  .after_name = "\n",
                  .after_arguments = "\n</tool_call>",
                  .style = "glm_xml",
                  .separator = "\n",
                  .trigger = "<tool_call>"};
    case ToolFormat::kMistral:
      if (spelling.mistral_arguments)
        return Form{.before_name = "[TOOL_CALLS]", .after_name = "[ARGS]", .trigger = "[TOOL_CALLS]"};
      return Form{.before_name = "{\"name\": \"",
                  .after_name = "\", \"arguments\": ",
                  .after_arguments = "}",
                  .separator = ", ",
                  .before_all = "[TOOL_CALLS][",
                  .after_all = "]",
                  .trigger = "[TOOL_CALLS]"};
    case ToolFormat::kDeepseek:
      if (spelling.deepseek_tags)
        return Form{.before_name = "<｜DSML｜invoke name=\"",
                    .after_name = "\">\n",
                    .after_arguments = "\n</｜DSML｜invoke>",
                    .style = "deepseek_xml",
                    .separator = "\n",
                    .before_all = "<｜DSML｜function_calls>\n",
                    .after_all = "\n</｜DSML｜function_calls>",
                    .trigger = "<｜DSML｜function_calls>"};
      return Form{.before_name = "<｜tool▁call▁begin｜>",
                  .after_name = "<｜tool▁sep｜>",
                  .after_arguments = "<｜tool▁call▁end｜>",
                  .before_all = "<｜tool▁calls▁begin｜>",
                  .after_all = "<｜tool▁calls▁end｜>",
                  .trigger = "<｜tool▁calls▁begin｜>"};
    case ToolFormat::kBareJson:
    case ToolFormat::kLlama3Json:
      return Form{.before_name = "{\"name\": \"",
                  .after_name = "\", \"parameters\": ",
                  .after_arguments = "}",
                  .separator = "; "};
    case ToolFormat::kHarmony:
      return Form{.before_name = "<|channel|>commentary to=functions.",
                  .after_name = " <|constrain|>json<|message|>",
                  .separator = "<|end|><|start|>assistant"};
    case ToolFormat::kGemma4:
      return Form{.before_name = "<|tool_call>call:",
                  .after_arguments = "<tool_call|>",
                  .style = "gemma4",
                  .trigger = "<|tool_call>"};
    case ToolFormat::kPythonic:
      return Form{.after_name = "(",
                  .after_arguments = ")",
                  .style = "python",
                  .separator = ", ",
                  .before_all = concat(spelling.python_markers.open, "["),
                  .after_all = concat("]", spelling.python_markers.close),
                  .trigger = spelling.python_markers.open};
    case ToolFormat::kNone:
      return std::nullopt;
  }
  return std::nullopt;
}

/// OpenAI: a function without parameters takes none, and arguments are an object.
V schema_of(const Tool& tool) {
  if (tool.parameters.is_object() && !tool.parameters.as_object().empty()) {
    V schema = tool.parameters;
    if (schema.find("type") == nullptr && schema.find("$ref") == nullptr)
      schema.as_object().append("type", "object");
    return schema;
  }
  return json::Object{{"type", "object"}, {"properties", json::Object{}}, {"additionalProperties", false}};
}

json::Array tags_of(const Form& form, const std::vector<Tool>& tools, const ToolChoice& choice) {
  json::Array tags;
  for (const Tool& tool : tools) {
    const bool allowed =
        choice.only.empty() || std::ranges::find(choice.only, tool.name) != choice.only.end();
    if (!allowed) continue;
    json::Object content{{"type", "json_schema"}, {"json_schema", schema_of(tool)}};
    if (form.style != "json") content.append("style", form.style);
    content.append("called", concat("the parameters of \"", tool.name, "\""));
    json::Object tag{{"type", "tag"}, {"begin", concat(form.before_name, tool.name, form.after_name)}};
    tag.append("content", std::move(content));
    tag.append("end", form.after_arguments);
    tags.emplace_back(std::move(tag));
  }
  return tags;
}

V constant(const std::string& text) { return json::Object{{"type", "const_string"}, {"value", text}}; }

/// One call, or more where `several`; with what stands around them all where the format has that.
V calls_of(const Form& form, const std::vector<Tool>& tools, const ToolChoice& choice, bool several) {
  json::Object calls{{"type", "tags_with_separator"}};
  calls.append("tags", tags_of(form, tools, choice));
  calls.append("separator", form.separator);
  calls.append("at_least_one", true);
  calls.append("stop_after_first", choice.named || !several);
  if (form.before_all.empty()) return calls;
  json::Array parts;
  parts.push_back(constant(form.before_all));
  parts.emplace_back(std::move(calls));
  parts.push_back(constant(form.after_all));
  return json::Object{{"type", "sequence"}, {"elements", std::move(parts)}};
}

V structural_tag(V format) { return json::Object{{"type", "structural_tag"}, {"format", std::move(format)}}; }

/// Where a call can only begin the content: a text that begins otherwise, or calls.
V calls_or_text(const Form& form, const std::vector<Tool>& tools, const ToolChoice& choice) {
  json::Array parts;
  parts.push_back(json::Object{{"type", "regex"}, {"pattern", R"(([^\[{\s][\s\S]*)?)"}});
  parts.push_back(calls_of(form, tools, choice, choice.parallel.value_or(true)));
  return structural_tag(json::Object{{"type", "or"}, {"elements", std::move(parts)}});
}

}  // namespace

std::optional<V> forced_calls(const CallSpelling& spelling, const std::vector<Tool>& tools,
                              const ToolChoice& choice) {
  const std::optional<Form> form = form_of(spelling);
  if (!form) return std::nullopt;
  return structural_tag(calls_of(*form, tools, choice, choice.parallel.value_or(false)));
}

std::optional<V> free_calls(const CallSpelling& spelling, const std::vector<Tool>& tools,
                            const ToolChoice& choice) {
  const std::optional<Form> form = form_of(spelling);
  if (!form) return std::nullopt;
  if (form->trigger.empty()) return calls_or_text(*form, tools, choice);
  json::Array tags;
  if (form->before_all.empty()) {
    tags = tags_of(*form, tools, choice);
  } else {
    json::Object calls{{"type", "tags_with_separator"}};
    calls.append("tags", tags_of(*form, tools, choice));
    calls.append("separator", form->separator);
    calls.append("at_least_one", true);
    calls.append("stop_after_first", !choice.parallel.value_or(true));
    json::Object tag{{"type", "tag"}, {"begin", form->before_all}};
    tag.append("content", std::move(calls));
    tag.append("end", form->after_all);
    tags.emplace_back(std::move(tag));
  }
  json::Object format{{"type", "triggered_tags"}};
  format.append("triggers", json::Array{V(form->trigger)});
  format.append("tags", std::move(tags));
  format.append("at_least_one", false);
  format.append("stop_after_first", false);
  return structural_tag(std::move(format));
}

}  // namespace met::api
