#include "api/grammar_fields.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/fields.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;
using grammar::Kind;
using grammar::Spec;
using MaybeSpec = std::optional<Spec>;

const V* given(const V& object, std::string_view name) {
  const V* value = object.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::unexpected<Error> bad(std::string_view field, std::string_view below, std::string_view what,
                           const V& got) {
  return invalid(std::string(field), concat(field, below, " must be ", what, ", got ", shown(got)));
}

/// A schema as an object, a boolean, or the text of one.
Result<Spec> schema_spec(std::string_view field, std::string_view below, const V& value) {
  Spec spec{.kind = Kind::kJsonSchema, .value = value, .field = std::string(field)};
  if (value.is_string()) {
    auto parsed = json::parse(value.as_string());
    if (!parsed) return invalid(spec.field, concat(field, below, " is no JSON: ", parsed.error().message));
    spec.value = std::move(*parsed);
  }
  if (!spec.value.is_object() && !spec.value.is_bool()) return bad(field, below, "a JSON schema", value);
  return spec;
}

Result<Spec> tag_spec(std::string_view field, std::string_view below, const V& value) {
  Spec spec{.kind = Kind::kStructuralTag, .value = value, .field = std::string(field)};
  if (value.is_string()) {
    auto parsed = json::parse(value.as_string());
    if (!parsed) return invalid(spec.field, concat(field, below, " is no JSON: ", parsed.error().message));
    spec.value = std::move(*parsed);
  }
  if (!spec.value.is_object()) return bad(field, below, "a structural tag", value);
  return spec;
}

Result<Spec> notation_spec(std::string_view field, std::string_view below, Kind kind, const V& value) {
  if (kind == Kind::kJsonSchema) return schema_spec(field, below, value);
  if (kind == Kind::kStructuralTag) return tag_spec(field, below, value);
  if (kind == Kind::kChoice) {
    const bool texts = value.is_array() && !value.as_array().empty() &&
                       std::ranges::all_of(value.as_array(), [](const V& one) { return one.is_string(); });
    if (!texts) return bad(field, below, "a list of at least one string", value);
  } else if (!value.is_string() || value.as_string().empty()) {
    return bad(field, below, "a string that is not empty", value);
  }
  return Spec{.kind = kind, .value = value, .field = std::string(field)};
}

Result<Spec> json_schema_format(std::string_view field, const V& format) {
  const V* wrapped = given(format, "json_schema");
  if (wrapped == nullptr) return invalid(std::string(field), concat(field, ".json_schema is missing"));
  if (!wrapped->is_object()) return bad(field, ".json_schema", "an object", *wrapped);
  const V* name = given(*wrapped, "name");
  if (name == nullptr) return invalid(std::string(field), concat(field, ".json_schema.name is missing"));
  if (!name->is_string() || name->as_string().empty())
    return bad(field, ".json_schema.name", "a string that is not empty", *name);
  if (const V* strict = given(*wrapped, "strict"); strict != nullptr && !strict->is_bool())
    return bad(field, ".json_schema.strict", "true or false", *strict);
  const V* schema = given(*wrapped, "schema");
  if (schema == nullptr) return Spec{.kind = Kind::kJsonObject, .value = {}, .field = std::string(field)};
  if (!schema->is_object() && !schema->is_bool())
    return bad(field, ".json_schema.schema", "an object", *schema);
  return schema_spec(field, ".json_schema.schema", *schema);
}

bool is_empty(const V& value) {
  return value.is_null() || (value.is_string() && value.as_string().empty()) ||
         (value.is_array() && value.as_array().empty()) || (value.is_object() && value.as_object().empty());
}

}  // namespace

Result<MaybeSpec> read_response_format(std::string_view field, const V& value) {
  const V* type = value.find("type");
  if (!value.is_object() || type == nullptr || !type->is_string())
    return invalid(std::string(field), concat(field, " must be an object with a type, got ", shown(value)));
  const std::string& name = type->as_string();
  if (name == "text") return MaybeSpec{};
  if (name == "json_object") {
    const V* schema = given(value, "schema");
    if (schema != nullptr) return schema_spec(field, ".schema", *schema);
    return Spec{.kind = Kind::kJsonObject, .value = {}, .field = std::string(field)};
  }
  if (name == "json_schema") return json_schema_format(field, value);
  if (name == "structural_tag") return tag_spec(field, "", value);
  return invalid(std::string(field), concat(field,
                                            ".type must be \"text\", \"json_object\", \"json_schema\" or "
                                            "\"structural_tag\", got ",
                                            shown(*type)));
}

Result<MaybeSpec> read_structured_outputs(std::string_view field, const V& value) {
  struct Word {
    std::string_view name;
    Kind kind;
  };
  constexpr Word kWords[] = {{"json", Kind::kJsonSchema},        {"regex", Kind::kRegex},
                             {"choice", Kind::kChoice},          {"grammar", Kind::kEbnf},
                             {"json_object", Kind::kJsonObject}, {"structural_tag", Kind::kStructuralTag}};
  if (!value.is_object()) return bad(field, "", "an object", value);
  MaybeSpec out;
  std::string_view first;
  for (const auto& [name, member] : value.as_object()) {
    if (member.is_null()) continue;
    const auto word = std::ranges::find(kWords, std::string_view(name), &Word::name);
    if (word == std::end(kWords)) {
      // Options that change what matches are refused; the others choose between engines.
      const bool off = member.is_bool() && !member.as_bool();
      if (off || name == "disable_fallback" || name == "backend") continue;
      return unsupported(std::string(field), concat(field, ".", name, " is not supported"));
    }
    if (word->kind == Kind::kJsonObject) {
      if (!member.is_bool()) return bad(field, ".json_object", "true or false", member);
      if (!member.as_bool()) continue;
    }
    if (out)
      return invalid(std::string(field), concat(field, " has both ", first, " and ", name, ": give one"));
    first = name;
    if (word->kind == Kind::kJsonObject) {
      out = Spec{.kind = Kind::kJsonObject, .value = {}, .field = std::string(field)};
    } else {
      MET_ASSIGN(out, notation_spec(field, concat(".", name), word->kind, member));
    }
  }
  return out;
}

Result<MaybeSpec> read_notation(std::string_view field, Kind kind, const V& value) {
  if (is_empty(value)) return MaybeSpec{};
  MET_ASSIGN(Spec spec, notation_spec(field, "", kind, value));
  return spec;
}

Result<void> set_grammar(GenerationRequest& request, MaybeSpec spec) {
  if (!spec) return {};
  if (request.grammar)
    return invalid(spec->field, concat(spec->field, " and ", request.grammar->field,
                                       " both say what the text must be: give one"));
  request.grammar = std::move(spec);
  return {};
}

}  // namespace met::api
