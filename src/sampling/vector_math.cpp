#include "sampling/vector_math.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace met::sampling {

namespace {

constexpr std::size_t kLanes = 8;
typedef float Lanes __attribute__((vector_size(32)));
typedef std::int32_t IntLanes __attribute__((vector_size(32)));

#define MET_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define MET_AVX2 __attribute__((target("avx2")))
#endif

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSmallest = -87.0F;  // exp of less is below the normal floats

MET_INLINE void load(Lanes& v, const float* from) { std::memcpy(&v, from, sizeof v); }

/// e^x for x <= 0: x = n ln 2 + r, e^r by the polynomial of Cephes' expf (Moshier), 2^n by the exponent bits.
MET_INLINE void exp_lanes(Lanes& x) {
  const IntLanes negligible = x < kSmallest;
  const Lanes y = x * 1.44269504088896341F;
  const Lanes shifted = y + 12582912.0F;  // 1.5 * 2^23: rounds to the nearest integer
  const Lanes n = shifted - 12582912.0F;
  // ln 2 in two parts, so that the product with n is exact.
  const Lanes r = (x - n * 0.693359375F) + n * 2.12194440054690583e-4F;
  Lanes p = Lanes{} + 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  IntLanes bits;
  std::memcpy(&bits, &p, sizeof bits);
  IntLanes exponent;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;
  bits &= ~negligible;
  std::memcpy(&x, &bits, sizeof x);
}

MET_INLINE RowScan scan_body(const float* row, std::size_t size) {
  Lanes max = Lanes{} - kInfinity;
  IntLanes nan = {};
  IntLanes infinite = {};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Lanes v;
    load(v, row + i);
    nan |= v != v;
    const IntLanes positive = v == kInfinity;
    infinite |= positive;
    const IntLanes larger = (v > max) & ~positive;
    max = larger ? v : max;
  }
  RowScan out{-kInfinity, false, false};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    out.max = max[lane] > out.max ? max[lane] : out.max;
    out.has_nan = out.has_nan || nan[lane] != 0;
    out.has_positive_infinity = out.has_positive_infinity || infinite[lane] != 0;
  }
  for (; i < size; ++i) {
    const float v = row[i];
    out.has_nan = out.has_nan || v != v;
    out.has_positive_infinity = out.has_positive_infinity || v == kInfinity;
    if (v > out.max && v != kInfinity) out.max = v;
  }
  return out;
}

MET_INLINE double exp_body(const float* row, std::size_t size, float max, float scale, float* weights) {
  constexpr std::size_t kBlock = 256;  // summed in float lanes, then in FP64
  double total = 0;
  for (std::size_t begin = 0; begin < size; begin += kBlock) {
    const std::size_t end = begin + kBlock < size ? begin + kBlock : size;
    Lanes sum = {};
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      Lanes v;
      load(v, row + i);
      v = (v - max) * scale;
      exp_lanes(v);
      sum += v;
      std::memcpy(weights + i, &v, sizeof v);
    }
    if (i < end) {
      float rest[kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        rest[lane] = i + lane < end ? row[i + lane] : -kInfinity;
      Lanes v;
      load(v, rest);
      v = (v - max) * scale;
      exp_lanes(v);
      sum += v;
      for (std::size_t lane = 0; i + lane < end; ++lane) weights[i + lane] = v[lane];
    }
    double block = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) block += static_cast<double>(sum[lane]);
    total += block;
  }
  return total;
}

MET_INLINE void collect_body(const float* row, std::size_t size, float low, float high,
                             std::vector<std::int32_t>& out) {
  const bool open = high == kInfinity;
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Lanes v;
    load(v, row + i);
    IntLanes hit = v >= low;
    if (!open) hit &= v < high;
    std::uint64_t words[4];
    std::memcpy(words, &hit, sizeof words);
    if ((words[0] | words[1] | words[2] | words[3]) == 0) continue;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      if (hit[lane] != 0) out.push_back(static_cast<std::int32_t>(i + lane));
  }
  for (; i < size; ++i)
    if (row[i] >= low && (open || row[i] < high)) out.push_back(static_cast<std::int32_t>(i));
}

MET_INLINE void keep_lanes(Lanes& v, const IntLanes& mask) {
  IntLanes bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits &= mask;
  std::memcpy(&v, &bits, sizeof v);
}

MET_INLINE void add_from(Lanes& sum, const Lanes& v, const Lanes& threshold) {
  Lanes kept = v;
  keep_lanes(kept, v >= threshold);
  sum += kept;
}

MET_INLINE double lanes_sum(const Lanes& v) {
  double sum = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) sum += static_cast<double>(v[lane]);
  return sum;
}

