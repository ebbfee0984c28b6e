#include "grammar/schema.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/concat.h"
#include "grammar/formats.h"
#include "grammar/notation.h"
#include "grammar/number.h"
#include "grammar/regex.h"

namespace met::grammar {
namespace {

using V = json::Value;

constexpr std::size_t kRulesMax = 30'000;
constexpr std::size_t kPrefixMax = 500;

}  // namespace

unsigned meant_types(const Shape& s) {
  if (s.types != kEveryType) return s.types;
  unsigned out = 0;
  if (s.low || s.high || s.multiple_of) out |= kNumber;
  if (s.min_length > 0 || s.max_length != kNoEnd || s.pattern || s.format) out |= kString;
  if (!s.prefix.empty() || s.items || s.min_items > 0 || s.max_items != kNoEnd) out |= kArray;
  if (!s.properties.empty() || !s.patterns.empty() || s.others || s.names || !s.required.empty() ||
      s.min_properties > 0 || s.max_properties != kNoEnd)
    out |= kObject;
  return out == 0 ? unsigned{kEveryType} : out;
}

Node SchemaLowering::number(bool whole) {
  return whole ? shared("integer", any_integer) : shared("number", any_number);
}

Node SchemaLowering::member(const Node& key, const Node& value) {
  return all({key, blank(), text(":"), blank(), value});
}

Result<Node> SchemaLowering::json_member(const Node& key, const Together& schemas) {
  MET_ASSIGN(const Node content, value(schemas));
  return member(key, content);
}

Node SchemaLowering::any_value() {
  return shared("value", [&] {
    return any({word("null", "None"), word("true", "True"), word("false", "False"), number(false),
                any_string(), any_array(), any_object()});
  });
}

Node SchemaLowering::any_array() {
  return shared("array", [&] {
    const Node more = repeat(all({comma(), any_value()}), 0, kNoEnd);
    return all({text("["), blank(), maybe(all({any_value(), more, blank()})), text("]")});
  });
}

Node SchemaLowering::any_object() {
  return shared("object", [&] {
    const Node one = member(free_key({}, /*keyword=*/false), any_value());
    const Node more = repeat(all({comma(), one}), 0, kNoEnd);
    return all({text("{"), blank(), maybe(all({one, more, blank()})), text("}")});
  });
}

Result<Node> SchemaLowering::value(const Together& schemas) {
  if (schemas.empty()) return any_value();
  const auto found = known_.find(schemas);
  if (found != known_.end()) return rule(found->second);
  if (rules_.size() > kRulesMax)
    return unsupported(reader_.place(*schemas.front()), "the schema describes too many different values");
  const int number = rules_.add("");
  known_.emplace(schemas, number);
  open_.emplace_back(schemas, number);
  return rule(number);
}

Result<> SchemaLowering::define(const Together& schemas, int number) {
  const std::string where = reader_.place(*schemas.front());
  MET_ASSIGN(const std::vector<Shape> shapes, reader_.shapes(schemas));
  std::vector<Node> out;
  for (const Shape& one : shapes) {
    MET_ASSIGN(Node node, shape(one, where));
    out.push_back(std::move(node));
  }
  rules_.define(number, any(std::move(out)));
  return {};
}

Result<Node> SchemaLowering::shape(const Shape& s, const std::string& where) {
  if (s.values) return listed_values(s, where);
  const unsigned types = meant_types(s);
  std::vector<Node> out;
  if ((types & kNull) != 0) out.push_back(word("null", "None"));
  if ((types & kBoolean) != 0) out.push_back(any({word("true", "True"), word("false", "False")}));
  if ((types & kNumber) != 0) {
    if (!s.low && !s.high && !s.multiple_of) {
      out.push_back(number((types & kFraction) == 0));
    } else {
      auto bounded = bounded_number(s, rules_);
      if (!bounded) return fail(bounded.error().code, bounded.error().message, where + bounded.error().field);
      out.push_back(std::move(*bounded));
    }
  }
  if ((types & kString) != 0) {
    MET_ASSIGN(Node node, string_value(s, where));
    out.push_back(std::move(node));
  }
  if ((types & kArray) != 0) {
    MET_ASSIGN(Node node, array_value(s, where));
    out.push_back(std::move(node));
  }
  if ((types & kObject) != 0) {
    MET_ASSIGN(Node node, object_value(s, where));
    out.push_back(std::move(node));
  }
  return any(std::move(out));
}

Result<std::vector<const V*>> SchemaLowering::fitting_values(const Shape& s, const std::string& where) {
  std::vector<const V*> out;
  for (const V& one : *s.values) {
    const Result<bool> inside = reader_.holds_listed(s, one);
    if (!inside)
      return fail(inside.error().code, inside.error().message, where + "/enum" + inside.error().field);
    if (*inside) out.push_back(&one);
  }
  return out;
}

Result<Node> SchemaLowering::listed_values(const Shape& s, const std::string& where) {
  MET_ASSIGN(const std::vector<const V*> values, fitting_values(s, where));
  std::vector<Node> out;
  for (const V* one : values) {
    MET_ASSIGN(Node node, literal(*one, where + "/enum"));
    out.push_back(std::move(node));
  }
  return any(std::move(out));
}

Result<Node> SchemaLowering::string_value(const Shape& s, const std::string& where, bool in_tag) {
  if (s.max_length != kNoEnd && s.max_length < s.min_length) return never();
  const bool bounded = s.min_length > 0 || s.max_length != kNoEnd;
  if (s.pattern && s.format)
    return unsupported(where + "/format", "a format and a pattern of one string cannot be enforced together");
  if (!s.pattern && !s.format) {
    if (in_tag) return tag_string(s.min_length, s.max_length);
    return bounded ? bounded_string(s.min_length, s.max_length) : any_string();
  }
  const std::string place = where + (s.pattern ? "/pattern" : "/format");
  auto regex = parse_regex(s.pattern ? std::string_view(*s.pattern) : *format_pattern(*s.format));
  if (!regex) return fail(regex.error().code, regex.error().message, place);
  auto value = in_tag ? tag_pattern(*regex, s.min_length, s.max_length)
                      : pattern_string(*regex, s.min_length, s.max_length);
  if (!value) return fail(value.error().code, value.error().message, place);
  return value;
}

Result<Node> SchemaLowering::array_value(const Shape& s, const std::string& where) {
  if (s.prefix.size() > kPrefixMax)
    return unsupported(where + "/prefixItems", concat("there are more than ", kPrefixMax));
  if (s.max_items != kNoEnd && s.max_items < s.min_items) return never();
  Node item = never();
  if (!s.items || s.items->empty() ||
      std::ranges::find(*s.items, &SchemaReader::nothing()) == s.items->end()) {
    MET_ASSIGN(item, value(s.items.value_or(Together{})));
  }
  const auto given = static_cast<std::int64_t>(s.prefix.size());
  // From the back: what may follow behind the first i items.
  const std::int64_t most_more =
      s.max_items == kNoEnd ? kNoEnd : std::max<std::int64_t>(s.max_items - given, 0);
  const std::int64_t least_more = std::max<std::int64_t>(s.min_items - given, 0);
  Node rest;
  if (given == 0) {
    const Node more = repeat(all({comma(), item}), std::max<std::int64_t>(least_more - 1, 0),
                             most_more == kNoEnd ? kNoEnd : std::max<std::int64_t>(most_more - 1, 0));
    rest = most_more == 0 ? empty_text() : all({item, more});
    if (most_more != 0) rest = all({rest, blank()});
    if (most_more != 0 && s.min_items == 0) rest = maybe(rest);
  } else {
    rest = all({repeat(all({comma(), item}), least_more, most_more), blank()});
    for (std::int64_t i = given; i-- > 0;) {
      if (s.max_items != kNoEnd && i >= s.max_items) {
        rest = i == 0 ? empty_text() : blank();
        continue;
      }
      MET_ASSIGN(const Node one, value(s.prefix[static_cast<std::size_t>(i)]));
      Node taken = all({i == 0 ? empty_text() : comma(), one, rest});
      if (i < s.min_items) {
        rest = taken;
      } else {
        rest = any({taken, i == 0 ? empty_text() : blank()});
      }
    }
  }
  return all({text("["), blank(), rest, text("]")});
}

Result<Node> SchemaLowering::arguments(const Together& schemas) {
  MET_ASSIGN(const std::vector<Shape> shapes, reader_.shapes(schemas));
  const std::string where = reader_.place(*schemas.front());
  std::vector<Node> out;
  for (const Shape& one : shapes) {
    if ((one.types & kObject) == 0) continue;
    if (one.values) return unsupported(where + "/enum", "arguments that are listed whole cannot be written");
    MET_ASSIGN(Node node,
               style_ == Style::kGemma4 ? object_value(one, where) : keyword_arguments(one, where));
    out.push_back(std::move(node));
  }
  if (out.empty()) return invalid(where, "arguments must be an object");
  return any(std::move(out));
}

Result<std::string> SchemaLowering::run() {
  if (!document_.is_object() && !document_.is_bool())
    return invalid("", concat("a schema must be an object or a boolean, got ", document_.type_name()));
  MET_ASSIGN(const V* start, reader_.target(document_));
  MET_ASSIGN(const Node root, style_ == Style::kJson ? value(Together{start}) : arguments(Together{start}));
  while (!open_.empty()) {
    const auto [schemas, number] = open_.back();
    open_.pop_back();
    MET_TRY(define(schemas, number));
  }
  return rules_.write(root);
}

Result<std::string> schema_ebnf(const json::Value& schema, Style style) {
  return SchemaLowering(schema, style).run();
}

}  // namespace met::grammar
