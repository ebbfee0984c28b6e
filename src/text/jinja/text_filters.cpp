// Filters that give text or a number.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/json.h"
#include "core/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"

namespace met::text::jinja {

namespace {

Value text_of(Interpreter& run, Arguments& a) { return to_string(run.heap(), a.positional[0]); }

template <Case How>
Value filter_case(Interpreter& run, Arguments& a) {
  bind<1>(a, "filter", {"s"}, 1);
  return change_case(run.heap(), text_of(run, a).str(), How);
}

Value filter_trim(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "trim", {"value", "chars"}, 1);
  const Str* chars = nullptr;
  if (args.has(1) && !args[1].is_none()) chars = &need_string(args[1], "trim");
  return strip(run.heap(), text_of(run, a).str(), chars, Side::kBoth);
}

Value filter_replace(Interpreter& run, Arguments& a) {
  const auto args = bind<4>(a, "replace", {"s", "old", "new", "count"}, 3);
  const Value from = to_string(run.heap(), args[1]);
  const Value to = to_string(run.heap(), args[2]);
  const Int count = args.has(3) && !args[3].is_none() ? need_int(args[3], "replace") : Int{-1};
  return replace(run.heap(), text_of(run, a).str(), from.str(), to.str(), count);
}

Value filter_indent(Interpreter& run, Arguments& a) {
  const auto args = bind<4>(a, "indent", {"s", "width", "first", "blank"}, 1);
  const Heap& heap = run.heap();
  Value indention = heap.string("    ");
  if (args.has(1))
    indention =
        args[1].is_string() ? args[1] : pad(heap, heap.string("").str(), need_int(args[1], "indent"), " ", 1);
  const bool first = args.has(2) && truthy(args[2]);
  const bool blank = args.has(3) && truthy(args[3]);
  StrBuilder with_newline(heap);
  with_newline.append(text_of(run, a).str());
  with_newline.append("\n");
  const Value source = with_newline.take();
  StrBuilder out(heap);
  if (first) out.append(indention.str());
  const std::vector<Value> lines = split_lines(heap, source.str(), false);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) {
      out.append("\n");
      if (blank || !lines[i].text().empty()) out.append(indention.str());
    }
    out.append(lines[i].str());
  }
  return out.take();
}

Value filter_truncate(Interpreter& run, Arguments& a) {
  const auto args = bind<5>(a, "truncate", {"s", "length", "killwords", "end", "leeway"}, 1);
  const Heap& heap = run.heap();
  const Value s = text_of(run, a);
  const Int limit = args.has(1) ? need_int(args[1], "truncate") : Int{255};
  const bool cut_words = args.has(2) && truthy(args[2]);
  const Value end = args.has(3) ? to_string(heap, args[3]) : heap.string("...");
  const Int leeway = args.has(4) && !args[4].is_none() ? need_int(args[4], "truncate") : Int{5};
  const Int end_size = static_cast<std::int64_t>(code_points(end.str()));
  if (limit < end_size || leeway < 0) value_error("expected a length of at least " + int_text(end_size));
  if (Int{static_cast<std::int64_t>(code_points(s.str()))} <= limit + leeway) return s;
  const std::size_t cut = byte_offset(s.str(), static_cast<std::size_t>(limit - end_size));
  std::size_t keep = cut;
  if (!cut_words) {
    const std::size_t space = std::string_view(s.text()).substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) keep = space;
  }
  StrBuilder out(heap);
  out.append(s.str(), 0, keep);
  out.append(end.str());
  return out.take();
}

Value filter_center(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "center", {"value", "width"}, 1);
  return pad(run.heap(), text_of(run, a).str(), args.has(1) ? need_int(args[1], "center") : Int{80}, " ", 0);
}

Value filter_format(Interpreter& run, Arguments& a) {
  const Value format = text_of(run, a);
  if (!a.named.empty() && a.positional.size() > 1)
    type_error("can't handle positional and keyword arguments at the same time");
  if (!a.named.empty()) {
    std::vector<std::pair<Value, Value>> members;
    for (auto& [name, value] : a.named) members.emplace_back(run.heap().string(name), std::move(value));
    return percent_format(run.heap(), format.str(), run.heap().dict(std::move(members)));
  }
  std::vector<Value> rest(a.positional.begin() + 1, a.positional.end());
  return percent_format(run.heap(), format.str(), run.heap().tuple(std::move(rest)));
}

