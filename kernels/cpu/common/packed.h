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
//
// A format is its numbers (quants.h) and its scales (here): a tile is super-blocks of kSuperBlocks blocks,
// the super-block's scales first; a block is its scales, then its numbers.
#pragma once

#include "quants.h"
#include "simd.h"

namespace {
namespace packed {

constexpr int kColumns = 16;
constexpr int kParts = kColumns / simd::kLanes;
constexpr int kBlock = 32;

struct PackedAt {
  const std::uint8_t* super;
  const std::uint8_t* block;
};

inline simd::Vf halves(const std::uint8_t* p, int h) {
  return simd::load_f16(reinterpret_cast<const std::uint16_t*>(p) + h * simd::kLanes);
}
inline simd::Vf unsigned_bytes(const std::uint8_t* p, int h) {
  return simd::to_float(simd::load_u8(p + h * simd::kLanes));
}
inline simd::Vf signed_bytes(const std::uint8_t* p, int h) {
  return simd::to_float(simd::load_s8(reinterpret_cast<const std::int8_t*>(p) + h * simd::kLanes));
}

/// One f16 scale a block.
struct HalfScale {
  static constexpr int kSuperBlocks = 1, kSuperBytes = 0, kBytes = 32, kSubs = 1;
  static constexpr bool kMin = false, kCheap = true;
  static simd::Vf scale(PackedAt at, int h, int) { return halves(at.block, h); }
};
/// One f16 scale, then one f16 minimum.
struct HalfScaleMin {
  static constexpr int kSuperBlocks = 1, kSuperBytes = 0, kBytes = 64, kSubs = 1;
  static constexpr bool kMin = true, kCheap = true;
  static simd::Vf scale(PackedAt at, int h, int) { return halves(at.block, h); }
  static simd::Vf minimum(PackedAt at, int h, int) { return halves(at.block + 32, h); }
};
/// Q4_K, Q5_K: f16 d and dmin of 8 blocks; a block's 6-bit scale and minimum, a byte each.
struct ByteScaleMin {
  static constexpr int kSuperBlocks = 8, kSuperBytes = 64, kBytes = 32, kSubs = 1;
  static constexpr bool kMin = true, kCheap = false;
  static simd::Vf scale(PackedAt at, int h, int) {
    return simd::mul(halves(at.super, h), unsigned_bytes(at.block, h));
  }
  static simd::Vf minimum(PackedAt at, int h, int) {
    return simd::mul(simd::sub(simd::zero(), halves(at.super + 32, h)), unsigned_bytes(at.block + 16, h));
  }
};
/// Q2_K: f16 d and dmin of 8 blocks; for each 16 k one byte, scale in its low and minimum in its high half.
struct NibbleScaleMin {
  static constexpr int kSuperBlocks = 8, kSuperBytes = 64, kBytes = 32, kSubs = 2;
  static constexpr bool kMin = true, kCheap = false;
  static simd::Vi both(PackedAt at, int h, int sub) {
    return simd::load_u8(at.block + 16 * sub + h * simd::kLanes);
  }
  static simd::Vf scale(PackedAt at, int h, int sub) {
    return simd::mul(halves(at.super, h), simd::to_float(simd::iand(both(at, h, sub), simd::iset1(15))));
  }
  static simd::Vf minimum(PackedAt at, int h, int sub) {
    return simd::mul(simd::sub(simd::zero(), halves(at.super + 32, h)),
                     simd::to_float(simd::shift_right16(both(at, h, sub), 4)));
  }
};
/// Q3_K, Q6_K: f16 d of 8 blocks; a signed byte for each 16 k. IQ4_XS: for each 32.
template <int Subs>
struct SignedScale {
  static constexpr int kSuperBlocks = 8, kSuperBytes = 32, kBytes = 16 * Subs, kSubs = Subs;
  static constexpr bool kMin = false, kCheap = false;
  static simd::Vf scale(PackedAt at, int h, int sub) {
    return simd::mul(halves(at.super, h), signed_bytes(at.block + 16 * sub, h));
  }
};
/// MXFP4: a power of two, 2^(e - 128), for numbers that are stored doubled.
struct PowerScale {
  static constexpr int kSuperBlocks = 1, kSuperBytes = 0, kBytes = 16, kSubs = 1;
  static constexpr bool kMin = false, kCheap = false;
  static simd::Vf scale(PackedAt at, int h, int) {
    const simd::Vi exponent = simd::shift_left32(simd::load_u8(at.block + h * simd::kLanes), 23);
    // 2^(e - 127); e = 0 is the subnormal 2^-127.
    return simd::mul(simd::as_float(simd::imax(exponent, simd::iset1(0x00400000))), simd::set1(0.5F));
  }
};

template <class Quants, class Scales, int Offset, int Depth>
struct Format {
  static constexpr bool kMin = Scales::kMin;
  static constexpr int kOffset = Offset;
  static constexpr int kDepth = Depth;
  static constexpr int kSubs = Scales::kSubs;
  static constexpr bool kCheap = Quants::kCheap && Scales::kCheap;
  using At = PackedAt;
  /// Parts of the columns, and those multiplied together so that they share each broadcast of activations:
  /// AVX2's 16 registers hold the 16-bit sums of four rows and two parts, Arm's 32 the sums of as many.
  static constexpr int kParts = packed::kParts;
  static constexpr int kPartsAtOnce = kParts == 2 || simd::kSignedProducts ? 2 : 1;
  static constexpr int kBlockBytes = Scales::kBytes + Quants::kBytes;
  static constexpr int kSuperBytes = Scales::kSuperBytes + Scales::kSuperBlocks * kBlockBytes;

