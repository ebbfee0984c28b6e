// The tests behind `is`.
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"

namespace met::text::jinja {

namespace {

const Value& subject(const Arguments& a) { return a.positional[0]; }

const Value& other(const Arguments& a) {
  if (a.positional.size() < 2) type_error("the test needs an argument");
  return a.positional[1];
}

template <Kind K>
Value is_kind(Interpreter&, Arguments& a) {
  return subject(a).is(K);
}

/// Undefined values count as callable, as in Jinja.
Value is_callable(Interpreter&, Arguments& a) {
  return subject(a).is(Kind::kCallable) || subject(a).is_undefined();
}

Value is_defined(Interpreter&, Arguments& a) { return !subject(a).is_undefined(); }
Value is_true(Interpreter&, Arguments& a) { return subject(a).is(Kind::kBool) && subject(a).as_bool(); }
Value is_false(Interpreter&, Arguments& a) { return subject(a).is(Kind::kBool) && !subject(a).as_bool(); }
Value is_number(Interpreter&, Arguments& a) { return subject(a).is_number(); }

Value is_sequence(Interpreter&, Arguments& a) {
  const Kind k = subject(a).kind();
  return k == Kind::kString || k == Kind::kBytes || k == Kind::kList || k == Kind::kTuple ||
         k == Kind::kDict || k == Kind::kRange || k == Kind::kUndefined;
}

Value is_iterable(Interpreter&, Arguments& a) {
  return length(subject(a)).has_value() || subject(a).is(Kind::kIterator);
}

Value is_odd(Interpreter& run, Arguments& a) {
  return equal(run.binary(Operator::kMod, subject(a), Value(2)), Value(1));
}
Value is_even(Interpreter& run, Arguments& a) {
  return equal(run.binary(Operator::kMod, subject(a), Value(2)), Value(0));
}
Value is_divisibleby(Interpreter& run, Arguments& a) {
  return equal(run.binary(Operator::kMod, subject(a), other(a)), Value(0));
}

Value is_lower(Interpreter& run, Arguments& a) {
  return is_class(to_string(run.heap(), subject(a)).str(), Class::kLower);
}
Value is_upper(Interpreter& run, Arguments& a) {
  return is_class(to_string(run.heap(), subject(a)).str(), Class::kUpper);
}

Value is_in(Interpreter& run, Arguments& a) { return run.contains(other(a), subject(a)); }
Value is_eq(Interpreter&, Arguments& a) { return equal(subject(a), other(a)); }
Value is_ne(Interpreter&, Arguments& a) { return !equal(subject(a), other(a)); }
Value is_lt(Interpreter&, Arguments& a) { return compare(subject(a), other(a), "<") < 0; }
Value is_le(Interpreter&, Arguments& a) { return compare(subject(a), other(a), "<=") <= 0; }
Value is_gt(Interpreter&, Arguments& a) { return compare(subject(a), other(a), ">") > 0; }
Value is_ge(Interpreter&, Arguments& a) { return compare(subject(a), other(a), ">=") >= 0; }

Value is_sameas(Interpreter&, Arguments& a) {
  const Value& x = subject(a);
  const Value& y = other(a);
  if (x.kind() != y.kind()) return false;
  return x.object() != nullptr && !x.is_string() ? x.object() == y.object() : equal(x, y);
}

Value is_filter(Interpreter&, Arguments& a) {
  return subject(a).is_string() && find_filter(subject(a).text()) != nullptr;
}
Value is_test(Interpreter&, Arguments& a) {
  return subject(a).is_string() && find_test(subject(a).text()) != nullptr;
}
Value is_escaped(Interpreter&, Arguments& a) { return subject(a).is_string() && subject(a).str().markup; }

constexpr Entry kTests[] = {
    {"defined", is_defined},
    {"undefined", is_kind<Kind::kUndefined>},
    {"none", is_kind<Kind::kNone>},
    {"string", is_kind<Kind::kString>},
    {"mapping", is_kind<Kind::kDict>},
    {"boolean", is_kind<Kind::kBool>},
    {"integer", is_kind<Kind::kInt>},
    {"float", is_kind<Kind::kFloat>},
    {"callable", is_callable},
    {"number", is_number},
    {"sequence", is_sequence},
    {"iterable", is_iterable},
    {"true", is_true},
    {"false", is_false},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisibleby},
    {"lower", is_lower},
    {"upper", is_upper},
    {"in", is_in},
    {"eq", is_eq},
    {"equalto", is_eq},
    {"==", is_eq},
    {"ne", is_ne},
    {"!=", is_ne},
    {"lt", is_lt},
    {"lessthan", is_lt},
    {"<", is_lt},
    {"le", is_le},
    {"<=", is_le},
    {"gt", is_gt},
    {"greaterthan", is_gt},
    {">", is_gt},
    {"ge", is_ge},
    {">=", is_ge},
    {"sameas", is_sameas},
    {"filter", is_filter},
    {"test", is_test},
    {"escaped", is_escaped},
};

}  // namespace

Native find_test(std::string_view name) {
  for (const Entry& e : kTests)
    if (e.name == name) return e.native;
  return nullptr;
}

}  // namespace met::text::jinja