Value filter_escape(Interpreter& run, Arguments& a) { return escape_html(run.heap(), text_of(run, a).str()); }

Value filter_safe(Interpreter& run, Arguments& a) {
  StrBuilder out(run.heap());
  out.append(text_of(run, a).str());
  return out.take(/*markup=*/true);
}

Value filter_striptags(Interpreter& run, Arguments& a) {
  const Value s = text_of(run, a);
  StrBuilder stripped(run.heap());
  const std::string& text = s.text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.find('<', at), text.size());
    const bool comment = std::string_view(text).substr(open).starts_with("<!--");
    const std::size_t close = comment ? text.find("-->", open) : text.find('>', open);
    if (open == text.size() || close == std::string::npos) {
      stripped.append(s.str(), at, text.size());
      break;
    }
    stripped.append(s.str(), at, open);
    at = close + (comment ? 3 : 1);
  }
  Value plain = stripped.take();
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#34;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [from, to] : kEntities)
    if (plain.text().find(from) != std::string::npos)
      plain = replace(run.heap(), plain.str(), run.heap().string(std::string(from)).str(),
                      run.heap().string(std::string(to)).str(), -1);
  StrBuilder out(run.heap());
  for (const Value& word : split(run.heap(), plain.str(), nullptr, -1, false)) {
    if (out.size() != 0) out.append(" ");
    out.append(word.str());
  }
  return out.take();
}

void append_quoted(StrBuilder& out, const Str& s, bool form) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr std::string_view kSafe = "_.-~";
  for (std::size_t i = 0; i < s.text.size(); ++i) {
    const char c = s.text[i];
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    const bool untrusted = any_untrusted(s, i, i + 1);
    if (alnum || kSafe.contains(c) || (c == '/' && !form)) {
      out.append({&c, 1}, untrusted);
    } else if (c == ' ' && form) {
      out.append("+", untrusted);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      const char escaped[] = {'%', kHex[byte >> 4U], kHex[byte & 15U]};
      out.append({escaped, 3}, untrusted);
    }
  }
}

Value filter_urlencode(Interpreter& run, Arguments& a) {
  const Value& v = a.positional[0];
  StrBuilder out(run.heap());
  if (v.is_string() || !(v.is(Kind::kDict) || v.is_sequence())) {
    append_quoted(out, text_of(run, a).str(), false);
    return out.take();
  }
  const auto pair = [&](const Value& key, const Value& value) {
    if (out.size() != 0) out.append("&");
    append_quoted(out, to_string(run.heap(), key).str(), true);
    out.append("=");
    append_quoted(out, to_string(run.heap(), value).str(), true);
  };
  if (v.is(Kind::kDict)) {
    for (const auto& [key, value] : v.dict().members) pair(key, value);
    return out.take();
  }
  for (const Value& item : v.seq().items) {
    const std::vector<Value> both = iterate(run.heap(), item);
    if (both.size() != 2) value_error("expected pairs to encode");
    pair(both[0], both[1]);
  }
  return out.take();
}

Value filter_wordcount(Interpreter& run, Arguments& a) {
  const std::string text = text_of(run, a).text();
  Int words = 0;
  bool in_word = false;
  for (std::string_view rest = text; !rest.empty();) {
    const utf8::Decoded d = utf8::decode(rest);
    const char32_t p = d.code_point;
    const bool word = p >= 0x80
                          ? !is_space(p)
                          : p == '_' || (p >= '0' && p <= '9') || ((p | 0x20U) >= 'a' && (p | 0x20U) <= 'z');
    words += word && !in_word ? 1 : 0;
    in_word = word;
    rest.remove_prefix(d.length);
  }
  return words;
}

