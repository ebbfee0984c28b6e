// Python's two ways to format: '%s' % args and '{}'.format(...).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "core/json.h"
#include "core/utf8.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/strings.h"

namespace met::text::jinja {

namespace {

constexpr int kWidthMax = 10'000;  // of one field; more is a mistake or an attack

struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  bool alternate = false;
  char grouping = 0;  // , or _
  int width = 0;
  int precision = -1;
  char type = 0;
};

int number(std::string_view& rest) {
  int value = 0;
  while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
    value = value * 10 + (rest[0] - '0');
    if (value > kWidthMax) value_error("a field of more than " + std::to_string(kWidthMax) + " characters");
    rest.remove_prefix(1);
  }
  return value;
}

Spec parse_spec(std::string_view rest) {
  Spec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  const std::size_t fill = rest.empty() ? 0 : utf8::decode(rest).length;
  if (rest.size() > fill && is_align(rest[fill])) {
    spec.fill = rest.substr(0, fill);
    spec.align = rest[fill];
    rest.remove_prefix(fill + 1);
  } else if (!rest.empty() && is_align(rest[0])) {
    spec.align = rest[0];
    rest.remove_prefix(1);
  }
  const auto skip = [&](std::string_view any) {
    if (rest.empty() || any.find(rest[0]) == std::string_view::npos) return '\0';
    const char c = rest[0];
    rest.remove_prefix(1);
    return c;
  };
  if (const char c = skip("+- ")) spec.sign = c;
  spec.alternate = skip("#") != 0;
  if (skip("0") != 0 && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = number(rest);
  spec.grouping = skip(",_");
  if (skip(".") != 0) {
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') value_error("Format specifier missing precision");
    spec.precision = number(rest);
  }
  spec.type = rest.empty() ? '\0' : rest[0];
  if (rest.size() > 1) value_error("Invalid format specifier");
  return spec;
}

std::string digits_in_base(Int v, int base, bool upper) {
  std::string out;
  do {
    const int d = static_cast<int>(v % base);
    out += static_cast<char>(d < 10 ? '0' + d : (upper ? 'A' : 'a') + d - 10);
    v /= base;
  } while (v != 0);
  std::ranges::reverse(out);
  return out;
}

void group(std::string& digits, char separator) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, separator);
}

std::string float_digits(double v, char type, int precision, bool alternate) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return "inf";
  const double magnitude = std::abs(v);
  if (type == 0 && precision < 0) return json::python_float(magnitude);
  char format[8] = {'%', '.', '*', 0};
  int at = alternate ? 1 : 0;
  if (alternate) format[1] = '#', format[2] = '.', format[3] = '*';
  format[at + 3] = type == 0 || type == 'n' ? 'g' : type;
  format[at + 4] = 0;
  std::string buffer(static_cast<std::size_t>(std::max(precision, 6)) + 400, '\0');
  const int size =
      std::snprintf(buffer.data(), buffer.size(), format, precision < 0 ? 6 : precision, magnitude);
  buffer.resize(static_cast<std::size_t>(size));
  return buffer;
}

void append_number(StrBuilder& out, const Spec& spec, bool negative, std::string_view prefix,
                   std::string digits) {
  if (spec.grouping != 0) group(digits, spec.grouping);
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  sign += prefix;
  const int missing = spec.width - static_cast<int>(sign.size() + digits.size());
  const auto fill = [&](int count) {
    for (int i = 0; i < count; ++i) out.append(spec.fill);
  };
  const char align = spec.align == 0 ? '>' : spec.align;
  if (align == '>') fill(missing);
  if (align == '^') fill(missing / 2);
  out.append(sign);
  if (align == '=') fill(missing);
  out.append(digits);
  if (align == '<') fill(missing);
  if (align == '^') fill(missing - missing / 2);
}

void append_text(StrBuilder& out, const Heap& heap, const Spec& spec, const Str& s) {
  const Str* text = &s;
  Value cut;
  if (spec.precision >= 0) {
    cut = substring(heap, s, 0, byte_offset(s, static_cast<std::size_t>(spec.precision)));
    text = &cut.str();
  }
  const int missing = spec.width - static_cast<int>(code_points(*text));
  const int left = spec.align == '>' ? missing : spec.align == '^' ? missing / 2 : 0;
  for (int i = 0; i < left; ++i) out.append(spec.fill);
  out.append(*text);
  for (int i = std::max(left, 0); i < missing; ++i) out.append(spec.fill);
}

[[noreturn]] void bad_code(char type, const Value& v) {
  value_error(std::string("Unknown format code '") + type + "' for object of type '" +
              std::string(type_name(v)) + "'");
}

