// The words of one schema, each read or refused.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/concat.h"
#include "grammar/formats.h"
#include "grammar/regex.h"
#include "grammar/shape.h"

namespace met::grammar {
namespace {

using V = json::Value;

constexpr std::array<std::string_view, 10> kRefused = {"not",
                                                       "if",
                                                       "dependentRequired",
                                                       "dependentSchemas",
                                                       "dependencies",
                                                       "contains",
                                                       "unevaluatedItems",
                                                       "$dynamicRef",
                                                       "$recursiveRef",
                                                       "propertyDependencies"};

std::string escaped(std::string_view token) {
  std::string out;
  for (const char c : token) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

unsigned type_named(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "integer") return kInteger;
  if (name == "number") return kNumber;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return 0;
}

}  // namespace

const V& SchemaReader::nothing() {
  static const V value(false);
  return value;
}

const std::string& SchemaReader::place(const V& schema) const {
  static const std::string none;
  const auto found = places_.find(&schema);
  return found == places_.end() ? none : found->second;
}

Result<Together> SchemaReader::child(const V& schema, const V& value, const std::string& below) {
  const std::string where = place(schema) + below;
  if (!value.is_object() && !value.is_bool())
    return invalid(where, concat("a schema must be an object or a boolean, got ", value.type_name()));
  places_.try_emplace(&value, where);
  MET_ASSIGN(const V* found, target(value));
  if (found->is_bool() && found->as_bool()) return Together{};
  if (found->is_object() && found->as_object().empty()) return Together{};
  return Together{interned(*found)};
}

/// Of small schemas that say the same, the first: large objects have few kinds of values, and one rule for each.
const V* SchemaReader::interned(const V& schema) {
  constexpr std::size_t kMembersMax = 8;
  if (!schema.is_object() || schema.as_object().size() > kMembersMax) return &schema;
  std::string said;
  for (const auto& [word, value] : schema.as_object()) {
    if (word == "description" || word == "title" || word == "default" || word == "examples") continue;
    if (value.is_object() || value.is_array()) return &schema;
    json::write_string(word, said);
    json::write(value, said);
  }
  return leaves_.try_emplace(std::move(said), &schema).first->second;
}

Result<std::int64_t> SchemaReader::count(const V& schema, const char* word, std::int64_t otherwise) {
  const V* value = schema.find(word);
  if (value == nullptr) return otherwise;
  const bool whole = value->is_number() && (type_of(*value) & kInteger) != 0;
  if (!whole || value->as_number() < 0)
    return invalid(concat(place(schema), "/", word), "must be an integer that is not negative");
  return value->is_int() ? value->as_int() : static_cast<std::int64_t>(std::min(value->as_number(), 9e18));
}

Result<> SchemaReader::refuse_unenforced(const V& schema) {
  for (const std::string_view word : kRefused)
    if (schema.find(word) != nullptr)
      return unsupported(concat(place(schema), "/", word), concat("\"", word, "\" is not enforced"));
  return {};
}

Result<> SchemaReader::read_types(const V& schema, Shape& shape) {
  const V* type = schema.find("type");
  if (type == nullptr) return {};
  const std::string where = place(schema) + "/type";
  shape.types = 0;
  const auto add = [&](const V& name) -> Result<> {
    const unsigned one = name.is_string() ? type_named(name.as_string()) : 0;
    if (one == 0) return invalid(where, concat("there is no type ", json::write(name)));
    shape.types |= one;
    return {};
  };
  if (!type->is_array()) return add(*type);
  if (type->as_array().empty()) return invalid(where, "must name at least one type");
  for (const V& name : type->as_array()) MET_TRY(add(name));
  return {};
}

Result<> SchemaReader::read_values(const V& schema, Shape& shape) {
  if (const V* values = schema.find("enum")) {
    if (!values->is_array() || values->as_array().empty())
      return invalid(place(schema) + "/enum", "must be a list of at least one value");
    shape.values = values->as_array();
  }
  const V* value = schema.find("const");
  if (value == nullptr) return {};
  const auto same = [&](const V& other) { return equal_values(*value, other); };
  const bool in = !shape.values || std::ranges::any_of(*shape.values, same);
  shape.values.emplace();
  if (in) shape.values->push_back(*value);
  return {};
}

Result<> SchemaReader::read_numbers(const V& schema, Shape& shape) {
  struct Word {
    const char* name;
    bool low;
    bool open;
  };
  for (const Word& word : {Word{"minimum", true, false}, Word{"maximum", false, false},
                           Word{"exclusiveMinimum", true, true}, Word{"exclusiveMaximum", false, true}}) {
    const V* value = schema.find(word.name);
    if (value == nullptr) continue;
    if (!value->is_number())
      return invalid(concat(place(schema), "/", word.name),
                     concat("must be a number, got ", value->type_name()));
    Shape bound;
    (word.low ? bound.low : bound.high) = Bound{*value, word.open};
    Shape now;
    now.low = shape.low;
    now.high = shape.high;
    MET_ASSIGN(const Shape both, intersect(now, bound));
    shape.low = both.low;
    shape.high = both.high;
  }
  const V* multiple = schema.find("multipleOf");
  if (multiple == nullptr) return {};
  const std::string where = place(schema) + "/multipleOf";
  if (!multiple->is_number() || multiple->as_number() <= 0) return invalid(where, "must be a number above 0");
  if ((type_of(*multiple) & kInteger) == 0)
    return unsupported(where, "a multiple of a fraction is not enforced");
  if (multiple->as_number() > 1'000'000) return unsupported(where, "must be at most 1000000");
  shape.multiple_of = static_cast<std::int64_t>(multiple->as_number());
  return {};
}

Result<> SchemaReader::read_strings(const V& schema, Shape& shape) {
  MET_ASSIGN(shape.min_length, count(schema, "minLength", 0));
  MET_ASSIGN(shape.max_length, count(schema, "maxLength", kNoEnd));
  if (const V* pattern = schema.find("pattern")) {
    const std::string where = place(schema) + "/pattern";
    if (!pattern->is_string()) return invalid(where, concat("must be a string, got ", pattern->type_name()));
    if (auto parsed = parse_regex(pattern->as_string()); !parsed)
      return fail(parsed.error().code, parsed.error().message, where);
    shape.pattern = pattern->as_string();
  }
  const V* format = schema.find("format");
  if (format == nullptr) return {};
  const std::string where = place(schema) + "/format";
  if (!format->is_string()) return invalid(where, concat("must be a string, got ", format->type_name()));
  if (is_standard_format(format->as_string()))
    return unsupported(where, concat("the format \"", format->as_string(), "\" is not enforced"));
  if (format_pattern(format->as_string())) shape.format = format->as_string();
  return {};
}

Result<> SchemaReader::read_arrays(const V& schema, Shape& shape) {
  MET_ASSIGN(shape.min_items, count(schema, "minItems", 0));
  MET_ASSIGN(shape.max_items, count(schema, "maxItems", kNoEnd));
  if (const V* unique = schema.find("uniqueItems")) {
    const std::string where = place(schema) + "/uniqueItems";
    if (!unique->is_bool()) return invalid(where, "must be true or false");
    if (unique->as_bool() && (shape.max_items == kNoEnd || shape.max_items > 1))
      return unsupported(where, "\"uniqueItems\" is not enforced");
  }
  const V* items = schema.find("items");
  const V* prefix = schema.find("prefixItems");
  std::string prefix_word = "/prefixItems/";
  std::string items_word = "/items";
  if (items != nullptr && items->is_array() && prefix == nullptr) {  // draft 7
    prefix = items;
    prefix_word = "/items/";
    items = schema.find("additionalItems");
    items_word = "/additionalItems";
  }
  if (prefix != nullptr) {
    if (!prefix->is_array()) return invalid(place(schema) + "/prefixItems", "must be a list of schemas");
    for (std::size_t i = 0; i < prefix->as_array().size(); ++i) {
      MET_ASSIGN(Together item, child(schema, prefix->as_array()[i], concat(prefix_word, i)));
      shape.prefix.push_back(std::move(item));
    }
  }
  if (items == nullptr) return {};
  MET_ASSIGN(shape.items, child(schema, *items, items_word));
  return {};
}

Result<> SchemaReader::read_members(const V& schema, const char* word, std::vector<Property>& out) {
  const V* members = schema.find(word);
  if (members == nullptr) return {};
  if (!members->is_object())
    return invalid(concat(place(schema), "/", word), concat("must be an object, got ", members->type_name()));
  for (const auto& [name, value] : members->as_object()) {
    MET_ASSIGN(Together schemas, child(schema, value, concat("/", word, "/", escaped(name))));
    out.push_back({name, std::move(schemas)});
  }
  return {};
}

Result<> SchemaReader::read_required(const V& schema, Shape& shape) {
  const V* required = schema.find("required");
  if (required == nullptr) return {};
  const std::string where = place(schema) + "/required";
  if (!required->is_array())
    return invalid(where, concat("must be a list of names, got ", required->type_name()));
  for (const V& name : required->as_array()) {
    if (!name.is_string()) return invalid(where, concat("must hold names only, got ", name.type_name()));
    shape.required.insert(name.as_string());
  }
  return {};
}

Result<> SchemaReader::read_objects(const V& schema, Shape& shape) {
  MET_TRY(read_members(schema, "properties", shape.properties));
  MET_TRY(read_members(schema, "patternProperties", shape.patterns));
  for (Property& entry : shape.patterns) {
    auto parsed = parse_regex(entry.name);
    if (!parsed)
      return fail(parsed.error().code, parsed.error().message,
                  concat(place(schema), "/patternProperties/", escaped(entry.name)));
    entry.regex = std::move(*parsed);
  }
  MET_TRY(read_required(schema, shape));
  if (const V* others = schema.find("additionalProperties")) {
    MET_ASSIGN(shape.others, child(schema, *others, "/additionalProperties"));
  }
  if (const V* names = schema.find("propertyNames")) {
    MET_ASSIGN(shape.names, child(schema, *names, "/propertyNames"));
  }
  MET_ASSIGN(shape.min_properties, count(schema, "minProperties", 0));
  MET_ASSIGN(shape.max_properties, count(schema, "maxProperties", kNoEnd));
  const V* unevaluated = schema.find("unevaluatedProperties");
  if (unevaluated == nullptr) return {};
  for (const char* word : {"$ref", "allOf", "anyOf", "oneOf"})
    if (schema.find(word) != nullptr)
      return unsupported(place(schema) + "/unevaluatedProperties",
                         concat("\"unevaluatedProperties\" beside \"", word, "\" is not enforced"));
  if (shape.others) return {};
  MET_ASSIGN(shape.others, child(schema, *unevaluated, "/unevaluatedProperties"));
  return {};
}

Result<Shape> SchemaReader::own_shape(const V& schema) {
  Shape shape;
  for (const auto& [word, value] : schema.as_object())
    MET_TRY(step(schema, 1 + static_cast<std::int64_t>(value.is_object()  ? value.as_object().size()
                                                       : value.is_array() ? value.as_array().size()
                                                                          : 0)));
  MET_TRY(refuse_unenforced(schema));
  MET_TRY(read_types(schema, shape));
  MET_TRY(read_values(schema, shape));
  MET_TRY(read_numbers(schema, shape));
  MET_TRY(read_strings(schema, shape));
  MET_TRY(read_arrays(schema, shape));
  MET_TRY(read_objects(schema, shape));
  return shape;
}

}  // namespace met::grammar
