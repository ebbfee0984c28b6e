// Whether a value has a shape, and whether two shapes have no value in common.
#include <algorithm>
#include <cmath>

#include "grammar/formats.h"
#include "grammar/regex.h"
#include "grammar/shape.h"

namespace met::grammar {
namespace {

using V = json::Value;

constexpr int kApartDepthMax = 4;

bool number_holds(const Shape& shape, const V& value) {
  if (shape.low) {
    const int order = compare_numbers(value, shape.low->value);
    if (order < 0 || (order == 0 && shape.low->open)) return false;
  }
  if (shape.high) {
    const int order = compare_numbers(value, shape.high->value);
    if (order > 0 || (order == 0 && shape.high->open)) return false;
  }
  if (!shape.multiple_of) return true;
  if (value.is_int()) return value.as_int() % *shape.multiple_of == 0;
  return std::fmod(value.as_number(), static_cast<double>(*shape.multiple_of)) == 0;
}

bool text_matches(std::string_view pattern, const std::string& text, Unanchored unanchored) {
  const auto regex = parse_regex(pattern);
  return regex && matches(*regex, text, unanchored);
}

bool string_holds(const Shape& shape, const std::string& text) {
  const std::int64_t length = code_points(text);
  if (length < shape.min_length || (shape.max_length != kNoEnd && length > shape.max_length)) return false;
  if (shape.pattern && !text_matches(*shape.pattern, text, Unanchored::kSearch)) return false;
  return !shape.format || text_matches(*format_pattern(*shape.format), text, Unanchored::kWhole);
}

bool ranges_apart(std::int64_t a_least, std::int64_t a_most, std::int64_t b_least, std::int64_t b_most) {
  return (a_most != kNoEnd && a_most < b_least) || (b_most != kNoEnd && b_most < a_least);
}

bool below(const std::optional<Bound>& high, const std::optional<Bound>& low) {
  if (!high || !low) return false;
  const int order = compare_numbers(high->value, low->value);
  return order < 0 || (order == 0 && (high->open || low->open));
}

bool strings_apart(const Shape& a, const Shape& b) {
  if (ranges_apart(a.min_length, a.max_length, b.min_length, b.max_length)) return true;
  if (!a.pattern || !b.pattern) return false;
  const auto x = parse_regex(*a.pattern);
  const auto y = parse_regex(*b.pattern);
  if (!x || !y) return false;
  const std::string p = literal_prefix(*x);
  const std::string q = literal_prefix(*y);
  return !p.starts_with(q) && !q.starts_with(p);
}

}  // namespace

Result<bool> SchemaReader::holds(const Together& schemas, const V& value) {
  MET_ASSIGN(const std::vector<Shape> all_shapes, shapes_below(schemas));
  for (const Shape& shape : all_shapes) {
    MET_ASSIGN(const bool one, holds(shape, value));
    if (one) return true;
  }
  return false;
}

Result<bool> SchemaReader::holds(const Shape& shape, const V& value) {
  const auto same = [&](const V& other) { return equal_values(value, other); };
  if (shape.values) {
    MET_TRY(spend("", 1 + std::ssize(*shape.values) / 16));
    if (!std::ranges::any_of(*shape.values, same)) return false;
  }
  return holds_listed(shape, value);
}

Result<bool> SchemaReader::holds_listed(const Shape& shape, const V& value) {
  MET_TRY(spend("", 1));
  if ((shape.types & type_of(value)) == 0) return false;
  if (value.is_number()) return number_holds(shape, value);
  if (value.is_string()) return string_holds(shape, value.as_string());
  if (value.is_array()) {
    const auto size = std::ssize(value.as_array());
    if (size < shape.min_items || (shape.max_items != kNoEnd && size > shape.max_items)) return false;
    for (std::size_t i = 0; i < value.as_array().size(); ++i) {
      MET_ASSIGN(const bool one, holds(shape.about_item(i), value.as_array()[i]));
      if (!one) return false;
    }
    return true;
  }
  if (!value.is_object()) return true;
  const auto size = static_cast<std::int64_t>(value.as_object().size());
  if (size < shape.min_properties || (shape.max_properties != kNoEnd && size > shape.max_properties))
    return false;
  for (const std::string& name : shape.required)
    if (value.find(name) == nullptr) return false;
  for (const auto& [name, member] : value.as_object()) {
    MET_ASSIGN(const bool one, holds(shape.about(name), member));
    if (!one) return false;
    if (!shape.names) continue;
    MET_ASSIGN(const bool named, holds(*shape.names, V(name)));
    if (!named) return false;
  }
  return true;
}

Result<bool> SchemaReader::apart(const Together& a, const Together& b) {
  if (a == b || apart_depth_ >= kApartDepthMax) return false;
  ++apart_depth_;
  MET_ASSIGN(const std::vector<Shape> left, shapes_below(a));
  MET_ASSIGN(const std::vector<Shape> right, shapes_below(b));
  bool all_apart = true;
  for (const Shape& x : left) {
    for (const Shape& y : right) {
      if (!all_apart) break;
      MET_ASSIGN(all_apart, apart(x, y));
    }
  }
  --apart_depth_;
  return all_apart;
}

Result<bool> SchemaReader::arrays_apart(const Shape& a, const Shape& b) {
  if (ranges_apart(a.min_items, a.max_items, b.min_items, b.max_items)) return true;
  const auto sure = static_cast<std::size_t>(std::min<std::int64_t>(std::max(a.min_items, b.min_items), 8));
  for (std::size_t i = 0; i < sure; ++i) {
    MET_ASSIGN(const bool one, apart(a.about_item(i), b.about_item(i)));
    if (one) return true;
  }
  return false;
}

Result<bool> SchemaReader::objects_apart(const Shape& a, const Shape& b) {
  if (ranges_apart(a.min_properties, a.max_properties, b.min_properties, b.max_properties)) return true;
  std::set<std::string> sure = a.required;
  sure.insert(b.required.begin(), b.required.end());
  for (const std::string& name : sure) {
    MET_ASSIGN(const bool one, apart(a.about(name), b.about(name)));
    if (one) return true;
  }
  return false;
}

Result<bool> SchemaReader::apart(const Shape& a, const Shape& b) {
  MET_TRY(spend("", 1 + std::ssize(a.properties) / 8 + std::ssize(b.properties) / 8));
  const unsigned common = a.types & b.types;
  if (common == 0) return true;
  if (a.values || b.values) {
    const Shape& finite = a.values ? a : b;
    const Shape& other = a.values ? b : a;
    for (const V& value : *finite.values) {
      MET_ASSIGN(const bool mine, holds_listed(finite, value));
      if (!mine) continue;
      MET_ASSIGN(const bool shared, holds(other, value));
      if (shared) return false;
    }
    return true;
  }
  if ((common & (kNull | kBoolean)) != 0) return false;
  if ((common & kNumber) != 0 && !below(a.high, b.low) && !below(b.high, a.low)) return false;
  if ((common & kString) != 0 && !strings_apart(a, b)) return false;
  if ((common & kArray) != 0) {
    MET_ASSIGN(const bool one, arrays_apart(a, b));
    if (!one) return false;
  }
  if ((common & kObject) == 0) return true;
  return objects_apart(a, b);
}

}  // namespace met::grammar
