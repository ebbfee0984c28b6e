// Expressions.
#include <algorithm>

#include "core/error.h"
#include "core/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"

namespace met::text::jinja {

Value Interpreter::evaluate(const Expr& e) {
  budget_.step();
  switch (e.kind) {
    case ExprKind::kConstant:
      return e.constant;
    case ExprKind::kName:
      return look_up(e);
    default:
      break;
  }
  const Budget::Depth depth(budget_);
  return evaluate_node(e);
}

Value Interpreter::evaluate_node(const Expr& e) {
  switch (e.kind) {
    case ExprKind::kList:
    case ExprKind::kTuple: {
      std::vector<Value> items;
      items.reserve(e.items.size());
      for (const ExprPtr& item : e.items) items.push_back(evaluate(*item));
      return heap_.sequence(e.kind == ExprKind::kList ? Kind::kList : Kind::kTuple, std::move(items));
    }
    case ExprKind::kDict:
      return evaluate_dict(e);
    case ExprKind::kAttribute: {
      const Value object = evaluate(*e.left);
      at_ = e.at;
      return attribute(object, e.name);
    }
    case ExprKind::kItem: {
      const Value object = evaluate(*e.left);
      const Expr& key = *e.items[0];
      if (key.kind == ExprKind::kSlice) {
        at_ = e.at;
        return evaluate_slice(object, key);
      }
      const Value index = evaluate(key);
      at_ = e.at;
      return item(object, index);
    }
    case ExprKind::kSlice:
      return Value::none();
    case ExprKind::kCall: {
      const Value callee = evaluate(*e.left);
      Arguments arguments;
      collect(e, arguments);
      at_ = e.at;
      return call(callee, arguments);
    }
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return evaluate_native(e);
    case ExprKind::kNot:
      return !truthy(evaluate(*e.left));
    case ExprKind::kNegative:
    case ExprKind::kPositive: {
      const Value v = evaluate(*e.left);
      at_ = e.at;
      require_defined(v);
      const bool negative = e.kind == ExprKind::kNegative;
      if (!v.is_number())
        type_error(std::string("bad operand type for unary ") + (negative ? "-" : "+") + ": '" +
                   std::string(type_name(v)) + "'");
      if (v.is_int()) return negative ? binary(Operator::kSub, Int{0}, v) : Value(v.as_int());
      return negative ? -v.as_float() : v.as_float();
    }
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value v;
      for (const ExprPtr& item : e.items) {
        v = evaluate(*item);
        if (truthy(v) == (e.kind == ExprKind::kOr)) break;
      }
      return v;
    }
    case ExprKind::kCompare:
      return evaluate_compare(e);
    case ExprKind::kBinary: {
      const Value left = evaluate(*e.left);
      const Value right = evaluate(*e.items[0]);
      at_ = e.at;
      return binary(e.op, left, right);
    }
    case ExprKind::kConcat:
      return evaluate_concat(e);
    case ExprKind::kCondition:
      return evaluate_condition(e);
    case ExprKind::kConstant:
    case ExprKind::kName:
      break;
  }
  return {};
}