/// Greedy filling of lines, as textwrap does with hyphens broken and long words cut.
Value filter_wordwrap(Interpreter& run, Arguments& a) {
  const auto args =
      bind<5>(a, "wordwrap", {"s", "width", "break_long_words", "wrapstring", "break_on_hyphens"}, 1);
  const Int width = args.has(1) ? need_int(args[1], "wordwrap") : Int{79};
  if (width <= 0) value_error("invalid width " + int_text(width) + " (must be > 0)");
  const bool cut = !args.has(2) || truthy(args[2]);
  const Heap& heap = run.heap();
  const Value newline = args.has(3) && !args[3].is_none() ? to_string(heap, args[3]) : heap.string("\n");
  StrBuilder out(heap);
  bool first_line = true;
  const Value source = text_of(run, a);
  for (const Value& line : split_lines(heap, source.str(), false)) {
    if (!first_line) out.append(newline.str());
    first_line = false;
    Int column = 0;
    for (Value word : split(heap, line.str(), nullptr, -1, false)) {
      Int size = static_cast<std::int64_t>(code_points(word.str()));
      if (column != 0 && column + 1 + size > width) {
        out.append(newline.str());
        column = 0;
      } else if (column != 0) {
        out.append(" ");
        ++column;
      }
      while (cut && size > width) {
        const std::size_t at = byte_offset(word.str(), static_cast<std::size_t>(width));
        out.append(word.str(), 0, at);
        out.append(newline.str());
        word = substring(heap, word.str(), at, word.text().size());
        size -= width;
      }
      out.append(word.str());
      column += size;
    }
  }
  return out.take();
}

Value filter_filesizeformat(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "filesizeformat", {"value", "binary"}, 1);
  double bytes = 0;
  if (args[0].is_string())
    std::from_chars(args[0].text().data(), args[0].text().data() + args[0].text().size(), bytes);
  else
    bytes = need_number(args[0], "filesizeformat");
  const bool binary = args.has(1) && truthy(args[1]);
  const double base = binary ? 1024 : 1000;
  constexpr std::string_view kUnits = "kMGTPEZY";
  if (bytes == 1) return run.heap().string("1 Byte");
  if (bytes < base) return run.heap().string(std::to_string(static_cast<long long>(bytes)) + " Bytes");
  double unit = base;
  std::size_t i = 0;
  for (; i + 1 < kUnits.size() && bytes >= unit * base; ++i) unit *= base;
  StrBuilder out(run.heap());
  format_spec(out, Value(bytes / unit), ".1f");
  std::string suffix = {' ', kUnits[i]};
  if (binary) suffix[1] = static_cast<char>(suffix[1] & ~0x20);
  out.append(suffix + (binary ? "iB" : "B"));
  return out.take();
}

Value filter_string(Interpreter& run, Arguments& a) { return text_of(run, a); }

/// The value with the members of every mapping sorted by key, as pprint writes them (it does not wrap here).
Value sorted_members(const Heap& heap, const Value& v) {
  if (v.is_sequence()) {
    std::vector<Value> items;
    for (const Value& item : v.seq().items) items.push_back(sorted_members(heap, item));
    return heap.sequence(v.kind(), std::move(items));
  }
  if (!v.is(Kind::kDict)) return v;
  std::vector<std::pair<Value, Value>> members;
  for (const auto& [key, value] : v.dict().members) members.emplace_back(key, sorted_members(heap, value));
  std::ranges::stable_sort(members, [](const auto& x, const auto& y) {
    return x.first.is_string() && y.first.is_string() && x.first.text() < y.first.text();
  });
  return heap.dict(std::move(members));
}

Value filter_pprint(Interpreter& run, Arguments& a) {
  StrBuilder out(run.heap());
  append_repr(out, sorted_members(run.heap(), a.positional[0]));
  return out.take();
}

Value filter_xmlattr(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "xmlattr", {"d", "autospace"}, 1);
  if (!args[0].is(Kind::kDict)) type_error("xmlattr() needs a mapping");
  StrBuilder out(run.heap());
  for (const auto& [key, value] : args[0].dict().members) {
    if (value.is_none() || value.is_undefined()) continue;
    const Value name = to_string(run.heap(), key);
    if (name.text().find_first_of(" \t\n\f\r/>=") != std::string::npos)
      value_error("Invalid character in attribute name: '" + name.text() + "'");
    if (out.size() != 0 || !args.has(1) || truthy(args[1])) out.append(" ");
    Arguments escaped_key{{name}, {}};
    Arguments escaped_value{{value}, {}};
    out.append(filter_escape(run, escaped_key).str());
    out.append("=\"");
    out.append(filter_escape(run, escaped_value).str());
    out.append("\"");
  }
  return out.take();
}

// Numbers

