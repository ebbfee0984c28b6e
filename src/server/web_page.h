// The files of the web page at "/", embedded at build time.
#pragma once

#include <span>

#include "core/embedded_file.h"

namespace met::server {

std::span<const EmbeddedFile> page_files();

}  // namespace met::server
