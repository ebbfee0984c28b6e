// Structural tags: free text with parts that must match. docs/grammar.md lists the formats.
#pragma once

#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "grammar/notation.h"

namespace met::grammar {

/// Checks the tag and replaces each schema and pattern in it by EBNF.
Result<Source> lower_structural_tag(const json::Value& tag);

/// Whether a string outside schemas and grammars holds `spelling`: begins, ends, triggers, constants, tokens.
bool names_token(const json::Value& tag, std::string_view spelling);

}  // namespace met::grammar
