// Arithmetic with Python's rules; integers beyond 128 bits are an error.
#include <cmath>

#include "text/jinja/interpreter.h"

namespace met::text::jinja {

namespace {

[[noreturn]] void too_large() { value_error("an integer is too large"); }

[[noreturn]] void unsupported_operands(std::string_view op, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  type_error("unsupported operand type(s) for " + std::string(op) + ": '" + std::string(type_name(a)) +
             "' and '" + std::string(type_name(b)) + "'");
}

Int floor_divide(Int a, Int b) {
  if (b == -1) {
    Int negated = 0;
    if (__builtin_sub_overflow(Int{0}, a, &negated)) too_large();
    return negated;
  }
  const Int q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

double float_mod(double a, double b) {
  double m = std::fmod(a, b);
  if (m != 0 && (m < 0) != (b < 0)) m += b;
  if (m == 0) m = std::copysign(0.0, b);
  return m;
}

Value power(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int() && b.as_int() >= 0) {
    Int result = 1;
    Int base = a.as_int();
    for (Int exponent = b.as_int(); exponent != 0;) {
      if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) too_large();
      exponent >>= 1;
      if (exponent != 0 && __builtin_mul_overflow(base, base, &base)) too_large();
    }
    return result;
  }
  if (a.as_float() == 0.0 && b.as_float() < 0) value_error("0.0 cannot be raised to a negative power");
  const double result = std::pow(a.as_float(), b.as_float());
  if (std::isnan(result) && !std::isnan(a.as_float())) value_error("the power is a complex number");
  if (std::isinf(result) && !std::isinf(a.as_float()) && !std::isinf(b.as_float()))
    value_error("Result too large");
  return result;
}

Value arithmetic(Operator op, const Value& a, const Value& b) {
  const bool integers = a.is_int() && b.is_int();
  const Int x = integers ? a.as_int() : 0;
  const Int y = integers ? b.as_int() : 0;
  Int result = 0;
  switch (op) {
    case Operator::kAdd:
      if (!integers) return a.as_float() + b.as_float();
      if (__builtin_add_overflow(x, y, &result)) too_large();
      return result;
    case Operator::kSub:
      if (!integers) return a.as_float() - b.as_float();
      if (__builtin_sub_overflow(x, y, &result)) too_large();
      return result;
    case Operator::kMul:
      if (!integers) return a.as_float() * b.as_float();
      if (__builtin_mul_overflow(x, y, &result)) too_large();
      return result;
    case Operator::kDiv:
      if (b.as_float() == 0.0) value_error(integers ? "division by zero" : "float division by zero");
      return a.as_float() / b.as_float();
    case Operator::kFloorDiv:
      if (b.as_float() == 0.0) value_error("integer division or modulo by zero");
      if (!integers) return (a.as_float() - float_mod(a.as_float(), b.as_float())) / b.as_float();
      return floor_divide(x, y);
    case Operator::kMod:
      if (b.as_float() == 0.0) value_error("integer modulo by zero");
      if (!integers) return float_mod(a.as_float(), b.as_float());
      return x - floor_divide(x, y) * y;
    default:
      return power(a, b);
  }
}

Value repeat(const Heap& heap, const Value& v, Int count) {
  const Int size = static_cast<std::int64_t>(v.is_string() ? v.text().size() : v.seq().items.size());
  if (count < 0) count = 0;
  constexpr Int kBytesMax = 1 << 30;
  if (size != 0 && count > kBytesMax / size) value_error("the repeated value is too large");
  if (v.is_string()) {
    heap.expect(static_cast<std::size_t>(count * size));
    StrBuilder out(heap);
    for (Int i = 0; i < count && size != 0; ++i) out.append(v.str());
    return out.take();
  }
  heap.expect(static_cast<std::size_t>(count * size) * sizeof(Value));
  heap.step(static_cast<std::uint64_t>(count * size));
  std::vector<Value> items;
  for (Int i = 0; i < count && size != 0; ++i)
    items.insert(items.end(), v.seq().items.begin(), v.seq().items.end());
  return heap.sequence(v.kind(), std::move(items));
}

std::string_view symbol_of(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSub:
      return "-";
    case Operator::kMul:
      return "*";
    case Operator::kDiv:
      return "/";
    case Operator::kFloorDiv:
      return "//";
    case Operator::kMod:
      return "%";
    default:
      return "** or pow()";
  }
}

}  // namespace

Value Interpreter::binary(Operator op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return arithmetic(op, left, right);
  if (op == Operator::kAdd) {
    require_defined(left);
    require_defined(right);
    if (left.is_string() && right.is_string()) return join_markup(heap_, {left, right});
    if (left.is_sequence() && left.kind() == right.kind()) {
      std::vector<Value> items = left.seq().items;
      items.insert(items.end(), right.seq().items.begin(), right.seq().items.end());
      return heap_.sequence(left.kind(), std::move(items));
    }
    if (left.is_string() || left.is_sequence()) {
      const std::string type(type_name(left));
      type_error("can only concatenate " + type + " (not \"" + std::string(type_name(right)) + "\") to " +
                 type);
    }
  }
  if (op == Operator::kMul) {
    const bool repeats_left = (left.is_string() || left.is_sequence()) && right.is_int();
    const bool repeats_right = (right.is_string() || right.is_sequence()) && left.is_int();
    if (repeats_left) return repeat(heap_, left, right.as_int());
    if (repeats_right) return repeat(heap_, right, left.as_int());
  }
  if (op == Operator::kMod && left.is_string() && !right.is_undefined())
    return percent_format(heap_, left.str(), right);
  unsupported_operands(symbol_of(op), left, right);
}

}  // namespace met::text::jinja
