// Keys and values of an E4M3 cache on their way into shared memory: copied as they are, widened to BF16, stored as a bulk
// tensor copy of BF16 would have left them.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "async.cuh"

namespace {

/// Two E4M3 values, in bytes 1 and 3, as BF16, exactly: exponent and mantissa move below the sign, and 2^120 makes up for
/// the exponents' biases; subnormals come right by the same product.
__device__ inline std::uint32_t widen_pair(std::uint32_t spread) {
  constexpr std::uint32_t kSigns = 0x80008000U;
  constexpr std::uint32_t kMagnitudes = 0x07f007f0U;
  constexpr std::uint32_t kTwoTo120 = 0x7b807b80U;
  const std::uint32_t bits = (spread & kSigns) | ((spread >> 4) & kMagnitudes);
  std::uint32_t wide;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(wide) : "r"(bits), "r"(kTwoTo120));
  return wide;
}

/// Four E4M3 values as two words of BF16.
__device__ inline uint2 widen_word(std::uint32_t four) {
  return make_uint2(widen_pair(__byte_perm(four, 0, 0x1404)), widen_pair(__byte_perm(four, 0, 0x3424)));
}

/// Where one thread's sixteen values of a row lie in a tile of slabs of 64 columns with 128-byte swizzle.
struct WidenedPlace {
  std::uint32_t first, second;  // offsets of two units of 16 bytes
  bool swapped;                 // the first unit holds the upper eight values

  /// Chunk `chunk` of row `row`. Chunks of odd slabs go in the other order, so that eight neighbouring lanes meet all
  /// banks.
  __device__ WidenedPlace(int slab_bytes, int row, int chunk) : swapped(chunk / 4 % 2 != 0) {
    const std::uint32_t line = chunk / 4 * slab_bytes + row * 128;
    const int unit = chunk % 4 * 2 + (swapped ? 1 : 0);
    first = line + ((unit ^ (row % 8)) * 16);
    second = line + (((unit ^ 1) ^ (row % 8)) * 16);
  }

  __device__ void store(std::uint32_t tile, uint4 narrow) const {
    const uint2 a = widen_word(narrow.x), b = widen_word(narrow.y), c = widen_word(narrow.z),
                d = widen_word(narrow.w);
    const uint4 low = make_uint4(a.x, a.y, b.x, b.y);
    const uint4 high = make_uint4(c.x, c.y, d.x, d.y);
    shared_store(tile + first, swapped ? high : low);
    shared_store(tile + second, swapped ? low : high);
  }
};

}  // namespace
