// The tojson filter: Python's json.dumps over template values. Its text is user text wherever a string of it
// came from the user.
#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"

namespace met::text::jinja {

namespace {

struct JsonWriter {
  StrBuilder& out;
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indents = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";

  void line(int depth) {
    if (!indents) return;
    out.append("\n");
    for (int i = 0; i < depth; ++i) out.append(indent);
  }

  void string(const Str& s) {
    std::string text;
    if (ensure_ascii) {
      json::PythonStyle style;
      style.ensure_ascii = true;
      text = json::write_python(json::Value(s.text), style);
    } else {
      json::write_string(s.text, text);
    }
    out.append(text, !s.untrusted.empty());
  }

  static std::string number(const Value& v) {
    if (v.is(Kind::kBool)) return v.as_bool() ? "true" : "false";
    if (v.is(Kind::kInt)) return int_text(v.as_int());
    const double d = v.as_float();
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return json::python_float(d);
  }

  void key(const Value& k) {
    if (k.is_string()) return string(k.str());
    if (k.is_none()) return out.append("\"null\"");
    if (!k.is_number())
      type_error("keys must be str, int, float, bool or None, not " + std::string(type_name(k)));
    out.append("\"" + number(k) + "\"");
  }

  void object(const Dict& dict, int depth) {
    if (dict.members.empty()) return out.append("{}");
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& m : dict.members) order.push_back(&m);
    if (sort_keys)
      std::ranges::stable_sort(
          order, [](const auto* a, const auto* b) { return compare(a->first, b->first, "<") < 0; });
    out.append("{");
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i != 0) out.append(item_separator);
      line(depth + 1);
      key(order[i]->first);
      out.append(key_separator);
      value(order[i]->second, depth + 1);
    }
    line(depth);
    out.append("}");
  }

  void array(const std::vector<Value>& items, int depth) {
    if (items.empty()) return out.append("[]");
    out.append("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out.append(item_separator);
      line(depth + 1);
      value(items[i], depth + 1);
    }
    line(depth);
    out.append("]");
  }

  void value(const Value& v, int depth) {
    switch (v.kind()) {
      case Kind::kNone:
        return out.append("null");
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        return out.append(number(v));
      case Kind::kString:
        return string(v.str());
      case Kind::kList:
      case Kind::kTuple:
        return array(v.seq().items, depth);
      case Kind::kDict:
        return object(v.dict(), depth);
      default:
        type_error("Object of type " + std::string(type_name(v)) + " is not JSON serializable");
    }
  }
};

}  // namespace

Value to_json(Interpreter& run, Arguments& a) {
  const auto args = bind<5>(a, "tojson", {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  StrBuilder out(run.heap());
  JsonWriter writer{out};
  writer.ensure_ascii = args.has(1) && truthy(args[1]);
  writer.sort_keys = args.has(4) && truthy(args[4]);
  if (args.has(2) && !args[2].is_none()) {
    writer.indents = true;
    writer.item_separator = ",";
    if (args[2].is_string()) {
      writer.indent = args[2].text();
    } else {
      const Int width = need_int(args[2], "tojson");
      if (width > 64) value_error("tojson() indents by at most 64 columns");
      writer.indent.assign(width < 0 ? 0 : static_cast<std::size_t>(width), ' ');
    }
  }
  if (args.has(3) && !args[3].is_none()) {
    const std::vector<Value> both = iterate(run.heap(), args[3]);
    if (both.size() != 2) value_error("separators must be a pair");
    writer.item_separator = need_string(both[0], "tojson").text;
    writer.key_separator = need_string(both[1], "tojson").text;
  }
  writer.value(args[0], 0);
  return out.take();
}

}  // namespace met::text::jinja
