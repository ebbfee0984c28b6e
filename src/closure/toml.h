// TOML text as a JSON value: the tree's files are small, and one value type is enough for all of them.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace met::closure {

/// Errors: kInvalidArgument with `name`, line and column. Dates and times are refused: no file of the tree
/// has any.
Result<json::Value> parse_toml(std::string_view text, const std::string& name);

}  // namespace met::closure
