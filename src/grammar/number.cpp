#include "grammar/number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "core/concat.h"

namespace met::grammar {
namespace {

/// Digits that an unbounded number may have: no document needs more, and a model cannot count for ever.
constexpr std::int64_t kDigitsMax = 40;
/// Decimal digits that a double keeps: more could round across a bound.
constexpr std::int64_t kExactDigits = 15;
constexpr std::int64_t kMultipleMax = 1000;
constexpr std::int64_t kListMax = 2000;

Node digits(char first, char last) {
  if (first > last) return never();
  if (first == last) return text(std::string_view(&first, 1));
  return chars({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}
Node digit() { return digits('0', '9'); }
Node some_digits(std::int64_t least, std::int64_t most) { return repeat(digit(), least, most); }

/// A decimal without sign: no leading zeros but one, no trailing zeros.
struct Decimal {
  std::string whole = "0";
  std::string part;

  bool zero() const { return whole == "0" && part.empty(); }
};

bool less(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size();
  if (a.whole != b.whole) return a.whole < b.whole;
  return a.part < b.part;
}

struct Edge {
  Decimal at;
  bool negative = false;
  bool open = false;
};

Edge edge_of(const Bound& bound) {
  std::array<char, 400> buffer{};
  std::to_chars_result end{};
  if (bound.value.is_int()) {
    end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), bound.value.as_int());
  } else {
    end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), bound.value.as_number(),
                        std::chars_format::fixed);
  }
  std::string_view all(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  Edge out{.open = bound.open};
  if (all.starts_with('-')) {
    out.negative = true;
    all.remove_prefix(1);
  }
  const std::size_t point = std::min(all.find('.'), all.size());
  out.at.whole = std::string(all.substr(0, point));
  if (point < all.size()) out.at.part = std::string(all.substr(point + 1));
  while (out.at.part.ends_with('0')) out.at.part.pop_back();
  if (out.at.zero()) out.negative = false;
  return out;
}

std::string plus_one(std::string n) {
  for (std::size_t i = n.size(); i-- > 0;) {
    if (n[i] != '9') {
      ++n[i];
      return n;
    }
    n[i] = '0';
  }
  return "1" + n;
}

/// `n` above 0.
std::string minus_one(std::string n) {
  for (std::size_t i = n.size(); i-- > 0;) {
    if (n[i] != '0') {
      --n[i];
      break;
    }
    n[i] = '9';
  }
  if (n.size() > 1 && n[0] == '0') n.erase(0, 1);
  return n;
}

bool less_whole(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

/// Digit strings of one length between two of that length.
Node same_length(std::string_view low, std::string_view high, bool tight_low, bool tight_high) {
  if (low.empty()) return empty_text();
  const auto left = static_cast<std::int64_t>(low.size());
  if (!tight_low && !tight_high) return some_digits(left, left);
  const char from = tight_low ? low[0] : '0';
  const char to = tight_high ? high[0] : '9';
  const auto below = [&](bool keep_low, bool keep_high) {
    return same_length(low.substr(1), high.substr(1), keep_low, keep_high);
  };
  if (tight_low && tight_high && from == to) return all({digits(from, to), below(true, true)});
  std::vector<Node> out;
  const char first = tight_low ? static_cast<char>(from + 1) : from;
  const char last = tight_high ? static_cast<char>(to - 1) : to;
  if (tight_low) out.push_back(all({digits(from, from), below(true, false)}));
  if (first <= last) out.push_back(all({digits(first, last), below(false, false)}));
  if (tight_high) out.push_back(all({digits(to, to), below(false, true)}));
  return any(std::move(out));
}

/// Integers from `low` on, to `high` where there is one; without sign.
Node whole_between(const std::string& low, const std::optional<std::string>& high) {
  if (high && less_whole(*high, low)) return never();
  const std::string nines(low.size(), '9');
  if (high && high->size() == low.size()) return same_length(low, *high, true, true);
  std::vector<Node> out{same_length(low, nines, true, false)};
  const auto shortest = static_cast<std::int64_t>(low.size());
  const std::int64_t longest = high ? static_cast<std::int64_t>(high->size()) - 2 : kDigitsMax;
  if (shortest <= longest) out.push_back(all({digits('1', '9'), some_digits(shortest, longest)}));
  if (high) {
    std::string first(high->size(), '0');
    first[0] = '1';
    out.push_back(same_length(first, *high, true, true));
  }
  return any(std::move(out));
}

/// The digits behind the point of numbers between two with the same digits before it.
class Parts {
 public:
  Parts(std::string_view low, bool low_open, std::string_view high, bool high_open, std::int64_t most)
      : low_(low), high_(high), low_open_(low_open), high_open_(high_open), most_(most) {}

  /// With the point, or nothing where the number without one is inside.
  Node node(bool tight_low, bool tight_high) const {
    std::vector<Node> out;
    if (may_end(0, tight_low, tight_high)) out.push_back(empty_text());
    out.push_back(all({text("."), from(0, tight_low, tight_high, false)}));
    return any(std::move(out));
  }

 private:
  static char digit_at(std::string_view part, std::size_t i) { return i < part.size() ? part[i] : '0'; }

  bool may_end(std::size_t i, bool tight_low, bool tight_high) const {
    if (tight_low && (i < low_.size() || low_open_)) return false;
    return !tight_high || i < high_.size() || !high_open_;
  }

  Node from(std::size_t i, bool tight_low, bool tight_high, bool end_here) const {
    const std::int64_t left = most_ - static_cast<std::int64_t>(i);
    if (!tight_low && !tight_high) return some_digits(end_here ? 0 : 1, std::max<std::int64_t>(left, 1));
    std::vector<Node> out;
    if (end_here && may_end(i, tight_low, tight_high)) out.push_back(empty_text());
    if (left <= 0) return any(std::move(out));
    const char low = tight_low ? digit_at(low_, i) : '0';
    const char high = tight_high ? digit_at(high_, i) : '9';
    const auto next = [&](char first, char last, bool keep_low, bool keep_high) {
      if (first <= last) out.push_back(all({digits(first, last), from(i + 1, keep_low, keep_high, true)}));
    };
    if (tight_low && tight_high && low == high) {
      next(low, low, true, true);
      return any(std::move(out));
    }
    if (tight_low && tight_high && low > high) return any(std::move(out));
    if (tight_low) next(low, low, true, false);
    next(tight_low ? static_cast<char>(low + 1) : low, tight_high ? static_cast<char>(high - 1) : high, false,
         false);
    if (tight_high) next(high, high, false, true);
    return any(std::move(out));
  }

  std::string_view low_;
  std::string_view high_;
  bool low_open_;
  bool high_open_;
  std::int64_t most_;
};

struct Span {
  Decimal low;
  bool low_open = false;
  std::optional<Decimal> high;
  bool high_open = false;
};

Node integers(const Span& span) {
  std::string low = span.low.whole;
  if (!span.low.part.empty() || span.low_open) low = plus_one(low);
  std::optional<std::string> high;
  if (span.high) {
    high = span.high->whole;
    if (span.high->part.empty() && span.high_open) {
      if (*high == "0") return never();
      high = minus_one(*high);
    }
  }
  return whole_between(low, high);
}

Node decimals(const Span& span) {
  const auto size = static_cast<std::int64_t>(span.high ? span.high->whole.size() : span.low.whole.size());
  const auto given =
      static_cast<std::int64_t>(std::max(span.low.part.size(), span.high ? span.high->part.size() : 0));
  const std::int64_t most = std::max({kExactDigits - size, given, std::int64_t{1}});
  const std::string none;
  const std::string& high_part = span.high ? span.high->part : none;
  const Parts parts(span.low.part, span.low_open, high_part, span.high_open, most);
  if (span.high && span.high->whole == span.low.whole)
    return all({text(span.low.whole), parts.node(true, true)});
  std::vector<Node> out{all({text(span.low.whole), parts.node(true, false)})};
  std::optional<std::string> last;
  if (span.high) last = minus_one(span.high->whole);
  out.push_back(all({whole_between(plus_one(span.low.whole), last), parts.node(false, false)}));
  if (span.high) out.push_back(all({text(span.high->whole), parts.node(false, true)}));
  return any(std::move(out));
}

Node magnitudes(Span span, bool whole) {
  if (span.high && span.high->whole.size() > static_cast<std::size_t>(kDigitsMax)) span.high.reset();
  if (span.high && less(*span.high, span.low)) return never();
  return whole ? integers(span) : decimals(span);
}

Node between(const std::optional<Bound>& low_bound, const std::optional<Bound>& high_bound, bool whole) {
  std::optional<Edge> low;
  std::optional<Edge> high;
  if (low_bound) low = edge_of(*low_bound);
  if (high_bound) high = edge_of(*high_bound);
  std::vector<Node> out;
  if (!low || low->negative) {  // numbers below zero: magnitudes above zero
    Span span{.low_open = true};
    if (high && high->negative) {
      span.low = high->at;
      span.low_open = high->open;
    }
    if (low) {
      span.high = low->at;
      span.high_open = low->open;
    }
    out.push_back(all({text("-"), magnitudes(span, whole)}));
  }
  if (!high || !high->negative) {
    Span span;
    if (low && !low->negative) {
      span.low = low->at;
      span.low_open = low->open;
    }
    if (high) {
      span.high = high->at;
      span.high_open = high->open;
    }
    out.push_back(magnitudes(span, whole));
  }
  return any(std::move(out));
}

/// Digits of multiples: one rule a remainder.
Node multiples_without_sign(std::int64_t multiple, Rules& rules) {
  std::vector<int> of(static_cast<std::size_t>(multiple));
  for (std::int64_t r = 0; r < multiple; ++r) of[static_cast<std::size_t>(r)] = rules.add("multiple");
  const auto next = [&](std::int64_t from, char first) {
    std::vector<Node> out;
    for (char d = first; d <= '9'; ++d) {
      const std::int64_t to = (from * 10 + (d - '0')) % multiple;
      out.push_back(all({digits(d, d), rule(of[static_cast<std::size_t>(to)])}));
    }
    return any(std::move(out));
  };
  for (std::int64_t r = 0; r < multiple; ++r)
    rules.define(of[static_cast<std::size_t>(r)], r == 0 ? any({empty_text(), next(r, '0')}) : next(r, '0'));
  return next(0, '1');
}

std::optional<std::int64_t> whole_bound(const std::optional<Bound>& bound, bool low) {
  if (!bound) return std::nullopt;
  const double value = bound->value.as_number();
  if (value > 9e15 || value < -9e15) return std::nullopt;
  auto at = static_cast<std::int64_t>(value);
  const bool exact = static_cast<double>(at) == value;
  if (!exact && low && value > 0) ++at;
  if (!exact && !low && value < 0) --at;
  if (exact && bound->open) at += low ? 1 : -1;
  return at;
}

Result<Node> multiples(const Shape& shape, Rules& rules) {
  const std::int64_t multiple = *shape.multiple_of;
  const auto low = whole_bound(shape.low, true);
  const auto high = whole_bound(shape.high, false);
  const auto floor_div = [&](std::int64_t n) {
    return n >= 0 ? n / multiple : -((-n + multiple - 1) / multiple);
  };
  if (low && high) {
    const std::int64_t first = -floor_div(-*low);
    const std::int64_t last = floor_div(*high);
    if (last - first >= kListMax)
      return unsupported("/multipleOf", concat("more than ", kListMax, " multiples lie between the bounds"));
    std::vector<Node> out;
    for (std::int64_t i = first; i <= last; ++i) out.push_back(text(std::to_string(i * multiple)));
    return any(std::move(out));
  }
  const bool from_zero = low && *low <= 0 && *low > -multiple;
  const bool to_zero = high && *high >= 0 && *high < multiple;
  if ((shape.low && !from_zero) || (shape.high && !to_zero))
    return unsupported("/multipleOf",
                       "together with one bound that is not at zero it is not enforced: give both");
  if (multiple > kMultipleMax)
    return unsupported("/multipleOf", concat("above ", kMultipleMax, " it is enforced only between bounds"));
  const Node above = multiples_without_sign(multiple, rules);
  std::vector<Node> out{text("0")};
  if (!to_zero) out.push_back(above);
  if (!from_zero) out.push_back(all({text("-"), above}));
  return any(std::move(out));
}

}  // namespace

Node any_integer() {
  return any({text("0"), all({maybe(text("-")), digits('1', '9'), some_digits(0, kDigitsMax - 1)})});
}

Node any_number() {
  const Node whole = any({text("0"), all({digits('1', '9'), some_digits(0, kDigitsMax - 1)})});
  const Node part = maybe(all({text("."), some_digits(1, kDigitsMax)}));
  const Node exponent = maybe(
      all({chars({{'E', 'E'}, {'e', 'e'}}), maybe(chars({{'+', '+'}, {'-', '-'}})), some_digits(1, 3)}));
  return all({maybe(text("-")), whole, part, exponent});
}

Result<Node> bounded_number(const Shape& shape, Rules& rules) {
  if (shape.multiple_of) return multiples(shape, rules);
  const bool whole = (shape.types & kFraction) == 0;
  if (!shape.low && !shape.high) return whole ? any_integer() : any_number();
  return between(shape.low, shape.high, whole);
}

}  // namespace met::grammar
