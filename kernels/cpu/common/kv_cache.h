// The paged cache's element: f16, or what the source asks for before its includes: MET_KV_F32 (for comparison
// with references: the cache is then no rounding seam), MET_KV_BF16, MET_KV_E4M3, MET_KV_I8.
//
// load_kv gives numbers that are still to be multiplied by kKvFactor and, where kKvScaled, by the position's
// scale: both meet scores and probabilities, of which there are fewer than numbers.
#pragma once

#include "simd.h"

namespace {

constexpr int kKvBlockTokens = 16;

#if defined(MET_KV_F32)
using KvElement = float;
#elif defined(MET_KV_E4M3)
using KvElement = std::uint8_t;
#elif defined(MET_KV_I8)
using KvElement = std::int8_t;
#else
using KvElement = std::uint16_t;
#endif

#if defined(MET_KV_E4M3)
constexpr float kKvFactor = 256.0F;
#else
constexpr float kKvFactor = 1.0F;
#endif

#if defined(MET_KV_I8)
constexpr bool kKvScaled = true;
#else
constexpr bool kKvScaled = false;
#endif

/// Elements of one kv head in a block: numbers, then the f32 scales of its positions.
inline std::int64_t kv_head_elements(int head_dim) {
  return std::int64_t{head_dim} * kKvBlockTokens +
         (kKvScaled ? kKvBlockTokens * sizeof(float) / sizeof(KvElement) : 0);
}
/// The scales of a kv head's block that begins at p.
inline float* kv_scales(KvElement* p, int head_dim) {
  return reinterpret_cast<float*>(p + head_dim * kKvBlockTokens);
}
inline const float* kv_scales(const KvElement* p, int head_dim) {
  return reinterpret_cast<const float*>(p + head_dim * kKvBlockTokens);
}

inline simd::Vf load_kv(const KvElement* p) {
#if defined(MET_KV_F32)
  return simd::load(p);
#elif defined(MET_KV_BF16)
  return simd::load_bf16(p);
#elif defined(MET_KV_E4M3)
  // NaN's codes come as 480 / 256.
  const simd::Vf v = simd::load_e4m3_256th(p);
  return simd::select_less(simd::set1(1.8F), simd::magnitude(v), simd::set1(__builtin_nanf("")), v);
#elif defined(MET_KV_I8)
  return simd::to_float(simd::load_s8(p));
#else
  return simd::load_f16(p);
#endif
}

/// Rounds `count` values, a multiple of 16, to nearest even, of E4M3 after multiplying them by `by`. Returns their scale:
/// non-finite where a value is.
inline float store_kv(const float* from, int count, [[maybe_unused]] float by, KvElement* to) {
  using namespace simd;
#if defined(MET_KV_I8)
  Vi largest = izero();  // magnitudes compare as integers, and NaN is the largest
  for (int i = 0; i < count; i += kLanes) largest = imax(largest, as_int(magnitude(load(from + i))));
  const float peak = bits_to_float(static_cast<std::uint32_t>(max_lane(largest)));
  const float scale = peak / 127.0F;
  const Vf inverse = set1(scale > 0.0F ? 127.0F / peak : 0.0F);
  for (int i = 0; i < count; i += kLanes) store_s8(to + i, to_int(mul(load(from + i), inverse)));
  return scale;
#elif defined(MET_KV_BF16) || defined(MET_KV_E4M3)
  for (int i = 0; i < count; ++i) {
#if defined(MET_KV_BF16)
    const std::uint32_t bits = float_to_bits(from[i]);
#else
    const std::uint32_t bits = float_to_bits(from[i] * by);
#endif
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
#if defined(MET_KV_BF16)
    const std::uint32_t rounded =
        magnitude > 0x7F800000U ? bits | 0x400000U : bits + 0x7FFFU + (bits >> 16U & 1U);
    to[i] = static_cast<KvElement>(rounded >> 16U);
#else
    std::uint32_t code = 0x7E;  // 448, which takes in what is greater
    if (magnitude > 0x7F800000U)
      code = 0x7F;
    else if (magnitude < 0x3C800000U)  // subnormal, below 2^-6: adding 2^14 rounds at 2^-9
      code = float_to_bits(bits_to_float(magnitude) + 16384.0F) - 0x46800000U;
    else if (magnitude < 0x43E00000U)
      code = (magnitude + 0x7FFFFU + (magnitude >> 20U & 1U) - 0x3C000000U) >> 20U;
    to[i] = static_cast<KvElement>(code | (bits >> 24U & 0x80U));
#endif
  }
  return 1.0F;
#else
  for (int i = 0; i < count; i += kLanes) {
#if defined(MET_KV_F32)
    store(to + i, load(from + i));
#else
    store_f16(to + i, load(from + i));
#endif
  }
  return 1.0F;
#endif
}

}  // namespace
