// Fragments of mma.sync m16n8k16 as decode attention fills them, straight from paged keys and values in global memory.
//
// S[16 heads, 8 tokens] += Q[16 heads, d] K^T[d, 8 tokens];  O^T[d, 8 heads] += V^T[d, 16 tokens] P^T[16 tokens, 8 heads].
// Where S leaves a value is where P^T wants it. Both sums run over indices whose order is free, and rows of O^T may be any
// dimensions, so the assignment of dimensions to fragments is chosen such that a lane's part of a row lies in few whole
// vectors: no shared memory, keys are fragments as they were loaded, values take one byte permutation a register.
//
// Lane = 4 g + t. Keys: lane reads tokens g and g + 8, of every 4 * kKeyVector bytes those from t * kKeyVector on.
// Values: tokens 2t, 2t + 1, 2t + 8, 2t + 9, of every 8 * kValueVector bytes those from g * kValueVector on.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace {

constexpr int kBlockTokens = 16;  // of a cache block

// ---- what a cache holds, and the 16-bit type that the tensor cores see ----

struct Bf16Cache {
  static constexpr int kBytes = 2;
  __device__ static std::uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  __device__ static void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  /// Two neighbouring values as the cache stores them.
  __device__ static std::uint16_t store(float v, float) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
  using Stored = std::uint16_t;
};

struct E4m3Cache {
  static constexpr int kBytes = 1;
  __device__ static std::uint32_t pack(float low, float high) {
    constexpr float kMost = 65504.0F;
    const __half2 pair =
        __floats2half2_rn(fminf(fmaxf(low, -kMost), kMost), fminf(fmaxf(high, -kMost), kMost));
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  __device__ static void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  __device__ static std::uint8_t store(float v, float inverse_scale) {
    return __nv_cvt_float_to_fp8(v * inverse_scale, __NV_SATFINITE, __NV_E4M3);
  }
  using Stored = std::uint8_t;
};

/// Two E4M3 values, exact as F16.
__device__ inline std::uint32_t widen(std::uint32_t two) {
  std::uint32_t wide;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide) : "h"(static_cast<std::uint16_t>(two)));
  return wide;
}

// ---- loads ----

/// Bytes of one load, the widest that divides what a lane reads of a row.
constexpr int vector_bytes(int bytes) {
  return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
}
constexpr int at_least_one(int n) { return n > 0 ? n : 1; }

/// Streams from memory: read once, neighbours fetched into the second-level cache with it.
template <int Bytes>
__device__ inline void load_stream(std::uint32_t* words, const void* at) {
  if constexpr (Bytes == 16)
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(at));
  else if constexpr (Bytes == 8)
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v2.u32 {%0,%1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "l"(at));
  else if constexpr (Bytes == 4)
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u32 %0, [%1];" : "=r"(words[0]) : "l"(at));
  else
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=r"(words[0]) : "l"(at));
}

template <int Bytes>
__device__ inline void load_shared(std::uint32_t* words, const void* at) {
  if constexpr (Bytes == 2) {
    words[0] = *static_cast<const std::uint16_t*>(at);
  } else {
#pragma unroll
    for (int i = 0; i < Bytes / 4; ++i) words[i] = static_cast<const std::uint32_t*>(at)[i];
  }
}

/// Where the values of head size `D` lie in the fragments of a lane. Of the vectors of a key, 16 bytes each, a lane takes every
/// fourth, so that lanes read neighbours, or `Paired` two neighbours of every eight, so that eight lanes that read two rows
/// at once out of swizzled shared memory meet in no bank.
template <class Cache, int D, bool Paired>
struct Layout {
  static constexpr int kRowBytes = D * Cache::kBytes;
  static constexpr int kSteps = D / 16;  // products over the dimensions of a key
  static constexpr int kRows = D / 16;   // 16-row tiles of O^T
  static constexpr int kKeyVector = vector_bytes(kRowBytes / 4);
  static constexpr int kKeyVectors = kRowBytes / 4 / kKeyVector;
  static constexpr int kKeyWords = kRowBytes / 16;
  static constexpr int kValueVector = vector_bytes(kRowBytes / 8);
  static constexpr int kValueVectors = kRowBytes / 8 / kValueVector;
  static constexpr int kValueWords = at_least_one(kRowBytes / 32);

  static_assert(!Paired || kKeyVector == 16);

