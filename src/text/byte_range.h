// A part of a text.
#pragma once

#include <cstddef>

namespace met::text {

/// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace met::text
