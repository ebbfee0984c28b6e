// Files that hold secrets.
#pragma once

#include <sys/stat.h>

#include <string>

#include "core/concat.h"
#include "core/log.h"

namespace met::server {

/// One line for a file that other users of the machine can read.
inline void warn_if_others_read(const std::string& path, const char* flag) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if ((status.st_mode & (S_IRGRP | S_IROTH)) != 0)
    log::warn(concat(flag, ": '", path, "' can be read by other users of this machine (chmod 600)"));
}

}  // namespace met::server
