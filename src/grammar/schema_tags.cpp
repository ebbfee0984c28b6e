// Arguments as tags: one a parameter, a string in it as it is, everything else as JSON. A value is what the parser of
// such calls reads (text/tools/xml_calls.h), so nothing may stand beside a string that is held to anything.
#include <algorithm>
#include <utility>

#include "core/concat.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

namespace met::grammar {
namespace {

using V = json::Value;

}  // namespace

/// What a parameter may be, as it stands in its tag.
struct SchemaLowering::TagValues {
  std::vector<Node> strings;
  std::vector<Node> others;  ///< but null
  bool has_null = false;
  bool may_spell_null = false;  ///< a string may be the word
};

Result<Node> SchemaLowering::argument(const Node& name, const Together& schemas, JsonTypes read) {
  if (tag_ == nullptr) {
    MET_ASSIGN(const Node content, value(schemas));
    return all({name, text("="), content});
  }
  MET_ASSIGN(const Node content, tag_value(schemas, read));
  const Node gap = tag_->value_open.empty() ? empty_text() : all({blank(), text(tag_->value_open)});
  return all({text(tag_->open), name, text(tag_->name_end), gap, content, text(tag_->close)});
}

Result<SchemaLowering::TagValues> SchemaLowering::tag_values(const Together& schemas,
                                                             const std::string& where) {
  std::vector<Shape> shapes(1);
  if (!schemas.empty()) {
    MET_ASSIGN(shapes, reader_.shapes(schemas));
  }
  TagValues out;
  for (Shape& one : shapes) {
    if (one.values) {
      MET_ASSIGN(const std::vector<const V*> values, fitting_values(one, where));
      for (const V* listed : values) {
        if (listed->is_null()) {
          out.has_null = true;
          continue;
        }
        const bool is_text = listed->is_string();
        MET_ASSIGN(Node node, is_text ? tag_literal(listed->as_string(), where + "/enum")
                                      : literal(*listed, where + "/enum"));
        out.may_spell_null = out.may_spell_null || (is_text && listed->as_string().contains("null"));
        (is_text ? out.strings : out.others).push_back(std::move(node));
      }
      continue;
    }
    one.types = meant_types(one);
    out.has_null = out.has_null || (one.types & kNull) != 0;
    if ((one.types & kString) != 0) {
      MET_ASSIGN(Node node, string_value(one, where, /*in_tag=*/true));
      out.may_spell_null = true;
      out.strings.push_back(std::move(node));
    }
    one.types &= ~(kString | kNull);
    if (one.types == 0) continue;
    MET_ASSIGN(Node node, shape(one, where));
    out.others.push_back(std::move(node));
  }
  return out;
}

Result<Node> SchemaLowering::tag_value(const Together& schemas, JsonTypes read) {
  const std::string where = schemas.empty() ? "" : reader_.place(*schemas.front());
  MET_ASSIGN(TagValues values, tag_values(schemas, where));
  if (!tag_->typed) {
    // Where a string may stand the parser reads one, whatever it looks like, though only another branch of the schema
    // has it; only null is none.
    if (values.strings.empty() && !values.others.empty() && read.is_text())
      return unsupported(
          where,
          "the parameter may be a string elsewhere in the schema, from which this value cannot "
          "be told in this model's calls");
    if (values.may_spell_null && !values.has_null && read.has(JsonTypes::kNull))
      return unsupported(where,
                         "the parameter may be null elsewhere in the schema, from which the text null cannot "
                         "be told in this model's calls");
    if (read.is_text()) values.others.clear();
    values.has_null = values.has_null && read.has(JsonTypes::kNull);
  }
  if (values.has_null) values.others.push_back(text("null"));
  Node as_text = any(std::move(values.strings));
  Node as_json = any(std::move(values.others));
  if (as_json->kind != Expr::Kind::kNever) as_json = all({blank(), as_json, blank()});
  if (tag_->typed) {
    as_text = all({text(" string=\"true\">"), as_text});
    as_json = all({text(" string=\"false\">"), as_json});
  }
  return any({std::move(as_text), std::move(as_json)});
}

Node SchemaLowering::edged(Node text_node) const {
  return all({text(tag_->edge), std::move(text_node), text(tag_->edge)});
}

Node SchemaLowering::tag_string(std::int64_t least, std::int64_t most) {
  const Node free = shared("tag_text", [&] { return free_of(tag_->ends()); });
  if (least == 0 && most == kNoEnd) return free;
  const Node counted = chars(no_tag_text().complement());
  if (most != kNoEnd) return edged(repeat(counted, least, most));
  return edged(all({repeat(counted, least, least), free}));
}

Result<Node> SchemaLowering::tag_pattern(const RegexNode& regex, std::int64_t least, std::int64_t most) {
  if (asks_for(regex, '<'))
    return unsupported("", "a pattern with the character < cannot be written in this model's calls");
  MET_ASSIGN(Node body, lower_regex_bounded(regex, Spelling::kTagText, Unanchored::kWhole, least, most));
  return edged(std::move(body));
}

Result<Node> SchemaLowering::tag_literal(const std::string& value, const std::string& where) {
  for (const std::string_view end : tag_->ends())
    if (value.contains(end))
      return unsupported(where, concat("a string with ", end, " cannot be written in this model's calls"));
  if (!tag_->edge.empty() && value.ends_with('\r'))
    return unsupported(where,
                       "a string that ends with a carriage return cannot be written in this model's calls");
  return edged(text(value));
}

}  // namespace met::grammar
