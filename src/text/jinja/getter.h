// Keys of items for filters that take `attribute=`.
#pragma once

#include "text/jinja/interpreter.h"

namespace met::text::jinja {

/// `a.b.0` of an item by subscripts; none: the item itself. A missing value becomes `fallback` if given.
class Getter {
 public:
  Getter(Interpreter& run, const Value& attribute, Value fallback = Value::none());
  Value operator()(const Value& item) const;

 private:
  Interpreter& run_;
  std::vector<Value> path_;
  Value fallback_;
};

/// Lower case for strings when `fold`, else the value.
Value folded(Interpreter& run, const Value& v, bool fold);
/// The list of keys for a comma-separated `attribute`, as sort compares them.
Value multi_key(Interpreter& run, const Value& attribute, const Value& item, bool fold);

}  // namespace met::text::jinja
