#include "text/tools/tool_set.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/hex.h"
#include "text/machine/answer_sink.h"

namespace met::text {
namespace {

constexpr int kSchemaDepthMax = 32;  // references may form a ring

JsonTypes type_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, JsonTypes::Type>, 7> kNames = {
      {{"null", JsonTypes::kNull},
       {"boolean", JsonTypes::kBoolean},
       {"integer", JsonTypes::kInteger},
       {"number", JsonTypes::kNumber},
       {"string", JsonTypes::kString},
       {"array", JsonTypes::kArray},
       {"object", JsonTypes::kObject}}};
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  return {};
}

/// What "#/a/b" points to, or nullptr.
const json::Value* resolve(std::string_view reference, const json::Value& root) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const json::Value* at = &root;
  while (!reference.empty()) {
    if (reference.front() != '/') return nullptr;
    reference.remove_prefix(1);
    const std::size_t end = std::min(reference.find('/'), reference.size());
    at = at->find(reference.substr(0, end));
    if (at == nullptr) return nullptr;
    reference.remove_prefix(end);
  }
  return at;
}

/// Who writes `properties` means an object.
JsonTypes types_of_words(const json::Value& schema) {
  constexpr std::array<std::pair<std::string_view, JsonTypes::Type>, 19> kWords = {
      {{"minimum", JsonTypes::kNumber},
       {"maximum", JsonTypes::kNumber},
       {"exclusiveMinimum", JsonTypes::kNumber},
       {"exclusiveMaximum", JsonTypes::kNumber},
       {"multipleOf", JsonTypes::kNumber},
       {"minLength", JsonTypes::kString},
       {"maxLength", JsonTypes::kString},
       {"pattern", JsonTypes::kString},
       {"items", JsonTypes::kArray},
       {"prefixItems", JsonTypes::kArray},
       {"minItems", JsonTypes::kArray},
       {"maxItems", JsonTypes::kArray},
       {"properties", JsonTypes::kObject},
       {"patternProperties", JsonTypes::kObject},
       {"additionalProperties", JsonTypes::kObject},
       {"propertyNames", JsonTypes::kObject},
       {"required", JsonTypes::kObject},
       {"minProperties", JsonTypes::kObject},
       {"maxProperties", JsonTypes::kObject}}};
  JsonTypes types;
  for (const auto& [word, type] : kWords)
    if (schema.find(word) != nullptr) types = types | type;
  return types;
}

JsonTypes types_of(const json::Value& schema, const json::Value& root, int depth);

JsonTypes types_of_list(const json::Value& schemas, const json::Value& root, int depth, bool all) {
  JsonTypes types;
  if (!schemas.is_array()) return types;
  for (const json::Value& schema : schemas.as_array()) {
    const JsonTypes some = types_of(schema, root, depth);
    if (some.empty()) continue;
    types = all && !types.empty() ? types & some : types | some;
  }
  return types;
}

JsonTypes types_of(const json::Value& schema, const json::Value& root, int depth) {
  if (depth > kSchemaDepthMax || !schema.is_object()) return {};
  if (const json::Value* reference = schema.find("$ref"); reference != nullptr && reference->is_string()) {
    const json::Value* target = resolve(reference->as_string(), root);
    return target == nullptr ? JsonTypes{} : types_of(*target, root, depth + 1);
  }
  JsonTypes types;
  if (const json::Value* type = schema.find("type"); type != nullptr) {
    if (type->is_string()) types = type_named(type->as_string());
    if (type->is_array())
      for (const json::Value& each : type->as_array())
        if (each.is_string()) types = types | type_named(each.as_string());
    if (!types.empty()) return types;
  }
  if (const json::Value* value = schema.find("const"); value != nullptr)
    return type_named(value->type_name());
  if (const json::Value* values = schema.find("enum"); values != nullptr && values->is_array()) {
    for (const json::Value& value : values->as_array()) types = types | type_named(value.type_name());
    return types;
  }
  for (const std::string_view key : {"anyOf", "oneOf"})
    if (const json::Value* some = schema.find(key); some != nullptr)
      types = types | types_of_list(*some, root, depth + 1, /*all=*/false);
  if (const json::Value* all = schema.find("allOf"); types.empty() && all != nullptr)
    types = types_of_list(*all, root, depth + 1, /*all=*/true);
  return types.empty() ? types_of_words(schema) : types;
}

/// Of one property of an object that fits `schema`, whichever branch of it that is.
JsonTypes types_of_property(const json::Value& schema, std::string_view name, const json::Value& root,
                            int depth) {
  if (depth > kSchemaDepthMax || !schema.is_object()) return {};
  if (const json::Value* reference = schema.find("$ref"); reference != nullptr && reference->is_string())
    if (const json::Value* target = resolve(reference->as_string(), root))
      return types_of_property(*target, name, root, depth + 1);
  const json::Value* properties = schema.find("properties");
  if (const json::Value* own = properties == nullptr ? nullptr : properties->find(name))
    return types_of(*own, root, depth);
  JsonTypes types;
  for (const std::string_view key : {"anyOf", "oneOf", "allOf"})
    if (const json::Value* branches = schema.find(key); branches != nullptr && branches->is_array())
      for (const json::Value& branch : branches->as_array())
        types = types | types_of_property(branch, name, root, depth + 1);
  const json::Value* others = schema.find("additionalProperties");
  return types.empty() && others != nullptr ? types_of(*others, root, depth) : types;
}

bool is_integral(std::string_view number) {
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) return number.find_first_of(".eE") == std::string_view::npos;
  return error == std::errc{} && std::trunc(value) == value;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return out;
}

}  // namespace

const Tool* ToolSet::find(std::string_view name) const {
  const auto it = std::ranges::find(tools_, name, &Tool::name);
  return it == tools_.end() ? nullptr : &*it;
}

JsonTypes ToolSet::types(std::string_view tool, std::string_view parameter) const {
  const Tool* found = find(tool);
  if (found == nullptr) return {};
  return types_of_property(found->parameters, parameter, found->parameters, 0);
}

std::string_view trim_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_json_number(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - from;
  };
  if (text.starts_with('-')) ++at;
  const std::size_t whole = at;
  if (digits() == 0 || (text[whole] == '0' && at > whole + 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

void append_escaped(std::string_view bytes, std::string& out) {
  constexpr std::string_view kShort = "btn_fr";  // of U+0008 to U+000D; U+000B has none
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x08 && byte <= 0x0D && byte != 0x0B) {
      out += '\\';
      out += kShort[byte - 0x08];
    } else if (byte < 0x20) {
      out += "\\u00";
      hex::append(byte, 2, out);
    } else {
      out += c;
    }
  }
}

std::string json_of(std::string_view text, JsonTypes types) {
  const std::string_view value = trim_blanks(text);
  if (types.has(JsonTypes::kNull) && value == "null") return "null";
  if (!types.is_text()) {
    if (types.has(JsonTypes::kBoolean))
      if (std::string word = lowered(value); word == "true" || word == "false") return word;
    if (types.has(JsonTypes::kInteger | JsonTypes::kNumber) && is_json_number(value) &&
        (types.has(JsonTypes::kNumber) || is_integral(value)))
      return std::string(value);
    const bool array = types.has(JsonTypes::kArray) && value.starts_with('[');
    const bool object = types.has(JsonTypes::kObject) && value.starts_with('{');
    if ((array || object) && json::parse(value)) return std::string(value);
  }
  std::string out = "\"";
  append_escaped(text, out);
  return out + '"';
}

}  // namespace met::text
