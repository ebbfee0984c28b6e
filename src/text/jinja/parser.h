// Tokens to the syntax tree, by Jinja's grammar.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace met::text::jinja {

/// Throws Failure(kSyntax) with line and column.
Tree parse(std::string_view source, const Limits& limits);

}  // namespace met::text::jinja
