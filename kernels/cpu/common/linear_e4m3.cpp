// Linear over E4M3 weights with f32 scales, f32 activations.
//
// A tile is groups of 128 k of 16 columns, the last one as long as k leaves: 16 f32 scales, then [k][16] bytes.
// W = scale * number. A NaN code has made its column's scale NaN, so that the numbers need no test here.
#include "linear.h"

namespace {

struct E4m3 : linear::FloatRows {
  static constexpr std::int64_t kGroup = 128;
  static constexpr std::size_t kScaleBytes = packed::kColumns * sizeof(float);

  static std::size_t tile_bytes(std::int64_t k) {
    return static_cast<std::size_t>((k + kGroup - 1) / kGroup) * kScaleBytes +
           static_cast<std::size_t>(k) * packed::kColumns;
  }

  /// A group is summed from zero before its scale meets it: one rounding a group, not one a weight.
  template <int R>
  static void tile(const std::uint8_t* weights, const void* const (&rows)[R], std::int64_t k,
                   const linear::Ahead& ahead, float* out) {
    simd::Vf total[packed::kParts][R];
#pragma GCC unroll 8
    for (int h = 0; h < packed::kParts; ++h)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) total[h][r] = simd::zero();
    for (std::int64_t begin = 0; begin < k; begin += kGroup) {
      const std::int64_t count = k - begin < kGroup ? k - begin : kGroup;
      const auto* scales = reinterpret_cast<const float*>(weights);
      weights += kScaleBytes;
      simd::Vf sums[packed::kParts][R];
      group<R>(weights, rows, begin, count, ahead, sums);
      weights += count * packed::kColumns;
#pragma GCC unroll 8
      for (int h = 0; h < packed::kParts; ++h) {
        const simd::Vf scale = simd::mul(simd::load(scales + h * simd::kLanes), simd::set1(256.0F));
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) total[h][r] = simd::fma(sums[h][r], scale, total[h][r]);
      }
    }
#pragma GCC unroll 8
    for (int h = 0; h < packed::kParts; ++h)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) simd::store(out + r * packed::kColumns + h * simd::kLanes, total[h][r]);
  }

 private:
  template <int R>
  static void group(const std::uint8_t* numbers, const void* const (&rows)[R], std::int64_t begin,
                    std::int64_t count, const linear::Ahead& ahead, simd::Vf (&sums)[packed::kParts][R]) {
    const float* x[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) x[r] = static_cast<const float*>(rows[r]) + begin;
#pragma GCC unroll 8
    for (int h = 0; h < packed::kParts; ++h)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[h][r] = simd::zero();
    for (std::int64_t i = 0; i < count; ++i, numbers += packed::kColumns) {
      if constexpr (kFetches) ahead.fetch_at_most<packed::kColumns>(begin + i);
#pragma GCC unroll 8
      for (int h = 0; h < packed::kParts; ++h) {
        const simd::Vf w = simd::load_e4m3_256th(numbers + h * simd::kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) sums[h][r] = simd::fma(w, simd::set1(x[r][i]), sums[h][r]);
      }
    }
  }
};

}  // namespace

MET_LINEAR_ENTRY(linear_e4m3, E4m3)
