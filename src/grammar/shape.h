// A JSON Schema with its references, allOf, anyOf and oneOf resolved: alternatives without any of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "grammar/expr.h"
#include "grammar/regex.h"

namespace met::grammar {

enum Type : unsigned {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,  ///< numbers that are no integers
  kString = 16,
  kArray = 32,
  kObject = 64,
  kNumber = kInteger | kFraction,
  kEveryType = 127,
};

/// Schemas that must all hold: nodes of the document, each once, as they were mentioned. Empty: everything holds.
using Together = std::vector<const json::Value*>;

struct Bound {
  json::Value value;  ///< a number
  bool open = false;  ///< the value itself is outside
};

struct Property {
  std::string name;
  Together schemas;
  RegexNode regex = nullptr;  ///< of a name that is a pattern
};

/// What one alternative asks of a value. An absent optional asks nothing.
struct Shape {
  unsigned types = kEveryType;
  std::optional<std::vector<json::Value>> values;  ///< one of these

  std::optional<Bound> low;
  std::optional<Bound> high;
  std::optional<std::int64_t> multiple_of;

  std::int64_t min_length = 0;
  std::int64_t max_length = kNoEnd;
  std::optional<std::string> pattern;
  std::optional<std::string> format;  ///< one that is enforced

  std::vector<Together> prefix;   ///< of the first items
  std::optional<Together> items;  ///< of all others
  std::int64_t min_items = 0;
  std::int64_t max_items = kNoEnd;

  std::vector<Property> properties;  ///< in the order in which they were declared
  std::vector<Property> patterns;    ///< `name` is a pattern
  std::optional<Together> others;    ///< of keys that neither names nor matches
  std::optional<Together> names;     ///< of every key
  std::set<std::string> required;
  std::int64_t min_properties = 0;
  std::int64_t max_properties = kNoEnd;

  const Property* find(std::string_view name) const;
  /// What it asks of the value of one key, which is declared as `own` or not.
  Together about(const std::string& key, const Property* own) const;
  Together about(const std::string& key) const { return about(key, find(key)); }
  /// Likewise of an item.
  Together about_item(std::size_t index) const;
};

/// A shape's declared properties by name, where many are asked for. Lives no longer than the shape.
class PropertyIndex {
 public:
  explicit PropertyIndex(const Shape& shape);
  const Property* find(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, const Property*> by_name_;
};

/// Numbers by value, also where one is an integer and the other is not: -1, 0 or 1.
int compare_numbers(const json::Value& a, const json::Value& b);
/// JSON Schema's equality: 1 equals 1.0, members have no order.
bool equal_values(const json::Value& a, const json::Value& b);
/// One text for all values that are equal, and for no other.
std::string canonical(const json::Value& value);
unsigned type_of(const json::Value& value);
std::int64_t code_points(std::string_view text);
void add_schemas(Together& to, const Together& more);

/// What both ask. Errors: kUnsupported where that cannot be said (two patterns).
Result<Shape> intersect(const Shape& a, const Shape& b);

/// Reads a document. Every error's field is the place of the schema in it.
class SchemaReader {
 public:
  explicit SchemaReader(const json::Value& document) : document_(document) { places_[&document] = ""; }

  /// The alternatives of schemas that must all hold; none: nothing can hold.
  Result<std::vector<Shape>> shapes(const Together& schemas);
  /// A schema as a member of Together: references that say nothing else are followed.
  Result<const json::Value*> target(const json::Value& schema);
  const std::string& place(const json::Value& schema) const;

  /// Counts work; an error beyond its bound. `where`: the place that the error names.
  Result<> spend(const std::string& where, std::int64_t units);

  Result<bool> holds(const Shape& shape, const json::Value& value);
  /// Likewise, for one of shape.values.
  Result<bool> holds_listed(const Shape& shape, const json::Value& value);
  Result<bool> holds(const Together& schemas, const json::Value& value);

  /// A schema that nothing satisfies.
  static const json::Value& nothing();

 private:
  using V = json::Value;
  // shape_read.cpp: one schema's own words
  Result<Shape> own_shape(const V& schema);
  Result<> read_types(const V& schema, Shape& shape);
  Result<> read_values(const V& schema, Shape& shape);
  Result<> read_numbers(const V& schema, Shape& shape);
  Result<> read_strings(const V& schema, Shape& shape);
  Result<> read_arrays(const V& schema, Shape& shape);
  Result<> read_objects(const V& schema, Shape& shape);
  Result<> read_required(const V& schema, Shape& shape);
  Result<> read_members(const V& schema, const char* word, std::vector<Property>& out);
  Result<> refuse_unenforced(const V& schema);
  Result<std::int64_t> count(const V& schema, const char* word, std::int64_t otherwise);
  Result<Together> child(const V& schema, const V& value, const std::string& below);

  // shape_resolve.cpp: references and applicators
  Result<std::vector<Shape>> alternatives(const V& schema);
  Result<std::vector<Shape>> shapes_below(const Together& schemas);
  Result<std::vector<Shape>> cross(const std::vector<Shape>& left, const std::vector<Shape>& right,
                                   const V& schema);
  Result<std::vector<Shape>> union_of(const V& schema, const char* word, const std::vector<Shape>& base);
  Result<> check_apart(const std::vector<std::vector<Shape>>& branches, const V& schema);
  Result<bool> told_by_values(const std::vector<std::vector<Shape>>& branches);
  Result<bool> told_by(const std::string& key, const std::vector<std::vector<Shape>>& branches);
  Result<const V*> resolve(const V& schema);
  Result<> step(const V& schema, std::int64_t units = 1) { return spend(place(schema), units); }
  const V* interned(const V& schema);

  // shape_compare.cpp
  /// Whether provably no value satisfies both.
  Result<bool> apart(const Shape& a, const Shape& b);
  Result<bool> apart(const Together& a, const Together& b);
  Result<bool> arrays_apart(const Shape& a, const Shape& b);
  Result<bool> objects_apart(const Shape& a, const Shape& b);

  const V& document_;
  std::map<const V*, std::string> places_;
  std::unordered_map<std::string, const V*> leaves_;  ///< small schemas by what they say: equal ones are one
  std::set<const V*> open_;  ///< schemas whose alternatives are being read, for references without end
  int apart_depth_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace met::grammar
