// Schemas to expressions over their documents. One value, one rule.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "grammar/expr.h"
#include "grammar/shape.h"

namespace met::grammar {

class SchemaLowering {
 public:
  explicit SchemaLowering(const json::Value& document) : reader_(document), document_(document) {}
  Result<std::string> run();

 private:
  using V = json::Value;
  /// One value that satisfies all of them; its rule gets its body later, so that depth costs no stack.
  Result<Node> value(const Together& schemas);
  Result<> define(const Together& schemas, int number);
  Result<Node> shape(const Shape& shape, const Together& schemas);
  Result<Node> listed_values(const Shape& shape);
  Result<Node> string_value(const Shape& shape, const std::string& where);
  Result<Node> array_value(const Shape& shape, const std::string& where);

  // schema_object.cpp
  Result<Node> object_value(const Shape& shape, const std::string& where);
  struct Members;
  Result<Members> members_of(const Shape& shape, const std::string& where);
  Result<> add_declared(const Shape& shape, Members& out);
  Result<> add_patterned(const Shape& shape, const std::string& where, Members& out);
  Result<> add_others(const Shape& shape, Members& out);
  Result<Node> member_list(const Shape& shape, const Members& members, const std::string& where);

  // Rules that every document shares, made when first used.
  Node blank();
  Node comma();
  Node string_char();
  Node any_string();
  Node any_value();
  Node any_object();
  Node any_array();
  Node number(bool whole);
  Node member(const Node& key, const Node& value);

  SchemaReader reader_;
  const V& document_;
  Rules rules_;
  std::map<Together, int> known_;
  std::vector<std::pair<Together, int>> open_;  ///< rules that have no body yet
  std::map<std::string, int> shared_;
  template <class Make>
  Node shared(const std::string& name, Make make);
};

/// Keys of plain characters that are none of `names`, as texts inside quotes.
Node other_keys(const std::vector<std::string>& names);

}  // namespace met::grammar