  static std::size_t tile_bytes(std::int64_t k) {
    return static_cast<std::size_t>(k / (kBlock * Scales::kSuperBlocks)) * kSuperBytes;
  }
  static At at(const std::uint8_t* tile, std::int64_t b) {
    const std::uint8_t* super = tile + b / Scales::kSuperBlocks * kSuperBytes;
    return {super, super + Scales::kSuperBytes + b % Scales::kSuperBlocks * kBlockBytes};
  }
  static simd::Vi weights(At at, int g, int h) { return Quants::weights(at.block + Scales::kBytes, g, h); }
  template <bool Odd>
  static simd::Vi wide(At at, int g, int h) {
    return simd::wide_bytes<Odd>(weights(at, g, h));
  }
  static simd::Vf scale(At at, int h, int sub) { return Scales::scale(at, h, sub); }
  static simd::Vf minimum(At at, int h, int sub) { return Scales::minimum(at, h, sub); }

  static void column(At at, int c, float* out) {
    const int h = c / simd::kLanes;
    const int lane = c % simd::kLanes;
    float scales[kSubs];
    float minima[kSubs] = {};
    for (int sub = 0; sub < kSubs; ++sub) {
      alignas(64) float lanes[simd::kLanes];
      simd::store(lanes, scale(at, h, sub));
      scales[sub] = lanes[lane];
      if constexpr (kMin) {
        simd::store(lanes, minimum(at, h, sub));
        minima[sub] = lanes[lane];
      }
    }
    for (int g = 0; g < kBlock / 4; ++g) {
      alignas(64) std::uint8_t bytes[4 * simd::kLanes];
      simd::istore(bytes, weights(at, g, h));
      const int sub = g * kSubs / 8;
      for (int i = 0; i < 4; ++i) {
        const int stored = bytes[4 * lane + i];
        const int value = Depth == 0 ? static_cast<std::int8_t>(stored) : stored - Offset;
        out[4 * g + i] = static_cast<float>(value) * scales[sub] + minima[sub];
      }
    }
  }
};

/// Blocks of `Tiles` tiles side by side, with a byte (signed, where simd::kWideSigned: 16 bits)
/// for each number and f32 for each scale.
template <class F, int Tiles>
struct Unpacked {
  static constexpr bool kMin = F::kMin;
  static constexpr int kOffset = F::kOffset;
  static constexpr int kDepth = F::kDepth;
  static constexpr int kSubs = F::kSubs;
  static constexpr int kColumns = packed::kColumns * Tiles;
  static constexpr int kParts = packed::kParts * Tiles;
  static constexpr int kPartsAtOnce = F::kPartsAtOnce * Tiles;
  static constexpr bool kWide = kDepth == 0 && simd::kWideSigned;
  struct Block {
    alignas(64) std::uint8_t numbers[kBlock / (kWide ? 2 : 4)][4 * kColumns];
    float scale[kSubs][kColumns];
    float minimum[kMin ? kSubs : 0][kColumns];
  };
  using At = const Block*;

  static void unpack(typename F::At at, int tile, Block& to) {
#pragma GCC unroll 4
    for (int part = 0; part < packed::kParts; ++part) {
      const int h = tile * packed::kParts + part;
#pragma GCC unroll 8
      for (int g = 0; g < kBlock / 4; ++g) {
        if constexpr (kWide) {
          simd::istore(to.numbers[2 * g] + 4 * h * simd::kLanes, F::template wide<false>(at, g, part));
          simd::istore(to.numbers[2 * g + 1] + 4 * h * simd::kLanes, F::template wide<true>(at, g, part));
        } else {
          simd::istore(to.numbers[g] + 4 * h * simd::kLanes, F::weights(at, g, part));
        }
      }
      for (int sub = 0; sub < kSubs; ++sub) {
        simd::store(to.scale[sub] + h * simd::kLanes, F::scale(at, part, sub));
        if constexpr (kMin) simd::store(to.minimum[sub] + h * simd::kLanes, F::minimum(at, part, sub));
      }
    }
  }
  static simd::Vi weights(At at, int g, int h) { return simd::iload(at->numbers[g] + 4 * h * simd::kLanes); }
  template <bool Odd>
  static simd::Vi wide(At at, int g, int h) {
    return simd::iload(at->numbers[2 * g + Odd] + 4 * h * simd::kLanes);
  }
  static simd::Vf scale(At at, int h, int sub) { return simd::load(at->scale[sub] + h * simd::kLanes); }
  static simd::Vf minimum(At at, int h, int sub) { return simd::load(at->minimum[sub] + h * simd::kLanes); }
};

using Q4_0 = Format<Nibbles, HalfScale, 8, 8>;
using Q4_1 = Format<Nibbles, HalfScaleMin, 0, 8>;
using Q5_0 = Format<FiveBits, HalfScale, 16, 4>;
using Q5_1 = Format<FiveBits, HalfScaleMin, 0, 4>;
using Q8_0 = Format<Bytes, HalfScale, 0, 0>;
using Q2_K = Format<TwoBits, NibbleScaleMin, 0, 8>;
using Q3_K = Format<ThreeBits, SignedScale<2>, 4, 8>;
using Q4_K = Format<Nibbles, ByteScaleMin, 0, 8>;
using Q5_K = Format<FiveBits, ByteScaleMin, 0, 4>;
using Q6_K = Format<SixBits, SignedScale<2>, 32, 2>;
using IQ4_NL = Format<Iq4Codes, HalfScale, 0, 0>;
using IQ4_XS = Format<Iq4Codes, SignedScale<1>, 0, 0>;
using MXFP4 = Format<E2m1Codes, PowerScale, 12, 4>;

}  // namespace packed
}  // namespace
