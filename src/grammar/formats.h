// Formats of JSON Schema strings that are enforced, as patterns.
#pragma once

#include <optional>
#include <string_view>

namespace met::grammar {

/// A pattern whose every match is valid; not every valid text matches.
std::optional<std::string_view> format_pattern(std::string_view name);
/// Defined by JSON Schema, and not enforced.
bool is_standard_format(std::string_view name);

}  // namespace met::grammar
