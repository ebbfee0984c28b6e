#include "core/json_types.h"

#include <array>
#include <utility>

namespace met {
namespace {

using V = json::Value;

constexpr int kDepthMax = 32;  // references may form a ring

JsonTypes type_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, unsigned>, 7> kNames = {
      {{"null", JsonTypes::kNull},
       {"boolean", JsonTypes::kBoolean},
       {"integer", JsonTypes::kInteger},
       {"number", JsonTypes::kNumber | JsonTypes::kInteger},
       {"string", JsonTypes::kString},
       {"array", JsonTypes::kArray},
       {"object", JsonTypes::kObject}}};
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  return {};
}

/// Who writes `properties` means an object.
JsonTypes types_of_words(const V& schema) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kWords = {
      {{"minimum", "number"},
       {"maximum", "number"},
       {"exclusiveMinimum", "number"},
       {"exclusiveMaximum", "number"},
       {"multipleOf", "number"},
       {"minLength", "string"},
       {"maxLength", "string"},
       {"pattern", "string"},
       {"format", "string"},
       {"items", "array"},
       {"prefixItems", "array"},
       {"minItems", "array"},
       {"maxItems", "array"},
       {"properties", "object"},
       {"patternProperties", "object"},
       {"additionalProperties", "object"},
       {"propertyNames", "object"},
       {"required", "object"},
       {"minProperties", "object"},
       {"maxProperties", "object"}}};
  JsonTypes types;
  for (const auto& [word, type] : kWords)
    if (schema.find(word) != nullptr) types = types | type_named(type);
  return types;
}

class Reader {
 public:
  explicit Reader(const V& root) : root_(root) {}

  JsonTypes of(const V& schema, int depth) const {
    if (depth > kDepthMax || !schema.is_object()) return {};
    JsonTypes types;
    if (const V* type = schema.find("type"); type != nullptr) {
      if (type->is_string()) types = type_named(type->as_string());
      if (type->is_array())
        for (const V& each : type->as_array())
          if (each.is_string()) types = types | type_named(each.as_string());
    }
    if (const V* value = schema.find("const"); value != nullptr)
      narrow(types, type_named(value->type_name()));
    if (const V* values = schema.find("enum"); values != nullptr && values->is_array()) {
      JsonTypes listed;
      for (const V& value : values->as_array()) listed = listed | type_named(value.type_name());
      narrow(types, listed);
    }
    combine(schema, types, [&](const V& part) { return of(part, depth + 1); });
    return types.empty() ? types_of_words(schema) : types;
  }

  JsonTypes of_member(const V& schema, std::optional<std::string_view> name, int depth) const {
    if (depth > kDepthMax || !schema.is_object()) return {};
    JsonTypes types;
    const V* properties = name ? schema.find("properties") : nullptr;
    const V* own = properties == nullptr ? nullptr : properties->find(*name);
    if (own == nullptr) own = schema.find("additionalProperties");
    if (own != nullptr) types = of(*own, depth + 1);
    combine(schema, types, [&](const V& part) { return of_member(part, name, depth + 1); });
    return types;
  }

 private:
  static void narrow(JsonTypes& types, JsonTypes more) {
    if (!more.empty()) types = types.empty() ? more : types & more;
  }

  /// What the schemas that stand beside a schema's own words say. A branch that says nothing leaves what is known.
  template <class F>
  void combine(const V& schema, JsonTypes& types, F of_part) const {
    if (const V* reference = schema.find("$ref"); reference != nullptr && reference->is_string())
      if (const V* target = resolve(reference->as_string())) narrow(types, of_part(*target));
    if (const V* all = schema.find("allOf"); all != nullptr && all->is_array())
      for (const V& part : all->as_array()) narrow(types, of_part(part));
    for (const std::string_view key : {"anyOf", "oneOf"}) {
      const V* branches = schema.find(key);
      if (branches == nullptr || !branches->is_array()) continue;
      JsonTypes some;
      bool all_say = true;
      for (const V& branch : branches->as_array()) {
        const JsonTypes one = of_part(branch);
        all_say = all_say && !one.empty();
        some = some | one;
      }
      if (types.empty() || all_say) narrow(types, some);
    }
  }

  /// What "#/a/b" points to, or nullptr.
  const V* resolve(std::string_view reference) const {
    if (!reference.starts_with('#')) return nullptr;
    reference.remove_prefix(1);
    const V* at = &root_;
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

  const V& root_;
};

}  // namespace

JsonTypes member_types(const json::Value& schema, std::optional<std::string_view> name) {
  return Reader(schema).of_member(schema, name, 0);
}

}  // namespace met
