#include "grammar/structural_tag.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/concat.h"
#include "grammar/expr.h"
#include "grammar/regex.h"

namespace met::grammar {
namespace {

constexpr int kDepthMax = 60;
using V = json::Value;

constexpr std::array<std::string_view, 20> kTypes = {
    "const_string", "json_schema",         "any_text",      "sequence", "or",       "tag",
    "optional",     "triggered_tags",      "plus",          "star",     "repeat",   "qwen_xml_parameter",
    "grammar",      "tags_with_separator", "exclude_token", "regex",    "dispatch", "token_dispatch",
    "token",        "any_tokens",
};
/// Formats that are over, or not begun, while another one's content is written.
constexpr std::array<std::string_view, 6> kOneAtATime = {
    "const_string", "json_schema", "tag", "sequence", "triggered_tags", "tags_with_separator"};
constexpr std::string_view kTokenTriggered = "token_triggered_tags";

std::unexpected<Error> at(const std::string& place, Error error) {
  error.field = place + error.field;
  return std::unexpected(std::move(error));
}

class Lowering {
 public:
  /// Whether no other format can go on while a schema's text does, among those that were lowered.
  bool one_at_a_time() const { return one_at_a_time_; }

  Result<V> format(const V& value, const std::string& place, int depth, std::string_view default_type = {}) {
    if (depth > kDepthMax) return unsupported(place, concat("formats are nested deeper than ", kDepthMax));
    if (!value.is_object())
      return invalid(place, concat("a format must be an object, got ", value.type_name()));
    const V* type = value.find("type");
    if (type == nullptr && default_type.empty())
      return invalid(place + "/type", "a format must name its type");
    if (type != nullptr && !type->is_string()) return invalid(place + "/type", "must be a string");
    const std::string name = type != nullptr ? type->as_string() : std::string(default_type);
    one_at_a_time_ &= std::ranges::find(kOneAtATime, name) != kOneAtATime.end();
    if (std::ranges::find(kTypes, name) == kTypes.end() && name != kTokenTriggered)
      return invalid(place + "/type", concat("there is no format \"", name, "\""));
    if (name == "json_schema" || name == "qwen_xml_parameter") return schema(value, place);
    if (name == "regex") return regex(value, place);
    if (name == "grammar") return grammar(value, place);
    json::Object out;
    out.set("type", name);
    for (const auto& [key, member] : value.as_object()) {
      if (key == "type") continue;
      MET_ASSIGN(V lowered, child(name, key, member, concat(place, "/", key), depth));
      out.set(key, std::move(lowered));
    }
    return V(std::move(out));
  }

 private:
  Result<V> child(std::string_view type, const std::string& key, const V& value, const std::string& place,
                  int depth) {
    if (key == "content") return format(value, place, depth + 1);
    if ((key == "elements" || key == "tags") && value.is_array()) {
      json::Array out;
      for (std::size_t i = 0; i < value.as_array().size(); ++i) {
        MET_ASSIGN(V part,
                   format(value.as_array()[i], concat(place, "/", i), depth + 1, key == "tags" ? "tag" : ""));
        out.push_back(std::move(part));
      }
      return V(std::move(out));
    }
    if (key == "rules" && (type == "dispatch" || type == "token_dispatch") && value.is_array()) {
      json::Array out;
      for (std::size_t i = 0; i < value.as_array().size(); ++i) {
        V pair = value.as_array()[i];
        if (!pair.is_array() || pair.as_array().size() != 2)
          return invalid(concat(place, "/", i), "must be a pair of trigger and format");
        MET_ASSIGN(pair.as_array()[1], format(pair.as_array()[1], concat(place, "/", i, "/1"), depth + 1));
        out.push_back(std::move(pair));
      }
      return V(std::move(out));
    }
    return value;
  }

  static V grammar_format(std::string ebnf) {
    json::Object out;
    out.set("type", "grammar");
    out.set("grammar", std::move(ebnf));
    return V(std::move(out));
  }

