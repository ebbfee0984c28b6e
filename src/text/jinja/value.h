// Values of the template language, with Python's semantics. Everything but namespaces is immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/byte_range.h"
#include "text/jinja/limits.h"

namespace met::text::jinja {

/// Wide enough for every integer that a tool schema holds; more is an error.
__extension__ using Int = __int128;

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kBytes,
  kList,
  kTuple,
  kDict,
  kRange,
  kIterator,  ///< a generator: items are handed out once
  kView,      ///< dict.keys(), .values() or .items()
  kNamespace,
  kCallable,
};

using text::ByteRange;

/// Base of everything on the heap; gives its bytes back to the budget.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (budget != nullptr) budget->give(charged);
  }
  Budget* budget = nullptr;
  std::size_t charged = 0;
};

/// UTF-8 text with the ranges that came from user input: sorted, disjoint, not touching.
struct Str : Object {
  std::string text;
  std::vector<ByteRange> untrusted;
  bool ascii = true;
  bool markup = false;  ///< marked safe: joining escapes the strings that are not
};

class Value;
struct Seq : Object {
  std::vector<Value> items;
  int depth = 0;
};
struct Dict : Object {
  std::vector<std::pair<Value, Value>> members;
  int depth = 0;
};
struct Range : Object {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
  std::int64_t size = 0;
};
struct Iterator : Object {
  std::vector<Value> items;
  mutable std::size_t next = 0;
  std::string_view type = "generator";
};
struct View : Object {
  std::vector<Value> items;
  std::string_view type;
};
struct Namespace : Object {
  mutable std::vector<std::pair<std::string, Value>> attributes;
};
/// Why a value is missing: the message of the error that its use raises.
struct UndefinedInfo : Object {
  std::string message;
  bool unsafe = false;
};

class Interpreter;
struct Arguments;
/// Something that can be called: a method, a macro, a global function, `loop`.
struct Callable : Object {
  virtual Value call(Interpreter& run, Arguments& arguments) const = 0;
  virtual std::optional<Value> attribute(Interpreter& run, std::string_view name) const;
  virtual std::string repr() const = 0;
};

class Value {
 public:
  Value() = default;
  Value(bool v) : kind_(Kind::kBool), integer_(v ? 1 : 0) {}
  Value(int v) : kind_(Kind::kInt), integer_(v) {}
  Value(Int v) : kind_(Kind::kInt), integer_(v) {}
  Value(double v) : kind_(Kind::kFloat), float_(v) {}
  Value(Kind kind, std::shared_ptr<const Object> object) : kind_(kind), object_(std::move(object)) {}
  Value(const char*) = delete;
  static Value none() {
    Value v;
    v.kind_ = Kind::kNone;
    return v;
  }

  Kind kind() const { return kind_; }
  bool is(Kind k) const { return kind_ == k; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_int() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_int() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  bool as_bool() const { return integer_ != 0; }
  Int as_int() const { return integer_; }
  double as_float() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(integer_); }
  const Str& str() const { return get<Str>(); }
  const std::string& text() const { return get<Str>().text; }
  const Seq& seq() const { return get<Seq>(); }
  const Dict& dict() const { return get<Dict>(); }
  template <class T>
  const T& get() const {
    return static_cast<const T&>(*object_);
  }
  const std::shared_ptr<const Object>& object() const { return object_; }

 private:
  Kind kind_ = Kind::kUndefined;
  union {
    Int integer_ = 0;
    double float_;
  };
  std::shared_ptr<const Object> object_;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Makes objects and charges them to the budget of a render. Without a budget (constants of a compiled
/// template) nothing is charged.
class Heap {
 public:
  explicit Heap(Budget* budget) : budget_(budget) {}
  Value string(std::string text, std::vector<ByteRange> untrusted = {}, bool markup = false) const;
  Value list(std::vector<Value> items) const { return sequence(Kind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) const { return sequence(Kind::kTuple, std::move(items)); }
  Value sequence(Kind kind, std::vector<Value> items) const;
  Value dict(std::vector<std::pair<Value, Value>> members) const;
  Value iterator(std::vector<Value> items, std::string_view type = "generator") const;
  Value view(std::vector<Value> items, std::string_view type) const;
  Value range(std::int64_t start, std::int64_t stop, std::int64_t step) const;
  Value undefined(std::string message, bool unsafe = false) const;
  void adopt(Object& object, std::size_t bytes) const;
  void step(std::uint64_t count = 1) const {
    if (budget_ != nullptr) budget_->step(count);
  }
  /// Fails now if `bytes` more would not fit, before they are built.
  void expect(std::size_t bytes) const {
    if (budget_ == nullptr) return;
    budget_->take(bytes);
    budget_->give(bytes);
  }
  void scan(std::size_t count) const {
    if (budget_ != nullptr) budget_->scan(count);
  }
  Budget* budget() const { return budget_; }

 private:
  Budget* budget_;
};

/// "str", "int", "list", "NoneType"...: Python's name of the type.
std::string_view type_name(const Value& v);
/// As Jinja names an object in messages: "str object", "None".
std::string object_name(const Value& v);
bool truthy(const Value& v);
bool equal(const Value& a, const Value& b, int depth = 0);
/// <0, 0 or >0; a type error that names `op` where Python has no order.
int compare(const Value& a, const Value& b, std::string_view op, int depth = 0);
/// Raises the error of using an undefined value; no effect on others.
void require_defined(const Value& v);
std::string int_text(Int v);

/// Number of items; nullopt where Python has no len().
std::optional<std::size_t> length(const Value& v);
/// All items that iteration gives; a type error where Python cannot iterate. Consumes iterators.
std::vector<Value> iterate(const Heap& heap, const Value& v);
const Value* find_key(const Heap& heap, const Dict& dict, const Value& key);
const Value* find_key(const Dict& dict, std::string_view key);
/// Sets or replaces, as a Python dict does.
void set_key(const Heap& heap, std::vector<std::pair<Value, Value>>& members, Value key, Value value);

}  // namespace met::text::jinja
