#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/hex.h"
#include "core/json.h"
#include "core/utf8.h"

namespace met::json {

namespace {

void escape_unit(unsigned unit, std::string& out) {
  out += "\\u";
  hex::append(unit, 4, out);
}

void write_quoted(std::string_view text, bool ascii, std::string& out) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      const utf8::Decoded d = utf8::decode(text.substr(i));
      i += d.length;
      if (!ascii) {
        utf8::append(d.valid ? d.code_point : utf8::kReplacement, out);
      } else if (const char32_t p = d.valid ? d.code_point : utf8::kReplacement; p < 0x10000) {
        escape_unit(p, out);
      } else {
        escape_unit(0xD800U + ((p - 0x10000U) >> 10U), out);
        escape_unit(0xDC00U + ((p - 0x10000U) & 0x3FFU), out);
      }
      continue;
    }
    ++i;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (c < 0x20)
          escape_unit(c, out);
        else
          out += static_cast<char>(c);
    }
  }
  out += '"';
}

template <class Number>
void write_number(Number value, std::string& out) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

struct PythonWriter {
  const PythonStyle& style;
  std::string_view item_separator;
  std::string_view key_separator;
  std::string out{};

  void line(int depth) {
    if (style.indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(style.indent) * static_cast<std::size_t>(depth), ' ');
  }
  void array(const Array& items, int depth) {
    if (items.empty()) return void(out += "[]");
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out += item_separator;
      line(depth + 1);
      value(items[i], depth + 1);
    }
    line(depth);
    out += ']';
  }
  void object(const Object& members, int depth) {
    if (members.empty()) return void(out += "{}");
    std::vector<const Object::Member*> order;
    for (const auto& m : members) order.push_back(&m);
    if (style.sort_keys)
      std::ranges::stable_sort(order, {}, [](const auto* m) -> const std::string& { return m->first; });
    out += '{';
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i != 0) out += item_separator;
      line(depth + 1);
      write_quoted(order[i]->first, style.ensure_ascii, out);
      out += key_separator;
      value(order[i]->second, depth + 1);
    }
    line(depth);
    out += '}';
  }
  void value(const Value& v, int depth) {
    if (v.is_null()) return void(out += "null");
    if (v.is_bool()) return void(out += v.as_bool() ? "true" : "false");
    if (v.is_int()) return write_number(v.as_int(), out);
    if (v.is_double()) {
      const double d = v.as_number();
      return void(out += std::isnan(d)   ? "NaN"
                         : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity")
                                         : python_float(d));
    }
    if (v.is_string()) return write_quoted(v.as_string(), style.ensure_ascii, out);
    if (v.is_array()) return array(v.as_array(), depth);
    object(v.as_object(), depth);
  }
};

}  // namespace

void write_string(std::string_view text, std::string& out) { write_quoted(text, false, out); }

void write(const Value& v, std::string& out) {
  if (v.is_null()) {
    out += "null";
  } else if (v.is_bool()) {
    out += v.as_bool() ? "true" : "false";
  } else if (v.is_int()) {
    write_number(v.as_int(), out);
  } else if (v.is_double()) {
    const double d = v.as_number();
    if (!std::isfinite(d))
      out += "null";
    else if (d == 0 && std::signbit(d))
      out += "-0.0";  // -0 is the integer 0 where it is read
    else
      write_number(d, out);
  } else if (v.is_string()) {
    write_string(v.as_string(), out);
  } else if (v.is_array()) {
    out += '[';
    bool first = true;
    for (const Value& item : v.as_array()) {
      if (!std::exchange(first, false)) out += ',';
      write(item, out);
    }
    out += ']';
  } else {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : v.as_object()) {
      if (!std::exchange(first, false)) out += ',';
      write_string(key, out);
      out += ':';
      write(member, out);
    }
    out += '}';
  }
}

std::string write(const Value& value) {
  std::string out;
  write(value, out);
  return out;
}

std::string write_python(const Value& value, const PythonStyle& style) {
  PythonWriter writer{style, style.item_separator, style.key_separator};
  if (style.item_separator.empty()) writer.item_separator = style.indent < 0 ? ", " : ",";
  if (style.key_separator.empty()) writer.key_separator = ": ";
  writer.value(value, 0);
  return std::move(writer.out);
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const double size = std::fabs(value);
  const bool scientific = size != 0 && (size >= 1e16 || size < 1e-4);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace met::json