  /// Which vector of a row is vector v of lane t.
  __device__ static int key_unit(int v, int t) { return Paired ? v / 2 * 8 + 2 * t + v % 2 : v * 4 + t; }
  /// The lane that holds a dimension, and of which product.
  struct KeyPlace {
    int t, step;
  };
  __device__ static KeyPlace key_place(int d) {
    constexpr int kElements = kKeyVector / Cache::kBytes;
    const int unit = d / kElements;
    const int t = Paired ? unit % 8 / 2 : unit % 4;
    const int v = Paired ? unit / 8 * 2 + unit % 2 : unit / 4;
    return {t, v * (kElements / 4) + d % kElements / 4};
  }
  /// First of the two neighbouring dimensions that lane g holds of row tile `tile`: rows g and g + 8 of it.
  __device__ static int value_dim(int tile, int g) {
    constexpr int kElements = kValueVector / Cache::kBytes;
    return tile / (kElements / 2) * 8 * kElements + g * kElements + tile % (kElements / 2) * 2;
  }
  __device__ static int value_token(int i, int t) { return 2 * t + i % 2 + i / 2 * 8; }
};

/// One block of 16 keys or values of a head, in registers.
template <class Cache, int D, bool Paired>
struct KeyBlock {
  using L = Layout<Cache, D, Paired>;
  std::uint32_t words[2][L::kKeyWords];  // tokens g and g + 8

  // Vectors of a lane, as they are loaded.
  static constexpr int kVectors = 2 * L::kKeyVectors;
  __device__ std::uint32_t* vector(int i) {
    return words[i / L::kKeyVectors] + i % L::kKeyVectors * (L::kKeyVector / 4);
  }
  /// Row and vector of it that vector i of a lane is.
  __device__ static int row(int i, int lane) { return lane / 4 + i / L::kKeyVectors * 8; }
  __device__ static int unit(int i, int lane) { return L::key_unit(i % L::kKeyVectors, lane % 4); }
  __device__ void load(const char* block, int lane) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      load_stream<L::kKeyVector>(vector(i),
                                 block + row(i, lane) * L::kRowBytes + unit(i, lane) * L::kKeyVector);
  }
  /// Takes token `token` of the block from shared memory.
  __device__ void replace(int token, const char* key, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (lane / 4 + 8 * half == token)
#pragma unroll
        for (int v = 0; v < L::kKeyVectors; ++v)
          load_shared<L::kKeyVector>(words[half] + v * (L::kKeyVector / 4),
                                     key + L::key_unit(v, lane % 4) * L::kKeyVector);
  }
  /// Of eight tokens: which half of the block.
  __device__ uint2 fragment(int half, int step) const {
    if constexpr (Cache::kBytes == 2)
      return make_uint2(words[half][2 * step], words[half][2 * step + 1]);
    else
      return make_uint2(widen(words[half][step] & 0xffffU), widen(words[half][step] >> 16));
  }
};

template <class Cache, int D>
struct ValueBlock {
  using L = Layout<Cache, D, false>;
  std::uint32_t words[4][L::kValueWords];  // tokens value_token(0 … 3)

  static constexpr int kVectors = 4 * L::kValueVectors;
  __device__ std::uint32_t* vector(int i) {
    return words[i / L::kValueVectors] + i % L::kValueVectors * (L::kValueVector / 4);
  }
  __device__ static int row(int i, int lane) { return L::value_token(i / L::kValueVectors, lane % 4); }
  __device__ static int unit(int i, int lane) { return i % L::kValueVectors * 8 + lane / 4; }
  __device__ void load(const char* block, int lane) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      load_stream<L::kValueVector>(vector(i),
                                   block + row(i, lane) * L::kRowBytes + unit(i, lane) * L::kValueVector);
  }
  /// Takes token `token` from shared memory; tokens outside [from, token] become zero.
  __device__ void trim(int from, int token, const char* value, int lane) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int own = L::value_token(i, lane % 4);
      if (own == token) {
#pragma unroll
        for (int v = 0; v < L::kValueVectors; ++v)
          load_shared<L::kValueVector>(words[i] + v * (L::kValueVector / 4),
                                       value + v * 8 * L::kValueVector + lane / 4 * L::kValueVector);
      } else if (own < from || own > token) {
#pragma unroll
        for (int w = 0; w < L::kValueWords; ++w) words[i][w] = 0;
      }
    }
  }
  __device__ void fragment(int tile, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (Cache::kBytes == 2) {
        a[2 * half] = __byte_perm(words[2 * half][tile], words[2 * half + 1][tile], 0x5410);
        a[2 * half + 1] = __byte_perm(words[2 * half][tile], words[2 * half + 1][tile], 0x7632);
      } else {
        const std::uint32_t pairs = __byte_perm(words[2 * half][tile / 2], words[2 * half + 1][tile / 2],
                                                tile % 2 == 0 ? 0x5140 : 0x7362);
        a[2 * half] = widen(pairs & 0xffffU);
        a[2 * half + 1] = widen(pairs >> 16);
      }
    }
  }
};

}  // namespace