std::optional<Int> parse_int(std::string_view text, int base) {
  while (!text.empty() && is_space(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      text.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  if (text.empty() || text.back() == '_' || text.front() == '_') return std::nullopt;
  Int value = 0;
  for (const char c : text) {
    if (c == '_') continue;
    const char lower = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, Int{base}, &value) || __builtin_add_overflow(value, Int{digit}, &value))
      value_error("an integer is too large");
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  while (!text.empty() && is_space(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty() || error == std::errc::invalid_argument)
    return std::nullopt;
  return value;
}

Value whole(double v) {
  if (!(std::abs(v) < 0x1p126)) value_error("cannot convert the float to an integer");
  return static_cast<Int>(v);
}

Value filter_int(Interpreter&, Arguments& a) {
  const auto args = bind<3>(a, "int", {"value", "default", "base"}, 1);
  const Value fallback = args.has(1) ? args[1] : Value(0);
  const Value& v = args[0];
  if (v.is_int()) return v.as_int();
  if (v.is(Kind::kFloat)) return std::isfinite(v.as_float()) ? whole(v.as_float()) : fallback;
  if (!v.is_string()) return require_defined(v), fallback;
  const Int base = args.has(2) ? need_int(args[2], "int") : Int{10};
  if (base < 0 || base > 36 || base == 1) return fallback;
  if (const auto parsed = parse_int(v.text(), static_cast<int>(base))) return *parsed;
  if (const auto parsed = parse_float(v.text()); parsed && std::isfinite(*parsed)) return whole(*parsed);
  return fallback;
}

Value filter_float(Interpreter&, Arguments& a) {
  const auto args = bind<2>(a, "float", {"value", "default"}, 1);
  const Value& v = args[0];
  if (v.is_number()) return v.as_float();
  if (v.is_string())
    if (const auto parsed = parse_float(v.text())) return *parsed;
  require_defined(v);
  return args.has(1) ? args[1] : Value(0.0);
}

Value filter_abs(Interpreter& run, Arguments& a) {
  const Value& v = a.positional[0];
  require_defined(v);
  if (!v.is_number()) type_error("bad operand type for abs(): '" + std::string(type_name(v)) + "'");
  if (v.is(Kind::kFloat)) return std::abs(v.as_float());
  return v.as_int() < 0 ? run.binary(Operator::kSub, Int{0}, v) : Value(v.as_int());
}

/// Half to even on the decimal digits, as Python's round(x, n).
double round_to(double v, int digits) {
  if (!std::isfinite(v) || digits > 300) return v;
  if (digits < -300) return 0.0;
  if (digits >= 0) {
    char buffer[700];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::fixed, digits).ptr;
    double rounded = 0;
    std::from_chars(buffer, end, rounded);
    return rounded;
  }
  const double scale = std::pow(10.0, -digits);
  return std::nearbyint(v / scale) * scale;
}

Value filter_round(Interpreter&, Arguments& a) {
  const auto args = bind<3>(a, "round", {"value", "precision", "method"}, 1);
  const double v = need_number(args[0], "round");
  const Int precision = args.has(1) ? need_int(args[1], "round") : Int{0};
  const std::string method = args.has(2) ? need_string(args[2], "round").text : "common";
  const int digits = static_cast<int>(std::clamp<Int>(precision, -400, 400));
  if (method != "common" && method != "ceil" && method != "floor")
    value_error("method must be common, ceil or floor");
  if (method == "common") {
    if (!args[0].is_int()) return round_to(v, digits);
    return digits >= 0 ? Value(args[0].as_int()) : whole(round_to(v, digits));
  }
  const double scale = std::pow(10.0, digits);
  return (method == "ceil" ? std::ceil(v * scale) : std::floor(v * scale)) / scale;
}

constexpr Entry kFilters[] = {
    {"upper", filter_case<Case::kUpper>},
    {"lower", filter_case<Case::kLower>},
    {"title", filter_case<Case::kJinjaTitle>},
    {"capitalize", filter_case<Case::kCapitalize>},
    {"trim", filter_trim},
    {"replace", filter_replace},
    {"indent", filter_indent},
    {"truncate", filter_truncate},
    {"center", filter_center},
    {"format", filter_format},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_escape},
    {"safe", filter_safe},
    {"string", filter_string},
    {"striptags", filter_striptags},
    {"urlencode", filter_urlencode},
    {"urlize", filter_string},
    {"wordcount", filter_wordcount},
    {"wordwrap", filter_wordwrap},
    {"filesizeformat", filter_filesizeformat},
    {"pprint", filter_pprint},
    {"xmlattr", filter_xmlattr},
    {"tojson", to_json},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
    {"round", filter_round},
};

}  // namespace

std::span<const Entry> text_filters() { return kFilters; }

}  // namespace met::text::jinja
