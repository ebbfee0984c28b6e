// JSON numbers inside bounds, digit by digit.
#pragma once

#include <cstdint>
#include <optional>

#include "core/error.h"
#include "grammar/expr.h"
#include "grammar/shape.h"

namespace met::grammar {

/// Any JSON number, or any integer without exponent.
Node any_number();
Node any_integer();

/// Numbers of `shape`: bounds and multiple_of; integers only where `shape.types` has no kFraction, and where there
/// is a multiple. Bounded numbers have no exponent. Errors: kUnsupported where a multiple and bounds leave too many
/// values to list.
Result<Node> bounded_number(const Shape& shape, Rules& rules);

}  // namespace met::grammar
