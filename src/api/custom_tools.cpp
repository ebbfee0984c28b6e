#include "api/custom_tools.h"

#include <utility>

#include "api/fields.h"
#include "api/lower.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;

enum class Begins { kYes, kNotYet, kNo };

/// Whether the text begins as `{"input": "`, with blanks where JSON allows them; `end` is then behind it.
Begins begins_input(std::string_view text, std::size_t& end) {
  end = 0;
  for (const std::string_view token : {"{", "\"input\"", ":", "\""}) {
    while (end < text.size() && std::string_view(" \t\r\n").contains(text[end])) ++end;
    const std::string_view rest = text.substr(end, token.size());
    if (!token.starts_with(rest)) return Begins::kNo;
    if (rest.size() < token.size()) return Begins::kNotYet;
    end += token.size();
  }
  return Begins::kYes;
}

/// How long an escape that begins with `text` is; one of a high surrogate is taken with what follows it.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 2;
  if (text[1] != 'u') return 2;
  const bool high =
      text.size() >= 4 && (text[2] == 'd' || text[2] == 'D') && std::string_view("89abAB").contains(text[3]);
  if (!high || (text.size() >= 7 && text[6] != '\\') || (text.size() >= 8 && text[7] != 'u')) return 6;
  return 12;
}

Result<std::string> pattern_of(std::string_view field, const V& format, const std::string& place) {
  const V* inner = given(format, "grammar");
  const V& grammar = inner != nullptr ? *inner : format;
  const std::string here = concat(place, inner != nullptr ? ".format.grammar" : ".format");
  MET_ASSIGN(const std::string syntax, need_text(grammar, "syntax", field, here));
  MET_ASSIGN(std::string definition, need_text(grammar, "definition", field, here));
  if (syntax == "lark")
    return unsupported(std::string(field),
                       concat(here, ".syntax is lark: only regex can be enforced by this server"));
  if (syntax != "regex")
    return invalid(std::string(field), concat(here, ".syntax must be lark or regex, got ", shown(V(syntax))));
  return definition;
}

}  // namespace

Result<text::Tool> read_custom_tool(std::string_view field, const V& definition, const std::string& place) {
  if (!definition.is_object())
    return invalid(std::string(field), concat(place, " must be an object, got ", shown(definition)));
  text::Tool tool{.custom = true};
  MET_ASSIGN(tool.name, need_text(definition, "name", field, place));
  json::Object function{{"name", tool.name}};
  if (const V* about = given(definition, "description"); about != nullptr) {
    MET_ASSIGN(std::string text, need_text(definition, "description", field, place));
    function.append("description", std::move(text));
  }
  json::Object input{{"type", "string"}};
  if (const V* format = given(definition, "format"); format != nullptr) {
    MET_ASSIGN(const std::string type, need_text(*format, "type", field, concat(place, ".format")));
    if (type == "grammar") {
      MET_ASSIGN(std::string pattern, pattern_of(field, *format, place));
      input.append("pattern", concat("^(?:", pattern, ")$"));
      tool.strict = true;
    } else if (type != "text") {
      return invalid(std::string(field),
                     concat(place, ".format.type must be text or grammar, got ", shown(V(type))));
    }
  }
  json::Object parameters{{"type", "object"}, {"properties", json::Object{{"input", std::move(input)}}}};
  parameters.append("required", json::Array{V("input")});
  parameters.append("additionalProperties", false);
  tool.parameters = std::move(parameters);
  function.append("parameters", tool.parameters);
  tool.definition = json::Object{{"type", "function"}, {"function", std::move(function)}};
  return tool;
}

V custom_arguments(std::string_view input) { return json::Object{{"input", input}}; }

std::string CustomInput::push(std::string_view arguments) {
  std::string joined;
  if (state_ == State::kBegin) {
    held_ += arguments;
    std::size_t end = 0;
    const Begins begins = begins_input(held_, end);
    if (begins == Begins::kNotYet) return {};
    state_ = begins == Begins::kYes ? State::kString : State::kRaw;
    joined = std::exchange(held_, {}).substr(begins == Begins::kYes ? end : 0);
    arguments = joined;
  }
  if (state_ == State::kRaw) return std::string(arguments);
  std::string out;
  for (const char c : arguments) {
    if (state_ != State::kString) break;
    if (!held_.empty()) {
      held_ += c;
      take_escape(out);
    } else if (c == '\\') {
      held_ = c;
    } else if (c == '"') {
      state_ = State::kAfter;
    } else {
      out += c;
    }
  }
  return out;
}

/// Reads the held escape, if it is whole; two of six where the second of a pair is none of one.
void CustomInput::take_escape(std::string& out) {
  if (held_.size() < escape_length(held_)) return;
  const auto text = json::parse(concat("\"", held_, "\""));
  out += text && text->is_string() ? text->as_string() : "\xEF\xBF\xBD";
  held_.clear();
}

std::string CustomInput::finish() {
  const std::string held = std::exchange(held_, {});
  return std::exchange(state_, State::kAfter) == State::kBegin ? held : std::string();
}

}  // namespace met::api