  Result<V> schema(const V& value, const std::string& place) {
    const V* found = value.find("json_schema");
    if (found == nullptr) return invalid(place + "/json_schema", "is missing");
    const V* named = value.find("style");
    std::optional<Style> style = Style::kQwenXml;
    if (value.find("type")->as_string() == "json_schema")
      style = named == nullptr     ? Style::kJson
              : named->is_string() ? style_named(named->as_string())
                                   : std::nullopt;
    auto ebnf = schema_ebnf(*found, style.value_or(Style::kJson));
    if (!ebnf) {
      const V* called = value.find("called");  // by whoever made the tag from something else
      if (called == nullptr || !called->is_string())
        return at(place + "/json_schema", std::move(ebnf).error());
      const bool whole = ebnf.error().field.empty();
      return at(whole ? called->as_string() : called->as_string() + ", at ", std::move(ebnf).error());
    }
    if (!style)
      return value;  // the engine's own reading of the schema, which warns of what it does not enforce
    return grammar_format(std::move(*ebnf));
  }

  Result<V> regex(const V& value, const std::string& place) {
    const V* pattern = value.find("pattern");
    if (pattern == nullptr || !pattern->is_string()) return invalid(place + "/pattern", "must be a string");
    auto parsed = parse_regex(pattern->as_string());
    if (!parsed) return at(place + "/pattern", std::move(parsed).error());
    auto ebnf = Rules().write(lower_regex(*parsed, Spelling::kPlain, Unanchored::kWhole));
    if (!ebnf) return at(place + "/pattern", std::move(ebnf).error());
    return grammar_format(std::move(*ebnf));
  }

  Result<V> grammar(const V& value, const std::string& place) {
    const V* text = value.find("grammar");
    if (text == nullptr || !text->is_string()) return invalid(place + "/grammar", "must be a string");
    if (auto checked = check_ebnf(text->as_string()); !checked)
      return at(place + "/grammar", std::move(checked).error());
    return value;
  }

  bool one_at_a_time_ = true;
};

/// The older form of the same thing: {"structures": [{"begin", "schema", "end"}], "triggers": […]}.
Result<V> modern_format(const V& tag) {
  const V* structures = tag.find("structures");
  const V* triggers = tag.find("triggers");
  if (!structures->is_array() || structures->as_array().empty())
    return invalid("/structures", "must be a list of at least one structure");
  if (triggers == nullptr) return invalid("/triggers", "is missing");
  json::Array tags;
  for (std::size_t i = 0; i < structures->as_array().size(); ++i) {
    const V& one = structures->as_array()[i];
    for (const char* key : {"begin", "end", "schema"})
      if (one.find(key) == nullptr) return invalid(concat("/structures/", i, "/", key), "is missing");
    json::Object content{{"type", "json_schema"}, {"json_schema", *one.find("schema")}};
    tags.push_back(json::Object{
        {"begin", *one.find("begin")}, {"content", std::move(content)}, {"end", *one.find("end")}});
  }
  return V(json::Object{{"type", "triggered_tags"}, {"triggers", *triggers}, {"tags", std::move(tags)}});
}

}  // namespace

Result<Source> lower_structural_tag(const V& tag) {
  if (!tag.is_object()) return invalid("", concat("must be an object, got ", tag.type_name()));
  if (const V* type = tag.find("type"); type != nullptr && *type != V("structural_tag"))
    return invalid("/type", "must be \"structural_tag\"");
  V format;
  std::string place = "/format";
  if (const V* given = tag.find("format")) {
    format = *given;
  } else if (tag.find("structures") != nullptr) {
    MET_ASSIGN(format, modern_format(tag));
    place.clear();
  } else {
    return invalid("/format", "is missing");
  }
  Lowering lowering;
  MET_ASSIGN(V lowered, lowering.format(format, place, 0));
  return Source{
      .structural_tag = true,
      .marked = lowering.one_at_a_time(),
      .text = json::write(json::Object{{"type", "structural_tag"}, {"format", std::move(lowered)}})};
}

bool names_token(const V& tag, std::string_view spelling) {
  if (spelling.empty()) return false;
  if (tag.is_string()) return tag.as_string().find(spelling) != std::string::npos;
  if (tag.is_array())
    return std::ranges::any_of(tag.as_array(), [&](const V& part) { return names_token(part, spelling); });
  if (!tag.is_object()) return false;
  return std::ranges::any_of(tag.as_object(), [&](const auto& member) {
    const auto& [key, value] = member;
    if (key == "style" && value.is_string())
      if (const auto style = style_named(value.as_string()); style && style_writes(*style, spelling))
        return true;
    return key != "json_schema" && key != "schema" && key != "grammar" && key != "pattern" &&
           names_token(value, spelling);
  });
}

}  // namespace met::grammar
