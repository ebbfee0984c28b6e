// Schemas to expressions over their documents. One value, one rule.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json_types.h"
#include "grammar/expr.h"
#include "grammar/regex.h"
#include "grammar/shape.h"
#include "grammar/style.h"

namespace met::grammar {

/// The types whose words a shape uses where it names no type: who writes `properties` means an object.
unsigned meant_types(const Shape& shape);

class SchemaLowering {
 public:
  SchemaLowering(const json::Value& document, Style style)
      : reader_(document), document_(document), style_(style), tag_(tag_spelling(style)) {}
  Result<std::string> run();

 private:
  using V = json::Value;
  /// One value that satisfies all of them; its rule gets its body later, so that depth costs no stack.
  Result<Node> value(const Together& schemas);
  Result<> define(const Together& schemas, int number);
  Result<Node> shape(const Shape& shape, const std::string& where);
  /// Of the values that a shape lists those that fit the rest of it; they live as long as the shape.
  Result<std::vector<const V*>> fitting_values(const Shape& shape, const std::string& where);
  Result<Node> listed_values(const Shape& shape, const std::string& where);
  /// `in_tag`: as a parameter's whole value in its tag.
  Result<Node> string_value(const Shape& shape, const std::string& where, bool in_tag = false);
  Result<Node> array_value(const Shape& shape, const std::string& where);
  /// A call's arguments.
  Result<Node> arguments(const Together& schemas);

  // schema_object.cpp
  Result<Node> object_value(const Shape& shape, const std::string& where);
  struct Members;
  Result<Node> keyword_arguments(const Shape& shape, const std::string& where);
  struct Run {
    Node some;  ///< at least one of the members
    bool may_be_absent = false;
  };
  Run run_of(const Members& members, std::size_t first, std::size_t last);
  Result<Members> members_of(const Shape& shape, const std::string& where, bool keywords);
  Result<> add_declared(const Shape& shape, const std::string& where, Members& out);
  Result<> add_patterned(const Shape& shape, const std::string& where, Members& out);
  Result<> add_others(const Shape& shape, const std::string& where, Members& out);
  Result<Node> member_list(const Shape& shape, const Members& members, const std::string& where);

  // schema_tags.cpp
  /// One parameter of the outermost object where that is no JSON object. `read`: what its types are to the parser.
  Result<Node> argument(const Node& name, const Together& schemas, JsonTypes read);
  /// What may stand in a parameter's tag behind its name.
  Result<Node> tag_value(const Together& schemas, JsonTypes read);
  struct TagValues;
  Result<TagValues> tag_values(const Together& schemas, const std::string& where);
  Node tag_string(std::int64_t least, std::int64_t most);
  Result<Node> tag_pattern(const RegexNode& regex, std::int64_t least, std::int64_t most);
  Result<Node> tag_literal(const std::string& value, const std::string& where);
  Node edged(Node text_node) const;

  // schema_style.cpp: what depends on the style
  Result<Node> literal(const V& value, const std::string& where);
  /// One string as a value.
  Result<Node> quoted(const std::string& text, const std::string& where);
  /// Any string of `least` to `most` characters.
  Node bounded_string(std::int64_t least, std::int64_t most);
  Result<Node> pattern_string(const RegexNode& regex, std::int64_t least, std::int64_t most);
  Result<Node> key(const std::string& name, const std::string& where, bool keyword);
  /// Any key that is none of `names`.
  Node free_key(std::vector<std::string> names, bool keyword);
  Node word(const char* json, const char* python) const {
    return text(style_ == Style::kPython ? python : json);
  }

  // Rules that every document shares, made when first used.
  Node blank();
  Node comma();
  /// Between members; `arguments`: of the outermost object where that is no JSON object.
  Node separator(bool arguments) { return arguments && tag_ != nullptr ? blank() : comma(); }
  /// Characters of a JSON string that stand as they are, wherever they stand.
  CharSet plain_chars() const;
  Node json_char() const;
  std::string json_text(const V& value) const;
  Node any_string();
  Node any_value();
  Node any_object();
  Node any_array();
  Node number(bool whole);
  Node member(const Node& key, const Node& value);
  Result<Node> json_member(const Node& key, const Together& schemas);

  SchemaReader reader_;
  const V& document_;
  Style style_;
  const TagSpelling* tag_;
  Rules rules_;
  std::map<Together, int> known_;
  std::vector<std::pair<Together, int>> open_;  ///< rules that have no body yet
  std::map<std::string, int> shared_;
  template <class Make>
  Node shared(const std::string& name, Make make) {
    const auto found = shared_.find(name);
    if (found != shared_.end()) return rule(found->second);
    const int number = rules_.add(name);
    shared_.emplace(name, number);
    rules_.define(number, make());
    return rule(number);
  }
};

/// Whether a part of it is the one character `point` and nothing else.
bool asks_for(const RegexNode& regex, char32_t point);

/// Keys of characters of `plain` that are none of `names`, as texts inside quotes; `more` is any text of such
/// characters.
Node other_keys(const std::vector<std::string>& names, const CharSet& plain, const Node& more);

}  // namespace met::grammar
