// Entry points as a source's text declares them.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace met::closure {

/// The text with comments and the contents of string and character literals replaced by blanks; lines stay.
std::string without_comments(std::string_view text);

/// Names in MET_CPU_KERNEL(name, …) and of `__global__` and `kernel` (Metal) functions.
std::set<std::string> entry_points(std::string_view text);

}  // namespace met::closure
