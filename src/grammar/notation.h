// From a request's notation to the grammar engine's own.
#pragma once

#include <string>

#include "core/error.h"
#include "grammar/spec.h"
#include "grammar/style.h"

namespace met::grammar {

/// What the engine compiles.
struct Source {
  bool structural_tag = false;
  /// Its rules' marks (Rules::mark) tell of the whole text: no part of it stands outside of a schema's EBNF while one
  /// is in a marked rule.
  bool marked = false;
  std::string text;  ///< EBNF, or the JSON of a structural tag whose schemas became EBNF
};

/// Checks and lowers. `field` of an error is the place below spec.field: "/properties/a", or empty.
Result<Source> lower(const Spec& spec);

/// EBNF of a JSON Schema's documents. Errors name the place in the schema. In another style than JSON: of a call's
/// arguments, so an object; what the style cannot write is an error.
Result<std::string> schema_ebnf(const json::Value& schema, Style style = Style::kJson);

/// EBNF as clients write it: bounded in nesting and rules, without attributes of rules.
Result<> check_ebnf(const std::string& text);

}  // namespace met::grammar
