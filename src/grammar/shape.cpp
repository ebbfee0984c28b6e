// Shapes by themselves: equality of values, what a shape asks of a key, intersections.
#include "grammar/shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "core/concat.h"
#include "core/utf8.h"
#include "grammar/regex.h"

namespace met::grammar {

const Property* Shape::find(std::string_view name) const {
  const auto found = std::ranges::find(properties, name, &Property::name);
  return found == properties.end() ? nullptr : &*found;
}

void add_schemas(Together& to, const Together& more) {
  for (const json::Value* schema : more)
    if (std::ranges::find(to, schema) == to.end()) to.push_back(schema);
}

PropertyIndex::PropertyIndex(const Shape& shape) {
  for (const Property& property : shape.properties) by_name_.emplace(property.name, &property);
}

const Property* PropertyIndex::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Together Shape::about(const std::string& key, const Property* own) const {
  Together out;
  const bool declared = own != nullptr;
  bool said = declared;
  if (declared) out = own->schemas;
  for (const Property& entry : patterns) {
    if (!matches(entry.regex, key, Unanchored::kSearch)) continue;
    add_schemas(out, entry.schemas);
    said = true;
  }
  if (!said && others) out = *others;
  return out;
}

Together Shape::about_item(std::size_t index) const {
  if (index < prefix.size()) return prefix[index];
  return items.value_or(Together{});
}

int compare_numbers(const json::Value& a, const json::Value& b) {
  if (a.is_int() && b.is_int()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  if (a.is_double() && b.is_double())
    return a.as_number() < b.as_number() ? -1 : a.as_number() > b.as_number() ? 1 : 0;
  if (a.is_double()) return -compare_numbers(b, a);
  // An integer and a double: exact also where the integer has no double.
  const double d = b.as_number();
  if (d >= 9.3e18) return -1;
  if (d <= -9.3e18) return 1;
  const double whole = std::floor(d);
  if (whole >= 9223372036854775807.0) return -1;
  if (whole < -9223372036854775808.0) return 1;
  const auto i = static_cast<std::int64_t>(whole);
  if (a.as_int() != i) return a.as_int() < i ? -1 : 1;
  return d > whole ? -1 : 0;
}

bool equal_values(const json::Value& a, const json::Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.is_array() && b.is_array()) return std::ranges::equal(a.as_array(), b.as_array(), equal_values);
  if (a.is_object() && b.is_object()) {
    if (a.as_object().size() != b.as_object().size()) return false;
    return std::ranges::all_of(a.as_object(), [&](const auto& member) {
      const json::Value* other = b.find(member.first);
      return other != nullptr && equal_values(member.second, *other);
    });
  }
  return a == b;
}

std::string canonical(const json::Value& value) {
  if (value.is_double() && std::floor(value.as_number()) == value.as_number() &&
      std::abs(value.as_number()) < 9.2e18)
    return json::write(json::Value(static_cast<std::int64_t>(value.as_number())));
  if (value.is_array()) {
    std::string out = "[";
    for (const json::Value& item : value.as_array()) out += canonical(item) + ",";
    return out + "]";
  }
  if (!value.is_object()) return json::write(value);
  std::map<std::string, std::string> members;
  for (const auto& [name, member] : value.as_object()) members.emplace(name, canonical(member));
  std::string out = "{";
  for (const auto& [name, member] : members) out += json::write(json::Value(name)) + ":" + member + ",";
  return out + "}";
}

unsigned type_of(const json::Value& value) {
  if (value.is_null()) return kNull;
  if (value.is_bool()) return kBoolean;
  if (value.is_int()) return kInteger;
  if (value.is_double()) return std::floor(value.as_number()) == value.as_number() ? kInteger : kFraction;
  if (value.is_string()) return kString;
  return value.is_array() ? kArray : kObject;
}

std::int64_t code_points(std::string_view text) {
  std::int64_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(utf8::decode(text).length);
    ++count;
  }
  return count;
}

