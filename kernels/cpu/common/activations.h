// A linear kernel's view of its input rows: gathered, RMS-normalised, and rounded to int8 or kept as f32.
#pragma once

#include "met/ops.h"
#include "packed.h"

namespace {
namespace activations {

/// 32 activations: value = d * q. Non-finite values make d non-finite, and with it every result of the row.
template <class Number>
struct BlockOf {
  float d;
  float total;          ///< d * (sum[0] + sum[1])
  std::int32_t sum[2];  ///< of q's first and last 16
  Number q[32];
};
using Block = BlockOf<std::int8_t>;
/// The same numbers in 16 bits, each four in the order 0, 2, 1, 3: what simd::wide_bytes multiplies.
using WideBlock = BlockOf<std::int16_t>;

/// 1 / sqrt(mean(x^2) + eps). The order of summation is a function of k alone.
inline float inverse_rms(const float* x, std::int64_t k, float eps) {
  using namespace simd;
  Vf sums[4] = {zero(), zero(), zero(), zero()};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= k; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const Vf v = load(x + i + j * kLanes);
      sums[j] = fma(v, v, sums[j]);
    }
  }
  for (; i + kLanes <= k; i += kLanes) {
    const Vf v = load(x + i);
    sums[0] = fma(v, v, sums[0]);
  }
  float total = sum(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
  for (; i < k; ++i) total += x[i] * x[i];
  return 1.0F / simd::square_root(total / static_cast<float>(k) + eps);
}

/// The row that output row r reads.
inline const float* source_row(const met::LinearArgs& args, std::int64_t r) {
  return args.x + (args.gather != nullptr ? args.gather[r] : r) * args.ldx;
}

inline simd::Vf normalised(const met::LinearArgs& args, const float* x, float scale, std::int64_t i) {
  const simd::Vf v = simd::load(x + i);
  if (args.norm_weight == nullptr) return v;
  const simd::Vf w = simd::add(simd::load(args.norm_weight + i), simd::set1(args.norm_offset));
  return simd::mul(simd::mul(v, simd::set1(scale)), w);
}

/// Rounds one row of k values, a multiple of 32.
template <class AnyBlock>
inline void quantise(const met::LinearArgs& args, std::int64_t r, AnyBlock* blocks) {
  using namespace simd;
  constexpr int kVectors = 32 / kLanes;
  const float* x = source_row(args, r);
  const float scale = args.norm_weight != nullptr ? inverse_rms(x, args.k, args.norm_eps) : 1.0F;
  for (std::int64_t b = 0; b < args.k / 32; ++b) {
    Vf v[kVectors];
    Vi largest = izero();  // magnitudes compare as integers, and NaN is the largest
    for (int j = 0; j < kVectors; ++j) {
      v[j] = normalised(args, x, scale, b * 32 + j * kLanes);
      largest = imax(largest, as_int(magnitude(v[j])));
    }
    const float peak = bits_to_float(static_cast<std::uint32_t>(max_lane(largest)));
    const float d = peak / 127.0F;
    const Vf inverse = set1(d > 0.0F ? 127.0F / peak : 0.0F);
    AnyBlock& block = blocks[b];
    Vi halves[2] = {izero(), izero()};
    for (int j = 0; j < kVectors; ++j) {
      const Vi q = to_int(mul(v[j], inverse));
      if constexpr (sizeof block.q[0] == 2)
        store_s16_even_odd(block.q + j * kLanes, q);
      else
        store_s8(block.q + j * kLanes, q);
      halves[2 * j / kVectors] = iadd(halves[2 * j / kVectors], q);
    }
    block.d = d;
    block.sum[0] = sum(halves[0]);
    block.sum[1] = sum(halves[1]);
    block.total = d * static_cast<float>(block.sum[0] + block.sum[1]);
  }
}

/// Keeps one row of k values as f32.
inline void normalise(const met::LinearArgs& args, std::int64_t r, void* to) {
  const float* x = source_row(args, r);
  auto* y = static_cast<float*>(to);
  const float scale = args.norm_weight != nullptr ? inverse_rms(x, args.k, args.norm_eps) : 1.0F;
  std::int64_t i = 0;
  for (; i + simd::kLanes <= args.k; i += simd::kLanes) simd::store(y + i, normalised(args, x, scale, i));
  for (; i < args.k; ++i)
    y[i] = args.norm_weight != nullptr ? x[i] * scale * (args.norm_weight[i] + args.norm_offset) : x[i];
}

}  // namespace activations
}  // namespace
