#include "core/write_all.h"

#include <unistd.h>

#include <cerrno>

namespace met {

int write_all(int file, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return EIO;
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return 0;
}

}  // namespace met
