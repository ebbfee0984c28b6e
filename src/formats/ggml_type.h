// The ggml tensor types by their number in a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace met::formats {

struct GgmlType {
  std::string_view name;
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
  std::optional<DType> dtype;  ///< absent: met does not compute with it
};

/// Type of a number, or nullptr when no file of a known ggml version holds it.
const GgmlType* ggml_type(std::uint32_t number);

}  // namespace met::formats
