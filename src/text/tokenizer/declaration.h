// Reading the members of tokenizer.json with errors that name them.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "text/tokenizer/regex.h"

namespace met::text {

/// The member "type" of a declaration.
inline Result<std::string> type_of(const json::Value& declaration, std::string_view what) {
  const json::Value* type = declaration.find("type");
  if (type == nullptr || !type->is_string())
    return invalid(std::string(what), "expected an object with a string member 'type', found " +
                                          std::string(declaration.type_name()));
  return type->as_string();
}

inline Result<bool> bool_of(const json::Value& declaration, std::string_view key, bool absent) {
  const json::Value* v = declaration.find(key);
  if (v == nullptr || v->is_null()) return absent;
  if (!v->is_bool())
    return invalid(std::string(key), "expected a boolean, found " + std::string(v->type_name()));
  return v->as_bool();
}

inline Result<std::string> string_of(const json::Value& declaration, std::string_view key,
                                     std::string absent) {
  const json::Value* v = declaration.find(key);
  if (v == nullptr || v->is_null()) return absent;
  if (!v->is_string())
    return invalid(std::string(key), "expected a string, found " + std::string(v->type_name()));
  return v->as_string();
}

inline Result<std::int64_t> int_of(const json::Value& declaration, std::string_view key,
                                   std::int64_t absent) {
  const json::Value* v = declaration.find(key);
  if (v == nullptr || v->is_null()) return absent;
  if (!v->is_int())
    return invalid(std::string(key), "expected an integer, found " + std::string(v->type_name()));
  return v->as_int();
}

inline Result<const json::Array*> array_of(const json::Value& declaration, std::string_view key) {
  const json::Value* v = declaration.find(key);
  if (v == nullptr || !v->is_array())
    return invalid(std::string(key),
                   "expected an array, found " + (v == nullptr ? "nothing" : std::string(v->type_name())));
  return &v->as_array();
}

/// The member "pattern": {"String": ...} or {"Regex": ...}.
inline Result<Regex> pattern_of(const json::Value& declaration) {
  const json::Value* pattern = declaration.find("pattern");
  if (pattern != nullptr) {
    if (const json::Value* text = pattern->find("String"); text != nullptr && text->is_string())
      return Regex::literal(text->as_string());
    if (const json::Value* text = pattern->find("Regex"); text != nullptr && text->is_string())
      return Regex::compile(text->as_string());
  }
  return invalid("pattern", "expected {\"String\": ...} or {\"Regex\": ...}");
}

}  // namespace met::text
