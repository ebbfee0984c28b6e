// The TOML file of `--config`, flattened to text values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace met::config {

/// Key and value of each entry, in the file's order; an array gives one entry an element. Errors: kIo, or
/// kInvalidArgument with line and column; tables and dates are refused by name.
Result<std::vector<std::pair<std::string, std::string>>> read_settings_file(const std::string& path);

}  // namespace met::config