namespace {

std::int64_t least_end(std::int64_t a, std::int64_t b) {
  if (a == kNoEnd) return b;
  return b == kNoEnd ? a : std::min(a, b);
}

std::optional<Bound> tighter(const std::optional<Bound>& a, const std::optional<Bound>& b, int sign) {
  if (!a) return b;
  if (!b) return a;
  const int order = compare_numbers(a->value, b->value) * sign;
  if (order != 0) return order > 0 ? a : b;
  return a->open ? a : b;
}

std::optional<Together> both(const std::optional<Together>& a, const std::optional<Together>& b) {
  if (!a) return b;
  Together out = *a;
  if (b) add_schemas(out, *b);
  return out;
}

Result<> intersect_scalars(const Shape& a, const Shape& b, Shape& out) {
  out.low = tighter(a.low, b.low, 1);
  out.high = tighter(a.high, b.high, -1);
  out.multiple_of = a.multiple_of ? a.multiple_of : b.multiple_of;
  if (a.multiple_of && b.multiple_of) {
    if (*a.multiple_of > 1'000'000 || *b.multiple_of > 1'000'000)
      return unsupported("/multipleOf", "two of them this large cannot be enforced together");
    out.multiple_of = std::lcm(*a.multiple_of, *b.multiple_of);
  }
  out.min_length = std::max(a.min_length, b.min_length);
  out.max_length = least_end(a.max_length, b.max_length);
  out.pattern = a.pattern ? a.pattern : b.pattern;
  if (a.pattern && b.pattern && *a.pattern != *b.pattern)
    return unsupported("/pattern", "two different patterns of one string cannot be enforced together");
  out.format = a.format ? a.format : b.format;
  if (a.format && b.format && *a.format != *b.format)
    return unsupported("/format", "two different formats of one string cannot be enforced together");
  return {};
}

void intersect_containers(const Shape& a, const Shape& b, Shape& out) {
  for (std::size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i) {
    Together item = a.about_item(i);
    add_schemas(item, b.about_item(i));
    out.prefix.push_back(std::move(item));
  }
  out.items = both(a.items, b.items);
  out.min_items = std::max(a.min_items, b.min_items);
  out.max_items = least_end(a.max_items, b.max_items);

  const PropertyIndex in_a(a);
  const PropertyIndex in_b(b);
  for (const auto& [mine, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    const PropertyIndex& of_other = mine == &a ? in_b : in_a;
    for (const Property& property : mine->properties) {
      const Property* theirs = of_other.find(property.name);
      if (mine == &b && theirs != nullptr) continue;
      Together schemas = mine->about(property.name, &property);
      add_schemas(schemas, other->about(property.name, theirs));
      out.properties.push_back({property.name, std::move(schemas)});
    }
    for (const Property& entry : mine->patterns) {
      // Keys that match are no others of the other side only where that one matches them too.
      Property merged = entry;
      if (other->others) add_schemas(merged.schemas, *other->others);
      out.patterns.push_back(std::move(merged));
    }
  }
  out.others = both(a.others, b.others);
  out.names = both(a.names, b.names);
  out.required = a.required;
  out.required.insert(b.required.begin(), b.required.end());
  out.min_properties = std::max(a.min_properties, b.min_properties);
  out.max_properties = least_end(a.max_properties, b.max_properties);
}

}  // namespace

Result<Shape> intersect(const Shape& a, const Shape& b) {
  Shape out;
  out.types = a.types & b.types;
  if (a.values && b.values) {
    out.values.emplace();
    std::unordered_set<std::string> others;
    for (const json::Value& value : *b.values) others.insert(canonical(value));
    for (const json::Value& value : *a.values)
      if (others.contains(canonical(value))) out.values->push_back(value);
  } else {
    out.values = a.values ? a.values : b.values;
  }
  MET_TRY(intersect_scalars(a, b, out));
  intersect_containers(a, b, out);
  return out;
}

}  // namespace met::grammar