void append_formatted(StrBuilder& out, const Heap& heap, const Value& v, Spec spec) {
  if (v.is_string() || spec.type == 's') {
    if (!v.is_string() && v.is_number()) bad_code('s', v);
    if (spec.type != 0 && spec.type != 's') bad_code(spec.type, v);
    return append_text(out, heap, spec, to_string(heap, v).str());
  }
  const bool as_float =
      v.is(Kind::kFloat) || (v.is_int() && spec.type != 0 && std::string_view("eEfFgG%").contains(spec.type));
  if (as_float) {
    double value = v.as_float();
    if (spec.type == '%') value *= 100;
    if (spec.type != 0 && !std::string_view("eEfFgGn%").contains(spec.type)) bad_code(spec.type, v);
    std::string digits =
        float_digits(value, spec.type == '%' ? 'f' : spec.type, spec.precision, spec.alternate);
    if (spec.type == '%') digits += '%';
    return append_number(out, spec, std::signbit(value) && !std::isnan(value), "", digits);
  }
  if (v.is(Kind::kInt) || (v.is(Kind::kBool) && spec.type != 0)) {
    const bool negative = v.as_int() < 0;
    const Int magnitude = negative ? -v.as_int() : v.as_int();
    const char lower = static_cast<char>(spec.type | 0x20);
    const int base = lower == 'x' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
    if (spec.type == 'c') {
      std::string text;
      if (negative || magnitude > 0x10FFFF) value_error("%c arg not in range(0x110000)");
      utf8::append(static_cast<char32_t>(magnitude), text);
      return append_text(out, heap, spec, heap.string(text).str());
    }
    if (base == 10 && spec.type != 0 && spec.type != 'd' && spec.type != 'n') bad_code(spec.type, v);
    const std::string prefix = spec.alternate && base != 10 ? std::string{'0', spec.type} : std::string{};
    return append_number(out, spec, negative, prefix, digits_in_base(magnitude, base, spec.type == 'X'));
  }
  append_text(out, heap, spec, to_string(heap, v).str());
}

}  // namespace

void format_spec(StrBuilder& out, const Value& v, std::string_view text) {
  const Heap heap(nullptr);
  append_formatted(out, heap, v, parse_spec(text));
}

Value percent_format(const Heap& heap, const Str& format, const Value& arguments) {
  StrBuilder out(heap);
  std::size_t used = 0;
  const bool many = arguments.is(Kind::kTuple);
  const auto next = [&]() -> const Value& {
    if (many ? used >= arguments.seq().items.size() : used > 0)
      type_error("not enough arguments for format string");
    ++used;
    return many ? arguments.seq().items[used - 1] : arguments;
  };
  std::size_t at = 0;
  while (at < format.text.size()) {
    const std::size_t mark = std::min(format.text.find('%', at), format.text.size());
    out.append(format, at, mark);
    if (mark == format.text.size()) break;
    std::string_view rest = std::string_view(format.text).substr(mark + 1);
    const Value* named = nullptr;
    if (rest.starts_with('(')) {
      const std::size_t close = rest.find(')');
      if (close == std::string_view::npos || !arguments.is(Kind::kDict))
        type_error("format requires a mapping");
      named = find_key(arguments.dict(), rest.substr(1, close - 1));
      if (named == nullptr)
        raise(FailureKind::kValue, "KeyError: '" + std::string(rest.substr(1, close - 1)) + "'");
      rest.remove_prefix(close + 1);
    }
    Spec spec;
    spec.align = '>';
    bool left = false;
    while (!rest.empty() && std::string_view("#0- +").contains(rest[0])) {
      if (rest[0] == '-') left = true;
      if (rest[0] == '0') spec.fill = "0", spec.align = '=';
      if (rest[0] == '#') spec.alternate = true;
      if (rest[0] == '+' || (rest[0] == ' ' && spec.sign != '+')) spec.sign = rest[0];
      rest.remove_prefix(1);
    }
    if (left) spec.align = '<', spec.fill = " ";
    spec.width = number(rest);
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
      spec.precision = number(rest);
    }
    if (rest.empty()) value_error("incomplete format");
    const char code = rest[0];
    at = format.text.size() - rest.size() + 1;
    if (code == '%') {
      out.append("%");
      continue;
    }
    const Value& v = named != nullptr ? *named : next();
    if (code == 's' || code == 'r' || code == 'a') {
      StrBuilder text(heap);
      code == 's' ? append_string(text, v) : append_repr(text, v);
      if (spec.align == '=') spec.align = '>', spec.fill = " ";
      append_text(out, heap, spec, text.take().str());
    } else if (std::string_view("diouxXeEfFgGc").contains(code)) {
      require_defined(v);
      if (!v.is_number())
        type_error(std::string("%") + code + " format: a real number is required, not " +
                   std::string(type_name(v)));
      const bool integer = std::string_view("diu").contains(code);
      spec.type = integer ? 'd' : code;
      const bool cut = (integer || std::string_view("oxX").contains(code)) && v.is(Kind::kFloat);
      if (cut && !(std::abs(v.as_float()) < 0x1p120)) value_error("the number is too large");
      if (integer) spec.precision = -1;
      append_formatted(out, heap, cut ? Value(static_cast<Int>(v.as_float())) : v, spec);
    } else {
      value_error(std::string("unsupported format character '") + code + "'");
    }
  }
  if (many && used < arguments.seq().items.size())
    type_error("not all arguments converted during string formatting");
  return out.take();
}

