// Packed weights: the block of each format, as src/ops/linear/linear_pack.h describes the whole. A format
// says where a block of 32 k of 16 columns lies and what its bytes mean:
//
//   at(tile, b)           block b of a tile
//   weights(at, g, h)     k = 4g ... 4g + 3 of kLanes columns, part h of the 16, as bytes
//   scale(at, h, sub)     f32 scales of those columns; sub counts groups of 32 / kSubs k
//   minimum(at, h, sub)   with kMin: what is added to every weight
//   column(at, c, out)    the 32 weights of column c
//   kOffset               is subtracted from every stored number
//   kDepth                that many groups of byte products fit 16 bits; 0: signed bytes, nothing may be
//   added
#pragma once

#include "simd.h"

namespace {
namespace packed {

constexpr int kColumns = 16;
constexpr int kParts = kColumns / simd::kLanes;
constexpr int kBlock = 32;

/// 16 f16 numbers.
constexpr int kHalves = 2 * kColumns;

inline float half(const std::uint8_t* p) {
  alignas(64) std::uint16_t bits[simd::kLanes] = {};
  alignas(64) float values[simd::kLanes];
  std::memcpy(bits, p, 2);
  simd::store(values, simd::load_f16(bits));
  return values[0];
}
inline simd::Vf halves(const std::uint8_t* p, int part) {
  return simd::load_f16(reinterpret_cast<const std::uint16_t*>(p) + part * simd::kLanes);
}

/// Nibbles: byte [g % 4][column][k % 4] holds group g in its low and group g + 4 in its high half.
struct Nibbles {
  static constexpr int kBytes = 256;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    const simd::Vi both = simd::iload(p + (g % 4) * 64 + h * 4 * simd::kLanes);
    return simd::iand(g < 4 ? both : simd::shift_right16<4>(both), simd::bytes(0x0F));
  }
  static int weight(const std::uint8_t* p, int k, int c) {
    const int byte = p[k / 4 % 4 * 64 + c * 4 + k % 4];
    return k < 16 ? byte & 15 : byte >> 4;
  }
};

/// Bytes: [g][column][k % 4].
struct Bytes {
  static constexpr int kBytes = 512;
  static simd::Vi weights(const std::uint8_t* p, int g, int h) {
    return simd::iload(p + g * 64 + h * 4 * simd::kLanes);
  }
  static int weight(const std::uint8_t* p, int k, int c) { return p[k / 4 * 64 + c * 4 + k % 4]; }
};

/// Formats of one f16 scale a block: scales, then minima where Min, then Quants.
template <class Quants, bool Min, int Offset, int Depth>
struct Block32 {
  static constexpr bool kMin = Min;
  static constexpr int kOffset = Offset;
  static constexpr int kDepth = Depth;
  static constexpr int kSubs = 1;
  static constexpr int kHead = Min ? 2 * kHalves : kHalves;
  static constexpr int kBlockBytes = kHead + Quants::kBytes;
  using At = const std::uint8_t*;

  static std::size_t tile_bytes(std::int64_t k) { return static_cast<std::size_t>(k / kBlock) * kBlockBytes; }
  static At at(const std::uint8_t* tile, std::int64_t b) { return tile + b * kBlockBytes; }
  static simd::Vi weights(At at, int g, int h) { return Quants::weights(at + kHead, g, h); }
  static simd::Vf scale(At at, int h, int) { return halves(at, h); }
  static simd::Vf minimum(At at, int h, int) { return halves(at + kHalves, h); }
  static void column(At at, int c, float* out) {
    const float d = half(at + 2 * c);
    const float m = Min ? half(at + kHalves + 2 * c) : 0.0F;
    for (int k = 0; k < kBlock; ++k) {
      const int q = Quants::weight(at + kHead, k, c);
      const int value = Depth == 0 ? static_cast<std::int8_t>(q) : q - Offset;
      out[k] = static_cast<float>(value) * d + m;
    }
  }
};

using Q4_0 = Block32<Nibbles, false, 8, 8>;
using Q4_1 = Block32<Nibbles, true, 0, 8>;
using Q8_0 = Block32<Bytes, false, 0, 0>;

}  // namespace packed
}  // namespace
