// Stored numbers of a packed block: 32 k of 16 columns. Group g is k = 4g ... 4g + 3; a vector of 64 bytes
// holds [column][k % 4]. weights(p, g, h): group g of part h of the columns, a byte each; kCheap: in so few
// operations that keeping the bytes for other rows saves nothing.
//
//   Nibbles    4 vectors: group g in the low and group g + 4 in the high half
//   plane      1 vector: bit g of a byte is one more bit of group g
//   TwoBits    2 vectors: groups 0 to 3 in the four bit pairs of the first, 4 to 7 in the second
#pragma once

#include "simd.h"

namespace {
namespace packed {

inline simd::Vi vector(const std::uint8_t* p, int index, int h) {
  return simd::iload(p + index * 64 + h * 4 * simd::kLanes);
}

/// Bits [2 pair, 2 pair + 2) or bit `bit` of every byte, moved to where `mask` picks them.
inline simd::Vi moved(simd::Vi bytes, int from, int to, int mask) {
  const simd::Vi shifted = from > to   ? simd::shift_right16(bytes, from - to)
                           : from < to ? simd::shift_left16(bytes, to - from)
                                       : bytes;
  return simd::iand(shifted, simd::bytes(mask));
}

struct Nibbles {
  static constexpr bool kCheap = true;
  static constexpr int kBytes = 256;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    return moved(vector(p, g % 4, h), g < 4 ? 0 : 4, 0, 0x0F);
  }
};

/// Nibbles, then a plane of fifth bits.
struct FiveBits {
  static constexpr bool kCheap = false;
  static constexpr int kBytes = 256 + 64;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    return simd::ior(Nibbles::weights(p, g, h), moved(vector(p, 4, h), g, 4, 0x10));
  }
};

struct TwoBits {
  static constexpr bool kCheap = false;
  static constexpr int kBytes = 128;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    return moved(vector(p, g / 4, h), g % 4 * 2, 0, 0x03);
  }
};

/// TwoBits, then a plane of third bits.
struct ThreeBits {
  static constexpr bool kCheap = false;
  static constexpr int kBytes = 128 + 64;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    return simd::ior(TwoBits::weights(p, g, h), moved(vector(p, 2, h), g, 2, 0x04));
  }
};

/// Nibbles, then TwoBits of fifth and sixth bits.
struct SixBits {
  static constexpr bool kCheap = false;
  static constexpr int kBytes = 256 + 128;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    return simd::ior(Nibbles::weights(p, g, h), moved(vector(p, 4 + g / 4, h), g % 4 * 2, 4, 0x30));
  }
};

struct Bytes {
  static constexpr bool kCheap = true;
  static constexpr int kBytes = 512;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) { return vector(p, g, h); }
};

/// Nibbles that name one of 16 signed values.
struct Iq4Codes {
  static constexpr bool kCheap = false;
  static constexpr int kBytes = 256;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    static constexpr std::int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};
    return simd::lookup16(simd::table16(kValues), Nibbles::weights(p, g, h));
  }
};

/// Nibbles that name twice an E2M1 value, plus 12.
struct E2m1Codes {
  static constexpr bool kCheap = false;
  static constexpr int kBytes = 256;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    static constexpr std::int8_t kValues[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    return simd::lookup16(simd::table16(kValues), Nibbles::weights(p, g, h));
  }
};

}  // namespace packed
}  // namespace
