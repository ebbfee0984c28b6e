// Products of 16 x 8 on tensor cores whose operands come straight from rows in memory.
#pragma once

#include "vector.cuh"

namespace {

constexpr int kStep = 32;  // of k: a 16-byte load of each thread of four

/// The part of a 16 x 8 product that a thread holds: rows g and g + 8, columns 2 q and 2 q + 1; g = lane / 4, q = lane % 4.
/// v[0], v[1] are of row g.
struct Tile {
  float v[4] = {};
};

__device__ inline void multiply(Tile& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// Adds 32 of k: each thread has the 8 neighbouring values at 8 q of rows g and g + 8 of the first operand and of row g of
/// the second. Which k meet in a product does not matter as long as both sides agree.
__device__ inline void multiply(Tile& c, const uint4& low, const uint4& high, const uint4& other) {
  multiply(c, low.x, high.x, low.y, high.y, other.x, other.y);
  multiply(c, low.z, high.z, low.w, high.w, other.z, other.w);
}

/// Rises with the value.
__device__ inline unsigned key_of(float value) {
  const unsigned bits = __float_as_uint(value + 0.0F);
  return bits ^ (bits & 0x80000000U ? 0xffffffffU : 0x80000000U);
}

/// The value of a key.
__device__ inline float value_of_key(unsigned key) {
  return __uint_as_float(key & 0x80000000U ? key ^ 0x80000000U : ~key);
}

/// A token's choice, one for each of the first top_k lanes.
struct Chosen {
  int expert;
  float weight;
};

/// One token's experts, by a warp: of equal logits the lower expert. `logit` gives an expert's. At most 32 * Each experts,
/// top_k <= 32.
template <int Each, class Logit>
__device__ inline Chosen choose_row(const Logit& logit, int experts, int top_k, bool renormalise) {
  constexpr unsigned kAll = 0xffffffffU;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  unsigned keys[Each] = {};  // 0: none, or taken
#pragma unroll
  for (int i = 0; i < Each; ++i)
    if (lane + i * kWarp < experts) keys[i] = max(key_of(logit(lane + i * kWarp)), 1U);
  unsigned greatest = 0;
  float total = 0;
  unsigned own = 0;  // of this lane's choice
  Chosen chosen{0, 0.0F};
#pragma unroll 1
  for (int j = 0; j < top_k; ++j) {
    unsigned best = 0;
    int at = 0;
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      if (i * kWarp >= experts) break;
      if (keys[i] <= best) continue;
      best = keys[i];
      at = i;
    }
    const unsigned key = __reduce_max_sync(kAll, best);
    const auto expert = static_cast<int>(
        __reduce_min_sync(kAll, best == key ? static_cast<unsigned>(lane + at * kWarp) : kAll));
    if (j == 0) {
      greatest = key;
#pragma unroll
      for (int i = 0; i < Each; ++i)
        if (!renormalise && keys[i] != 0) total += __expf(value_of_key(keys[i]) - value_of_key(greatest));
    }
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      if (i * kWarp >= experts) break;
      if (expert == lane + i * kWarp) keys[i] = 0;
    }
    if (lane != j) continue;
    own = key;
    chosen.expert = expert;
  }
  const float p = lane < top_k ? __expf(value_of_key(own) - value_of_key(greatest)) : 0.0F;
  chosen.weight = __fdividef(p, warp_sum(renormalise ? p : total));
  return chosen;
}

/// Logits in memory, written by other blocks.
struct StoredLogits {
  const float* row;
  __device__ float operator()(int expert) const { return __ldcg(row + expert); }
};

}  // namespace
