// References and the words that combine schemas.
#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "core/concat.h"
#include "core/hex.h"
#include "grammar/shape.h"

namespace met::grammar {
namespace {

using V = json::Value;

constexpr std::size_t kAlternativesMax = 2000;
/// About a microsecond each.
constexpr std::int64_t kUnitsMax = 150'000;
constexpr std::size_t kDepthMax = 100;
constexpr std::size_t kPairsMax = 100'000;

/// Words that say nothing about a value.
constexpr std::array<std::string_view, 16> kSilent = {
    "$ref",     "title",     "description", "default",     "examples", "example", "$comment", "deprecated",
    "readOnly", "writeOnly", "$defs",       "definitions", "$id",      "$schema", "$anchor",  "nullable"};

bool only_refers(const V& schema) {
  if (!schema.is_object() || schema.find("$ref") == nullptr) return false;
  return std::ranges::all_of(schema.as_object(), [](const auto& member) {
    return std::ranges::find(kSilent, std::string_view(member.first)) != kSilent.end();
  });
}

/// Units that a copy of it takes.
std::int64_t cost_of(const Shape& s) {
  return 1 + std::ssize(s.properties) + std::ssize(s.patterns) + std::ssize(s.prefix) +
         std::ssize(s.required) + (s.values ? std::ssize(*s.values) : 0);
}

/// A token of a JSON pointer inside a URI fragment.
std::string unescaped(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const bool escape = token[i] == '%' && i + 2 < token.size();
    const int high = escape ? hex::value(token[i + 1]) : -1;
    const int low = escape ? hex::value(token[i + 2]) : -1;
    if (high >= 0 && low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += token[i];
    }
  }
  std::string plain;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '~' && i + 1 < out.size() && (out[i + 1] == '0' || out[i + 1] == '1')) {
      plain += out[++i] == '0' ? '~' : '/';
    } else {
      plain += out[i];
    }
  }
  return plain;
}