namespace {

/// `{0.name[key]!r:spec}` of str.format.
class BraceFormatter {
 public:
  BraceFormatter(Interpreter& run, const Arguments& arguments) : run_(run), arguments_(arguments) {}

  void format(StrBuilder& out, const Str& s, int depth) {
    std::size_t at = 0;
    const std::string& text = s.text;
    while (at < text.size()) {
      const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append(s, at, brace);
      if (brace == text.size()) return;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out.append(s, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (text[brace] == '}') value_error("Single '}' encountered in format string");
      std::size_t end = brace + 1;
      int open = 1;
      for (; end < text.size(); ++end) {
        open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      if (open != 0) value_error("expected '}' before end of string");
      field(out, std::string_view(text).substr(brace + 1, end - brace - 1), depth);
      at = end + 1;
    }
  }

 private:
  void field(StrBuilder& out, std::string_view body, int depth) {
    if (depth > 2) value_error("Max string recursion exceeded");
    const std::size_t stop = std::min(body.find_first_of("!:"), body.size());
    Value v = lookup(body.substr(0, stop));
    std::string_view rest = body.substr(stop);
    if (rest.starts_with('!')) {
      if (rest.size() < 2) value_error("end of string while looking for conversion specifier");
      StrBuilder text(run_.heap());
      rest[1] == 's' ? append_string(text, v) : append_repr(text, v);
      v = text.take();
      rest.remove_prefix(2);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    StrBuilder spec(run_.heap());
    format(spec, run_.heap().string(std::string(rest)).str(), depth + 1);
    if (spec.text().empty()) return append_string(out, v);
    append_formatted(out, run_.heap(), v, parse_spec(spec.text()));
  }

  Value lookup(std::string_view name) {
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string_view root = name.substr(0, end);
    const bool digits = std::ranges::all_of(root, [](char c) { return c >= '0' && c <= '9'; });
    Value v;
    if (digits) {
      if (root.empty() ? manual_ : automatic_ > 0)
        value_error(root.empty()
                        ? "cannot switch from manual field specification to automatic field numbering"
                        : "cannot switch from automatic field numbering to manual field specification");
      if (!root.empty()) manual_ = true;
      std::size_t index = 0;
      if (root.empty())
        index = automatic_++;
      else if (std::from_chars(root.data(), root.data() + root.size(), index).ec != std::errc{})
        value_error("too many decimal digits in format string");
      if (index >= arguments_.positional.size())
        value_error("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
      v = arguments_.positional[index];
    } else {
      const auto found =
          std::ranges::find(arguments_.named, root, [](const auto& a) { return std::string_view(a.first); });
      if (found == arguments_.named.end()) value_error("KeyError: '" + std::string(root) + "'");
      v = found->second;
    }
    for (std::string_view rest = name.substr(end); !rest.empty();) {
      const bool bracket = rest[0] == '[';
      const std::size_t stop = std::min(bracket ? rest.find(']') : rest.find_first_of(".[", 1), rest.size());
      const std::string_view key = rest.substr(1, stop - 1);
      v = bracket ? run_.item(v, run_.heap().string(std::string(key))) : run_.attribute(v, key);
      require_defined(v);
      rest.remove_prefix(std::min(stop + (bracket ? 1 : 0), rest.size()));
    }
    return v;
  }

  Interpreter& run_;
  const Arguments& arguments_;
  std::size_t automatic_ = 0;
  bool manual_ = false;
};

}  // namespace

Value brace_format(Interpreter& run, const Str& format, const Arguments& arguments) {
  StrBuilder out(run.heap());
  BraceFormatter(run, arguments).format(out, format, 0);
  return out.take();
}

}  // namespace met::text::jinja
