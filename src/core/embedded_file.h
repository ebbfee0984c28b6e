// Files that travel inside the binary; cmake/embed_files.cmake writes their tables.
#pragma once

#include <string_view>

namespace met {

struct EmbeddedFile {
  std::string_view name;  ///< without folders
  std::string_view bytes;
  std::string_view digest;  ///< SHA-256 of the bytes, in hex
};

}  // namespace met
