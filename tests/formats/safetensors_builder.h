// Writes safetensors bytes for tests.
#pragma once

#include <string>
#include <string_view>

#include "tests/formats/gguf_builder.h"

namespace met::testing {

inline std::string safetensors(std::string_view header, std::string_view data) {
  return Bytes().put<std::uint64_t>(header.size()).raw(header).raw(data).str();
}

}  // namespace met::testing
