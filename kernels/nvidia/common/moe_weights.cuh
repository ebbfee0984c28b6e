// How weights of each type meet x on tensor cores. Four lanes take 16 bytes each of a row of W, kBlock values in all, and
// the values of x beside them: which k meet in a product does not matter as long as both sides agree.
#pragma once

#include <cstdint>

#include "e4m3.cuh"
#include "expert_scales.cuh"
#include "moe_tile.cuh"
#include "vector.cuh"

namespace {

struct Bf16Weights {
  using Element = met::Bf16Bits;
  static constexpr int kUnit = 8;  // values of a lane
  static constexpr int kBlock = 4 * kUnit;
  static constexpr int kXUnits = kUnit / kLanes;  // 16-byte units of x beside them
  static constexpr bool kScaled = false;

  /// A lane's x; zeros at first.
  struct X {
    uint4 v{};
    template <class Load>
    __device__ void set(const Load& load) {
      v = load(0);
    }
  };
  /// A lane's W: of rows g and g + 8.
  struct Rows {
    uint4 low, high;
    __device__ Rows(const uint4& of_low, const uint4& of_high) : low(of_low), high(of_high) {}
    __device__ void multiply(Tile& c, const X& x) const { ::multiply(c, low, high, x.v); }
  };
};

/// Codes become BF16 by moving bits: the value times 2^-120, subnormals included. x is multiplied by 2^64, so that products
/// stay where FP32 is exact; sums times kE4m3Restore are those of the values themselves.
struct E4m3Weights {
  using Element = std::uint8_t;
  static constexpr int kUnit = 16;
  static constexpr int kBlock = 4 * kUnit;
  static constexpr int kXUnits = kUnit / kLanes;
  static constexpr bool kScaled = true;
  static constexpr float kRestore = 0x1p56F;
  static constexpr int kWords = 4;  // of four codes

  /// Of each four values the first and third, and the second and fourth.
  struct Pairs {
    unsigned even = 0;
    unsigned odd = 0;
  };

  struct X {
    Pairs v[kWords];
    template <class Load>
    __device__ void set(const Load& load) {
#pragma unroll
      for (int u = 0; u < kXUnits; ++u) {
        const uint4 unit = load(u);
        v[2 * u] = pairs(unit.x, unit.y);
        v[2 * u + 1] = pairs(unit.z, unit.w);
      }
    }
    static __device__ Pairs pairs(unsigned first, unsigned second) {
      return {raised(__byte_perm(first, second, 0x5410)), raised(__byte_perm(first, second, 0x7632))};
    }
    /// Two BF16 values times 2^64.
    static __device__ unsigned raised(unsigned values) {
      unsigned out;
      asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(values), "r"(0x5f805f80U));
      return out;
    }
  };

  struct Rows {
    Pairs low[kWords], high[kWords];
    __device__ Rows(const uint4& of_low, const uint4& of_high) {
      const unsigned a[kWords] = {of_low.x, of_low.y, of_low.z, of_low.w};
      const unsigned b[kWords] = {of_high.x, of_high.y, of_high.z, of_high.w};
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        low[i] = widened(a[i]);
        high[i] = widened(b[i]);
      }
    }
    static __device__ Pairs widened(unsigned codes) {
      constexpr unsigned kMagnitudes = 0x07f007f0U;
      constexpr unsigned kSigns = 0x80008000U;
      return {((codes << 4) & kMagnitudes) | ((codes << 8) & kSigns),
              ((codes >> 4) & kMagnitudes) | (codes & kSigns)};
    }
    __device__ void multiply(Tile& c, const X& x) const {
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        ::multiply(c, low[i].even, high[i].even, low[i].odd, high[i].odd, x.v[i].even, x.v[i].odd);
    }
  };
};

/// A thread's sums of a tile: `part` is what the products add to.
template <class W>
struct Sums {
  Tile part;
  Tile total;  // of folded parts, where weights have scales

  /// The part is complete; `scales` of rows g and g + 8.
  __device__ void fold(float2 scales) {
    if constexpr (W::kScaled) {
      const float low = scales.x * W::kRestore;
      const float high = scales.y * W::kRestore;
      total.v[0] = fmaf(part.v[0], low, total.v[0]);
      total.v[1] = fmaf(part.v[1], low, total.v[1]);
      total.v[2] = fmaf(part.v[2], high, total.v[2]);
      total.v[3] = fmaf(part.v[3], high, total.v[3]);
      part = {};
    }
  }
  __device__ float4 all() const {
    const Tile& done = W::kScaled ? total : part;
    return make_float4(done.v[0], done.v[1], done.v[2], done.v[3]);
  }
};

}  // namespace
