// JSON values in insertion order: what the API, the templates, the tools and the configuration files read and
// write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"

namespace met::json {

class Value;
using Array = std::vector<Value>;

/// Members in the order in which they were first set; a key is set once (a later `set` replaces the value in
/// place). Look-up is linear for small objects; `Object` is meant for documents, not for tables.
class Object {
 public:
  using Member = std::pair<std::string, Value>;
  Object() = default;
  Object(std::initializer_list<Member> members);

  /// The member's value, or nullptr.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Sets or replaces; returns the stored value.
  Value& set(std::string key, Value value);
  /// Removes the member and keeps the order of the others; false when absent.
  bool erase(std::string_view key);
  /// Appends without looking for an equal key: for callers that know the key is new.
  Value& append(std::string key, Value value);

  // Defined behind Value, which the members must know whole.
  using Members = std::vector<Member>;
  std::size_t size() const;
  bool empty() const;
  Members::const_iterator begin() const;
  Members::const_iterator end() const;
  Members::iterator begin();
  Members::iterator end();
  friend bool operator==(const Object& a, const Object& b);

 private:
  Members members_;
};

/// null, bool, integer (64 bit), double, string (UTF-8), array or object.
class Value {
 public:
  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool v) : data_(v) {}
  Value(int v) : data_(std::int64_t{v}) {}
  Value(unsigned v) : data_(std::int64_t{v}) {}
  Value(long v) : data_(std::int64_t{v}) {}
  Value(long long v) : data_(std::int64_t{v}) {}
  Value(unsigned long v);
  Value(unsigned long long v);
  Value(double v) : data_(v) {}
  Value(const char* v) : data_(std::string(v)) {}
  Value(std::string_view v) : data_(std::string(v)) {}
  Value(std::string v) : data_(std::move(v)) {}
  Value(Array v) : data_(std::move(v)) {}
  Value(Object v) : data_(std::move(v)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_double() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_object() const { return std::holds_alternative<Object>(data_); }

  bool as_bool() const { return std::get<bool>(data_); }
  std::int64_t as_int() const { return std::get<std::int64_t>(data_); }
  /// Value of an integer or a double.
  double as_number() const { return is_int() ? static_cast<double>(as_int()) : std::get<double>(data_); }
  const std::string& as_string() const { return std::get<std::string>(data_); }
  std::string& as_string() { return std::get<std::string>(data_); }
  const Array& as_array() const { return std::get<Array>(data_); }
  Array& as_array() { return std::get<Array>(data_); }
  const Object& as_object() const { return std::get<Object>(data_); }
  Object& as_object() { return std::get<Object>(data_); }

  /// Member of an object, or nullptr when absent or when this is no object.
  const Value* find(std::string_view key) const { return is_object() ? as_object().find(key) : nullptr; }

  /// "null", "boolean", "integer", "number", "string", "array" or "object", for messages.
  std::string_view type_name() const;

  friend bool operator==(const Value&, const Value&) = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

inline std::size_t Object::size() const { return members_.size(); }
inline bool Object::empty() const { return members_.empty(); }
inline Object::Members::const_iterator Object::begin() const { return members_.begin(); }
inline Object::Members::const_iterator Object::end() const { return members_.end(); }
inline Object::Members::iterator Object::begin() { return members_.begin(); }
inline Object::Members::iterator Object::end() { return members_.end(); }

/// Bounds on untrusted input; exceeding one is an error that says which.
struct ParseLimits {
  std::size_t depth_max = 128;
  std::size_t values_max = 4'000'000;
  bool unique_keys = false;  ///< an equal key in one object is an error instead of a later value
};

/// Parses one RFC 8259 document. Errors: kInvalidArgument with the byte offset: bad syntax, invalid UTF-8,
/// lone surrogates, numbers beyond double, limits. Integers outside int64 become doubles. Of equal keys the
/// last value wins, at the first one's place.
Result<Value> parse(std::string_view text, const ParseLimits& limits = {});

/// Compact RFC 8259 text. Doubles in the shortest form that reads back to the same bits; NaN and infinities,
/// which JSON lacks, become null.
std::string write(const Value& value);
void write(const Value& value, std::string& out);

/// Appends `text` as a JSON string with quotes. Invalid UTF-8 becomes U+FFFD.
void write_string(std::string_view text, std::string& out);

/// Python's `json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=..., separators=...)`: the form
/// that chat templates were trained on. `indent` < 0 means none; separators as Python chooses them for the
/// indent unless given.
struct PythonStyle {
  int indent = -1;
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::string item_separator;  ///< empty: ", " or "," by indent
  std::string key_separator;   ///< empty: ": "
};
std::string write_python(const Value& value, const PythonStyle& style = {});

/// Python's `repr(float)`: shortest digits, exponent from 1e16 on and below 1e-4, always a point or an
/// exponent.
std::string python_float(double value);

}  // namespace met::json
