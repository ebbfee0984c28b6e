// What a metrics page must keep (O1), checked on its text alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace met::telemetry::testing {

/// Faults of `page`, one sentence each; with `before`, an earlier page of the same process, counters must not
/// have fallen.
std::vector<std::string> lint(std::string_view page, std::string_view before = {});

}  // namespace met::telemetry::testing