Value Interpreter::evaluate_condition(const Expr& e) {
  if (truthy(evaluate(*e.items[0]))) return evaluate(*e.left);
  if (e.items[1] != nullptr) return evaluate(*e.items[1]);
  return heap_.undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::evaluate_concat(const Expr& e) {
  std::vector<Value> parts;
  for (const ExprPtr& item : e.items) parts.push_back(evaluate(*item));
  StrBuilder out(heap_);
  for (const Value& part : parts) append_string(out, part);
  return out.take();
}

Value Interpreter::evaluate_dict(const Expr& e) {
  std::vector<std::pair<Value, Value>> members;
  for (std::size_t i = 0; i + 1 < e.items.size(); i += 2) {
    Value key = evaluate(*e.items[i]);
    Value value = evaluate(*e.items[i + 1]);
    at_ = e.at;
    set_key(heap_, members, std::move(key), std::move(value));
  }
  return heap_.dict(std::move(members));
}

Value Interpreter::evaluate_compare(const Expr& e) {
  Value left = evaluate(*e.left);
  for (std::size_t i = 0; i < e.items.size(); ++i) {
    Value right = evaluate(*e.items[i]);
    at_ = e.at;
    bool holds = false;
    switch (e.operators[i]) {
      case Operator::kEq:
        holds = equal(left, right);
        break;
      case Operator::kNe:
        holds = !equal(left, right);
        break;
      case Operator::kLt:
        holds = compare(left, right, "<") < 0;
        break;
      case Operator::kLe:
        holds = compare(left, right, "<=") <= 0;
        break;
      case Operator::kGt:
        holds = compare(left, right, ">") > 0;
        break;
      case Operator::kGe:
        holds = compare(left, right, ">=") >= 0;
        break;
      case Operator::kNotIn:
        holds = !contains(right, left);
        break;
      default:
        holds = contains(right, left);
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

bool Interpreter::contains(const Value& container, const Value& needle) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!needle.is_string())
        type_error("'in <string>' requires string as left operand, not " + std::string(type_name(needle)));
      budget_.scan(container.text().size());
      return container.text().contains(needle.text());
    case Kind::kDict:
      return find_key(heap_, container.dict(), needle) != nullptr;
    case Kind::kRange: {
      const auto& r = container.get<Range>();
      if (!needle.is_number()) return false;
      const double v = needle.as_float();
      const double index = (v - static_cast<double>(r.start)) / static_cast<double>(r.step);
      return index >= 0 && index < static_cast<double>(r.size) &&
             index == static_cast<double>(static_cast<std::int64_t>(index));
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kIterator:
    case Kind::kBytes: {
      const std::vector<Value> items = iterate(heap_, container);
      budget_.step(items.size() / 8);
      return std::ranges::any_of(items, [&](const Value& v) { return equal(v, needle); });
    }
    default:
      type_error("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
}

void Interpreter::collect(const Expr& e, Arguments& arguments) {
  arguments.positional.reserve(arguments.positional.size() + e.items.size());
  for (const ExprPtr& item : e.items) arguments.positional.push_back(evaluate(*item));
  for (const auto& [name, value] : e.named) arguments.named.emplace_back(name, evaluate(*value));
  if (e.star != nullptr) {
    for (Value& v : iterate(heap_, evaluate(*e.star))) arguments.positional.push_back(std::move(v));
  }
  if (e.star_star == nullptr) return;
  const Value more = evaluate(*e.star_star);
  if (!more.is(Kind::kDict))
    type_error("argument after ** must be a mapping, not " + std::string(type_name(more)));
  for (const auto& [key, value] : more.dict().members) {
    if (!key.is_string()) type_error("keywords must be strings");
    if (std::ranges::any_of(arguments.named, [&](const auto& a) { return a.first == key.text(); }))
      type_error("got multiple values for keyword argument '" + key.text() + "'");
    arguments.named.emplace_back(key.text(), value);
  }
}

Value Interpreter::evaluate_native(const Expr& e) {
  Arguments arguments;
  arguments.positional.reserve(1 + e.items.size());
  if (e.left == nullptr) {
    MET_CHECK(subject_ != nullptr);
    arguments.positional.push_back(*subject_);
  } else {
    arguments.positional.push_back(evaluate(*e.left));
  }
  collect(e, arguments);
  at_ = e.at;
  if (e.native == nullptr)
    raise(FailureKind::kRuntime,
          "No " + std::string(e.kind == ExprKind::kFilter ? "filter" : "test") + " named '" + e.name + "'.");
  return e.native(*this, arguments);
}

Value Interpreter::evaluate_filter(const Expr& e, const Value* subject) {
  const Value* const saved = std::exchange(subject_, subject);
  Value v = evaluate(e);
  subject_ = saved;
  return v;
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  require_defined(callee);
  if (!callee.is(Kind::kCallable))
    type_error("'" + std::string(type_name(callee)) + "' object is not callable");
  const Budget::Depth depth(budget_);
  return callee.get<Callable>().call(*this, arguments);
}

Value Interpreter::undefined_attribute(const Value& object, std::string_view name) {
  return heap_.undefined("'" + object_name(object) + "' has no attribute '" + std::string(name) + "'");
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  require_defined(object);
  if (object.is(Kind::kNamespace)) {
    for (const auto& [key, value] : object.get<Namespace>().attributes)
      if (key == name) return value;
  }
  if (auto found = find_method(*this, object, name)) return std::move(*found);
  if (object.is(Kind::kDict)) {
    budget_.scan(object.dict().members.size() * 8);
    if (const Value* v = find_key(object.dict(), name)) return *v;
  }
  return undefined_attribute(object, name);
}

Value Interpreter::item(const Value& object, const Value& key) {
  require_defined(object);
  const auto at_index = [&](std::size_t size) -> std::optional<std::size_t> {
    const Int count = static_cast<std::int64_t>(size);
    const Int i = key.as_int() < 0 ? key.as_int() + count : key.as_int();
    if (i < 0 || i >= count) return std::nullopt;
    return static_cast<std::size_t>(i);
  };
  if (object.is(Kind::kDict)) {
    const bool hashable = !key.is(Kind::kList) && !key.is(Kind::kDict);
    if (const Value* v = hashable ? find_key(heap_, object.dict(), key) : nullptr) return *v;
  } else if (object.is(Kind::kNamespace)) {
    for (const auto& [name, value] : object.get<Namespace>().attributes)
      if (key.is_string() && name == key.text()) return value;
  } else if (key.is_int()) {
    if (object.is_string()) {
      const Str& s = object.str();
      if (const auto i = at_index(code_points(s))) {
        const std::size_t begin = byte_offset(s, *i);
        budget_.scan(begin);
        return substring(heap_, s, begin,
                         begin + utf8::decode(std::string_view(s.text).substr(begin)).length);
      }
    } else if (object.is_sequence()) {
      if (const auto i = at_index(object.seq().items.size())) return object.seq().items[*i];
    } else if (object.is(Kind::kRange)) {
      const auto& r = object.get<Range>();
      if (const auto i = at_index(static_cast<std::size_t>(r.size)))
        return Int{r.start} + Int{r.step} * static_cast<std::int64_t>(*i);
    } else if (object.is(Kind::kBytes)) {
      if (const auto i = at_index(object.text().size()))
        return Int{static_cast<unsigned char>(object.text()[*i])};
    }
  }
  if (key.is_string()) {
    if (auto found = find_method(*this, object, key.text())) return std::move(*found);
    return undefined_attribute(object, key.text());
  }
  StrBuilder message(heap_);
  message.append(object_name(object) + " has no element ");
  append_repr(message, key);
  return heap_.undefined(message.text());
}

namespace {

/// Python's slice.indices: the first index, and how many.
struct SliceIndices {
  Int first = 0;
  Int step = 1;
  Int count = 0;
};

SliceIndices slice_indices(const Value& start, const Value& stop, Int step, Int size) {
  if (step == 0) value_error("slice step cannot be zero");
  const Int low = step < 0 ? -1 : 0;
  const Int high = step < 0 ? size - 1 : size;
  const auto clamp = [&](const Value& v, Int missing) {
    if (v.is_none()) return missing;
    const Int i = v.as_int() < 0 ? v.as_int() + size : v.as_int();
    return std::clamp(i, low, std::max(low, high));
  };
  const Int first = clamp(start, step < 0 ? high : low);
  const Int last = clamp(stop, step < 0 ? low : high);
  const Int span = step < 0 ? first - last : last - first;
  const Int stride = step < 0 ? -step : step;
  return {first, step, span <= 0 ? 0 : (span + stride - 1) / stride};
}

}  // namespace

Value Interpreter::evaluate_slice(const Value& object, const Expr& slice) {
  Value parts[3];
  bool usable = true;
  for (std::size_t i = 0; i < 3; ++i) {
    parts[i] = slice.items[i] == nullptr ? Value::none() : evaluate(*slice.items[i]);
    usable = usable && (parts[i].is_none() || parts[i].is_int());
  }
  require_defined(object);
  const bool bytes = object.is(Kind::kBytes);
  const bool sliceable = object.is_string() || object.is_sequence() || object.is(Kind::kRange) || bytes;
  if (!usable || !sliceable) return heap_.undefined(object_name(object) + " cannot be sliced");
  const Int step = parts[2].is_none() ? Int{1} : parts[2].as_int();
  const Int limit = Int{1} << 62;
  const Int size = static_cast<std::int64_t>(*length(object));
  const SliceIndices s = slice_indices(parts[0], parts[1], std::clamp(step, -limit, limit), size);
  if (object.is(Kind::kRange)) {
    const auto& r = object.get<Range>();
    const auto value_at = [&](Int i) { return static_cast<std::int64_t>(Int{r.start} + Int{r.step} * i); };
    return heap_.range(value_at(s.first), value_at(s.first + s.step * s.count),
                       static_cast<std::int64_t>(r.step * s.step));
  }
  const auto index = [&](Int i) { return static_cast<std::size_t>(s.first + s.step * i); };
  if (object.is_sequence()) {
    std::vector<Value> items;
    for (Int i = 0; i < s.count; ++i) items.push_back(object.seq().items[index(i)]);
    return heap_.sequence(object.kind(), std::move(items));
  }
  const Str& text = object.str();
  if (s.step == 1) {
    const std::size_t begin = byte_offset(text, index(0));
    const std::size_t end =
        s.count == 0 ? begin : byte_offset(text, index(0) + static_cast<std::size_t>(s.count));
    return substring(heap_, text, begin, end);
  }
  const std::vector<Value> points = characters(heap_, text);
  StrBuilder out(heap_);
  for (Int i = 0; i < s.count; ++i) out.append(points[index(i)].str());
  return out.take();
}

}  // namespace met::text::jinja
