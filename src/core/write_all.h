// A file descriptor takes all bytes or says why not.
#pragma once

#include <cstddef>

namespace met {

/// Writes on after a signal and after a part. Returns 0, or the errno of the call that failed; what was written before
/// stays.
int write_all(int file, const void* data, std::size_t bytes);

}  // namespace met