const V* follow(const V& document, std::string_view pointer) {
  const V* at = &document;
  while (!pointer.empty()) {
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string token = unescaped(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (at->is_array()) {
      std::size_t index = 0;
      if (token.empty() || token.size() > 6) return nullptr;
      for (const char c : token) {
        if (c < '0' || c > '9') return nullptr;
        index = index * 10 + static_cast<std::size_t>(c - '0');
      }
      at = index < at->as_array().size() ? &at->as_array()[index] : nullptr;
    } else {
      at = at->find(token);
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

const V* find_anchor(const V& value, std::string_view name) {
  if (value.is_array()) {
    for (const V& part : value.as_array())
      if (const V* found = find_anchor(part, name)) return found;
  }
  if (!value.is_object()) return nullptr;
  if (const V* anchor = value.find("$anchor"); anchor != nullptr && *anchor == V(name)) return &value;
  for (const auto& [key, part] : value.as_object())
    if (const V* found = find_anchor(part, name)) return found;
  return nullptr;
}

}  // namespace

Result<> SchemaReader::spend(const std::string& where, std::int64_t units) {
  steps_ += units;
  if (steps_ > kUnitsMax)
    return unsupported(where, concat("reading the schema takes more than ", kUnitsMax,
                                     " steps: it has too many values, properties or alternatives"));
  return {};
}

Result<const V*> SchemaReader::resolve(const V& schema) {
  const V* reference = schema.find("$ref");
  const std::string where = place(schema) + "/$ref";
  if (!reference->is_string())
    return invalid(where, concat("must be a string, got ", reference->type_name()));
  std::string_view uri = reference->as_string();
  if (const V* id = document_.find("$id"); id != nullptr && id->is_string() && !id->as_string().empty()) {
    std::string_view base = id->as_string();
    base = base.substr(0, base.find('#'));
    if (!base.empty() && uri.starts_with(base)) uri.remove_prefix(base.size());
  }
  if (!uri.empty() && !uri.starts_with('#'))
    return unsupported(where, concat("\"", uri, "\" is outside the document"));
  if (!uri.empty()) uri.remove_prefix(1);
  const V* found = uri.empty() || uri.starts_with('/') ? follow(document_, uri) : find_anchor(document_, uri);
  if (found == nullptr) return invalid(where, concat("there is nothing at \"", reference->as_string(), "\""));
  if (!found->is_object() && !found->is_bool())
    return invalid(where, concat("\"", reference->as_string(), "\" is no schema"));
  places_.try_emplace(found, uri.empty() || uri.starts_with('/') ? std::string(uri) : concat("#", uri));
  return found;
}

Result<const V*> SchemaReader::target(const V& schema) {
  const V* at = &schema;
  for (std::set<const V*> seen; only_refers(*at);) {
    if (!seen.insert(at).second) return invalid(place(schema) + "/$ref", "refers to itself without end");
    MET_ASSIGN(at, resolve(*at));
  }
  return at;
}

Result<std::vector<Shape>> SchemaReader::cross(const std::vector<Shape>& left,
                                               const std::vector<Shape>& right, const V& schema) {
  std::vector<Shape> out;
  for (const Shape& a : left) {
    for (const Shape& b : right) {
      MET_TRY(step(schema, cost_of(a) + cost_of(b)));
      auto both = intersect(a, b);
      if (!both) return fail(both.error().code, both.error().message, place(schema) + both.error().field);
      if (both->types != 0 && (!both->values || !both->values->empty())) out.push_back(std::move(*both));
    }
  }
  if (out.size() > kAlternativesMax)
    return unsupported(place(schema),
                       concat("its parts combine to more than ", kAlternativesMax, " alternatives"));
  return out;
}

Result<std::vector<Shape>> SchemaReader::union_of(const V& schema, const char* word,
                                                  const std::vector<Shape>& base) {
  const V& branches = *schema.find(word);
  const std::string where = concat(place(schema), "/", word);
  if (!branches.is_array() || branches.as_array().empty())
    return invalid(where, "must be a list of at least one schema");
  std::vector<std::vector<Shape>> each;
  std::vector<Shape> out;
  for (std::size_t i = 0; i < branches.as_array().size(); ++i) {
    MET_ASSIGN(const Together branch, child(schema, branches.as_array()[i], concat("/", word, "/", i)));
    MET_ASSIGN(const std::vector<Shape> branch_shapes, shapes(branch));
    MET_ASSIGN(std::vector<Shape> merged, cross(base, branch_shapes, schema));
    out.insert(out.end(), merged.begin(), merged.end());
    if (out.size() > kAlternativesMax)
      return unsupported(where, concat("there are more than ", kAlternativesMax, " alternatives"));
    each.push_back(std::move(merged));
  }
  if (std::string_view(word) == "oneOf") MET_TRY(check_apart(each, schema));
  return out;
}

/// Whether each branch is a list of values, and none is in two.
Result<bool> SchemaReader::told_by_values(const std::vector<std::vector<Shape>>& branches) {
  std::unordered_map<std::string, std::size_t> owner;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (const Shape& shape : branches[i]) {
      if (!shape.values) return false;
      MET_TRY(spend("", cost_of(shape)));
      for (const V& value : *shape.values)
        if (owner.try_emplace(canonical(value), i).first->second != i) return false;
    }
  }
  return true;
}

/// Whether the branches are objects that need `key`, whose values tell them apart.
Result<bool> SchemaReader::told_by(const std::string& key, const std::vector<std::vector<Shape>>& branches) {
  std::vector<std::vector<Shape>> each;
  for (const std::vector<Shape>& branch : branches) {
    std::vector<Shape> values;
    for (const Shape& shape : branch) {
      const bool needs = (shape.types & ~unsigned{kObject}) == 0 && shape.required.contains(key);
      if (!needs) return false;
      MET_ASSIGN(std::vector<Shape> below, shapes_below(shape.about(key)));
      std::ranges::move(below, std::back_inserter(values));
    }
    each.push_back(std::move(values));
  }
  return told_by_values(each);
}

Result<> SchemaReader::check_apart(const std::vector<std::vector<Shape>>& branches, const V& schema) {
  MET_ASSIGN(bool told_at_once, told_by_values(branches));
  if (!told_at_once && !branches.empty() && !branches[0].empty()) {
    for (const std::string& key : branches[0][0].required) {
      if (told_at_once) break;
      MET_ASSIGN(told_at_once, told_by(key, branches));
    }
  }
  if (told_at_once) return {};
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (std::size_t j = i + 1; j < branches.size(); ++j) {
      for (const Shape& a : branches[i]) {
        for (const Shape& b : branches[j]) {
          if (++pairs > kPairsMax)
            return unsupported(place(schema) + "/oneOf",
                               "there are too many branches to tell them apart: use anyOf");
          MET_ASSIGN(const bool told, apart(a, b));
          if (!told)
            return unsupported(place(schema) + "/oneOf",
                               concat("branches ", i, " and ", j, " are not provably disjoint: use anyOf"));
        }
      }
    }
  }
  return {};
}

Result<std::vector<Shape>> SchemaReader::alternatives(const V& schema) {
  MET_TRY(step(schema));
  if (schema.is_bool()) return schema.as_bool() ? std::vector<Shape>{Shape{}} : std::vector<Shape>{};
  if (open_.size() >= kDepthMax) return unsupported(place(schema), "schemas refer to each other too deeply");
  if (!open_.insert(&schema).second) return invalid(place(schema), "the schema refers to itself without end");
  MET_ASSIGN(Shape own, own_shape(schema));
  std::vector<Shape> out;
  if (own.types != 0 && (!own.values || !own.values->empty())) out.push_back(std::move(own));
  if (schema.find("$ref") != nullptr) {
    MET_ASSIGN(const V* found, resolve(schema));
    MET_ASSIGN(const V* end, target(*found));
    MET_ASSIGN(const std::vector<Shape> other, alternatives(*end));
    MET_ASSIGN(out, cross(out, other, schema));
  }
  if (const V* parts = schema.find("allOf")) {
    if (!parts->is_array() || parts->as_array().empty())
      return invalid(place(schema) + "/allOf", "must be a list of at least one schema");
    for (std::size_t i = 0; i < parts->as_array().size(); ++i) {
      MET_ASSIGN(const Together part, child(schema, parts->as_array()[i], concat("/allOf/", i)));
      MET_ASSIGN(const std::vector<Shape> other, shapes(part));
      MET_ASSIGN(out, cross(out, other, schema));
    }
  }
  for (const char* word : {"anyOf", "oneOf"}) {
    if (schema.find(word) == nullptr) continue;
    MET_ASSIGN(out, union_of(schema, word, out));
  }
  open_.erase(&schema);
  return out;
}

Result<std::vector<Shape>> SchemaReader::shapes_below(const Together& schemas) {
  std::set<const V*> above = std::exchange(open_, {});  // another value: references may come again
  auto out = shapes(schemas);
  open_ = std::move(above);
  return out;
}

Result<std::vector<Shape>> SchemaReader::shapes(const Together& schemas) {
  std::vector<Shape> out{Shape{}};
  for (const V* schema : schemas) {
    MET_ASSIGN(const std::vector<Shape> other, alternatives(*schema));
    MET_ASSIGN(out, cross(out, other, *schema));
  }
  return out;
}

}  // namespace met::grammar
