#include "core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace met {
namespace {

// The nearest code by search over all codes, ties to the even one: shares nothing with the conversion.
template <class Decode>
unsigned nearest(double value, unsigned codes, Decode decode) {
  unsigned best = 0;
  double best_distance = INFINITY;
  for (unsigned c = 0; c < codes; ++c) {
    const double d = static_cast<double>(decode(c));
    if (!std::isfinite(d) || std::signbit(d) != std::signbit(value)) continue;
    const double distance = std::fabs(d - value);
    if (distance < best_distance || (distance == best_distance && c % 2 == 0))
      best = c, best_distance = distance;
  }
  return best;
}

TEST(DType, HalfRoundTripsEveryCode) {
  for (unsigned c = 0; c < 65536; ++c) {
    const float f = f16_to_f32(static_cast<std::uint16_t>(c));
    if (std::isnan(f)) continue;
    ASSERT_EQ(f32_to_f16(f), c);
    ASSERT_EQ(static_cast<float>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(c))), f);
  }
}

TEST(DType, HalfRoundsLikeTheCompiler) {
  for (std::uint64_t i = 0; i < 1U << 20U; ++i) {
    const auto f = std::bit_cast<float>(static_cast<std::uint32_t>(i * 4099U));
    if (std::isnan(f)) continue;
    ASSERT_EQ(f32_to_f16(f), std::bit_cast<std::uint16_t>(static_cast<_Float16>(f))) << f;
  }
}

TEST(DType, EightBitFloatsRoundToNearestEven) {
  for (int i = -4000; i <= 4000; ++i) {
    const float f = static_cast<float>(i) * 0.117F;
    if (std::fabs(f) < 448) {
      ASSERT_EQ(f32_to_f8e4m3(f),
                nearest(f, 256, [](unsigned c) { return f8e4m3_to_f32(static_cast<std::uint8_t>(c)); }))
          << f;
    }
    ASSERT_EQ(f32_to_f8e5m2(f),
              nearest(f, 256, [](unsigned c) { return f8e5m2_to_f32(static_cast<std::uint8_t>(c)); }))
        << f;
  }
  EXPECT_EQ(f8e4m3_to_f32(f32_to_f8e4m3(1e9F)), 448.0F);
  EXPECT_EQ(f8e5m2_to_f32(f32_to_f8e5m2(-1e9F)), -57344.0F);
}

TEST(DType, FourBitAndScaleTables) {
  constexpr float kE2m1[] = {0, .5F, 1, 1.5F, 2, 3, 4, 6};
  for (unsigned c = 0; c < 16; ++c)
    EXPECT_EQ(f4e2m1_to_f32(static_cast<std::uint8_t>(c)), c < 8 ? kE2m1[c] : -kE2m1[c - 8]);
  EXPECT_EQ(e8m0_to_f32(127), 1.0F);
  EXPECT_EQ(e8m0_to_f32(0), std::ldexp(1.0F, -127));
  EXPECT_TRUE(std::isnan(e8m0_to_f32(255)));
}

TEST(DType, BrainFloatRoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

}  // namespace
}  // namespace met