MET_INLINE void sums_body(const float* weights, std::size_t size, const float* thresholds, double* sums) {
  static_assert(kThresholds == 4, "four sums are kept in registers");
  constexpr std::size_t kBlock = 256;
  const Lanes t0 = Lanes{} + thresholds[0];
  const Lanes t1 = Lanes{} + thresholds[1];
  const Lanes t2 = Lanes{} + thresholds[2];
  const Lanes t3 = Lanes{} + thresholds[3];
  for (std::size_t k = 0; k < kThresholds; ++k) sums[k] = 0;
  std::size_t i = 0;
  while (i + kLanes <= size) {
    const std::size_t end = i + kBlock < size ? i + kBlock : size;
    Lanes s0 = {};
    Lanes s1 = {};
    Lanes s2 = {};
    Lanes s3 = {};
    for (; i + kLanes <= end; i += kLanes) {
      Lanes v;
      load(v, weights + i);
      add_from(s0, v, t0);
      add_from(s1, v, t1);
      add_from(s2, v, t2);
      add_from(s3, v, t3);
    }
    sums[0] += lanes_sum(s0);
    sums[1] += lanes_sum(s1);
    sums[2] += lanes_sum(s2);
    sums[3] += lanes_sum(s3);
  }
  for (; i < size; ++i)
    for (std::size_t k = 0; k < kThresholds; ++k)
      if (weights[i] >= thresholds[k]) sums[k] += static_cast<double>(weights[i]);
}

MET_INLINE void clear_body(const float* row, std::size_t size, float threshold, float* weights) {
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Lanes v;
    Lanes w;
    load(v, row + i);
    load(w, weights + i);
    keep_lanes(w, v >= threshold);
    std::memcpy(weights + i, &w, sizeof w);
  }
  for (; i < size; ++i)
    if (!(row[i] >= threshold)) weights[i] = 0;
}

MET_INLINE void set_body(float* row, std::size_t size, const std::uint32_t* bits, std::size_t words,
                         float value) {
  constexpr std::size_t kWord = 32;
  constexpr IntLanes kLaneBits = {1, 2, 4, 8, 16, 32, 64, 128};
  for (std::size_t begin = 0, word = 0; begin < size; begin += kWord, ++word) {
    const std::uint32_t kept = word < words ? bits[word] : 0;
    if (kept == ~0U) continue;
    std::size_t i = begin;
    const std::size_t end = begin + kWord < size ? begin + kWord : size;
    for (; i + kLanes <= end; i += kLanes) {
      const IntLanes set = (IntLanes{} + static_cast<std::int32_t>(kept >> (i - begin) & 0xffU)) & kLaneBits;
      Lanes v;
      load(v, row + i);
      v = set != 0 ? v : Lanes{} + value;
      std::memcpy(row + i, &v, sizeof v);
    }
    for (; i < end; ++i)
      if ((kept >> (i - begin) & 1U) == 0) row[i] = value;
  }
}

#ifdef MET_AVX2
MET_AVX2 void set_avx2(float* row, std::size_t size, const std::uint32_t* bits, std::size_t words,
                       float value) {
  set_body(row, size, bits, words, value);
}
MET_AVX2 void collect_avx2(const float* row, std::size_t size, float low, float high,
                           std::vector<std::int32_t>& out) {
  collect_body(row, size, low, high, out);
}
MET_AVX2 void sums_avx2(const float* weights, std::size_t size, const float* thresholds, double* sums) {
  sums_body(weights, size, thresholds, sums);
}
MET_AVX2 void clear_avx2(const float* row, std::size_t size, float threshold, float* weights) {
  clear_body(row, size, threshold, weights);
}
MET_AVX2 RowScan scan_avx2(const float* row, std::size_t size) { return scan_body(row, size); }
MET_AVX2 double exp_avx2(const float* row, std::size_t size, float max, float scale, float* weights) {
  return exp_body(row, size, max, scale, weights);
}
const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
#endif

}  // namespace

RowScan scan_row(std::span<const float> row) {
#ifdef MET_AVX2
  if (kHasAvx2) return scan_avx2(row.data(), row.size());
#endif
  return scan_body(row.data(), row.size());
}

void collect_between(std::span<const float> row, float low, float high, std::vector<std::int32_t>& out) {
#ifdef MET_AVX2
  if (kHasAvx2) return collect_avx2(row.data(), row.size(), low, high, out);
#endif
  collect_body(row.data(), row.size(), low, high, out);
}

void sums_from(std::span<const float> weights, const float (&thresholds)[kThresholds],
               double (&sums)[kThresholds]) {
#ifdef MET_AVX2
  if (kHasAvx2) return sums_avx2(weights.data(), weights.size(), thresholds, sums);
#endif
  sums_body(weights.data(), weights.size(), thresholds, sums);
}

void clear_below(std::span<const float> row, float threshold, std::span<float> weights) {
#ifdef MET_AVX2
  if (kHasAvx2) return clear_avx2(row.data(), row.size(), threshold, weights.data());
#endif
  clear_body(row.data(), row.size(), threshold, weights.data());
}

void set_where_clear(std::span<float> row, std::span<const std::uint32_t> bits, float value) {
#ifdef MET_AVX2
  if (kHasAvx2) return set_avx2(row.data(), row.size(), bits.data(), bits.size(), value);
#endif
  set_body(row.data(), row.size(), bits.data(), bits.size(), value);
}

std::int32_t first_of(std::span<const float> row, float value) {
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i] == value) return static_cast<std::int32_t>(i);
  return -1;
}

double exponentials(std::span<const float> row, float max, float scale, std::span<float> weights) {
#ifdef MET_AVX2
  if (kHasAvx2) return exp_avx2(row.data(), row.size(), max, scale, weights.data());
#endif
  return exp_body(row.data(), row.size(), max, scale, weights.data());
}

}  // namespace met::sampling
