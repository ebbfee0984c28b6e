#include "grammar/notation.h"

#include <algorithm>
#include <vector>

#include "core/concat.h"
#include "grammar/expr.h"
#include "grammar/regex.h"
#include "grammar/structural_tag.h"

namespace met::grammar {
namespace {

constexpr int kNestingMax = 200;
constexpr std::size_t kRulesMax = 5000;
constexpr std::size_t kChoicesMax = 10'000;

Result<std::string> regex_ebnf(const json::Value& value) {
  if (!value.is_string()) return invalid("", concat("must be a string, got ", value.type_name()));
  MET_ASSIGN(const RegexNode regex, parse_regex(value.as_string()));
  return Rules().write(lower_regex(regex, Spelling::kPlain, Unanchored::kWhole));
}

Result<std::string> choice_ebnf(const json::Value& value) {
  if (!value.is_array() || value.as_array().empty())
    return invalid("", "must be a list of at least one string");
  if (value.as_array().size() > kChoicesMax)
    return unsupported("", concat("must hold at most ", kChoicesMax, " strings"));
  std::vector<Node> choices;
  for (const json::Value& choice : value.as_array()) {
    if (!choice.is_string()) return invalid("", concat("must hold strings only, got ", choice.type_name()));
    choices.push_back(text(choice.as_string()));
  }
  return Rules().write(any(std::move(choices)));
}

Result<std::string> ebnf(const json::Value& value) {
  if (!value.is_string()) return invalid("", concat("must be a string, got ", value.type_name()));
  MET_TRY(check_ebnf(value.as_string()));
  return value.as_string();
}

Result<std::string> json_object_ebnf() {
  json::Object schema;
  schema.set("type", "object");
  return schema_ebnf(json::Value(std::move(schema)));
}

/// Whether some rule has attributes: `name[…] ::=`. A class is never the last thing before a definition, which begins
/// with its name.
bool has_attributes(const std::string& text) {
  constexpr std::string_view kBlank = " \t\r\n";
  bool closed = false;  // nothing but blanks since a bracket outside of literals closed
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
      closed = false;
    } else if (c == '[') {
      for (++at; at < text.size() && text[at] != ']'; ++at)
        if (text[at] == '\\') ++at;
      closed = true;
    } else if (closed && text.compare(at, 3, "::=") == 0) {
      return true;
    } else if (!kBlank.contains(c)) {
      closed = false;
    }
  }
  return false;
}

}  // namespace

Result<> check_ebnf(const std::string& text) {
  if (has_attributes(text)) return unsupported("", "attributes of rules are not supported");
  if (text.find('\0') != std::string::npos) return invalid("", "holds a NUL");
  int depth = 0;
  int deepest = 0;
  std::size_t rules = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') deepest = std::max(deepest, ++depth);
    if (text[at] == ')') depth = std::max(depth - 1, 0);
    if (text.compare(at, 3, "::=") == 0) ++rules;
  }
  if (deepest > kNestingMax)
    return unsupported("", concat("parentheses are nested deeper than ", kNestingMax));
  if (rules > kRulesMax) return unsupported("", concat("there are more than ", kRulesMax, " rules"));
  return {};
}

Result<Source> lower(const Spec& spec) {
  const auto plain = [](Result<std::string> text, bool marked = false) -> Result<Source> {
    if (!text) return std::unexpected(std::move(text).error());
    return Source{.marked = marked, .text = std::move(*text)};
  };
  switch (spec.kind) {
    case Kind::kJsonObject:
      return plain(json_object_ebnf());
    case Kind::kJsonSchema:
      return plain(schema_ebnf(spec.value), /*marked=*/true);
    case Kind::kRegex:
      return plain(regex_ebnf(spec.value));
    case Kind::kChoice:
      return plain(choice_ebnf(spec.value));
    case Kind::kEbnf:
      return plain(ebnf(spec.value));
    case Kind::kStructuralTag:
      return lower_structural_tag(spec.value);
  }
  return fail(ErrorCode::kInternal, "an unknown kind of grammar");
}

}  // namespace met::grammar
