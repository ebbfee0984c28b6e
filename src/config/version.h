// The version that `met --version`, /version and the metrics page tell.
#pragma once

#include <string_view>

namespace met::config {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace met::config
