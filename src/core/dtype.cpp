#include "core/dtype.h"

#include <bit>
#include <cmath>
#include <limits>

namespace met {

namespace {

constexpr DTypeInfo kInfo[] = {
    {"F64", 1, 8},      {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},       {"F8_E4M3", 1, 1},
    {"F8_E5M2", 1, 1},  {"I64", 1, 8},      {"I32", 1, 4},      {"I16", 1, 2},        {"I8", 1, 1},
    {"U8", 1, 1},       {"BOOL", 1, 1},     {"Q4_0", 32, 18},   {"Q4_1", 32, 20},     {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},   {"Q8_0", 32, 34},   {"Q2_K", 256, 84},  {"Q3_K", 256, 110},   {"Q4_K", 256, 144},
    {"Q5_K", 256, 176}, {"Q6_K", 256, 210}, {"IQ4_NL", 32, 18}, {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17},
};
static_assert(std::size(kInfo) == static_cast<std::size_t>(DType::kMXFP4) + 1);

// A float of 1 sign bit, `exponent` and `mantissa` bits with IEEE bias and subnormals, as a double.
double decode_small(unsigned bits, int exponent, int mantissa) {
  const int e = static_cast<int>((bits >> mantissa) & ((1U << exponent) - 1U));
  const int m = static_cast<int>(bits & ((1U << mantissa) - 1U));
  const int bias = (1 << (exponent - 1)) - 1;
  const double value =
      e == 0 ? std::ldexp(m, 1 - bias - mantissa) : std::ldexp(m + (1 << mantissa), e - bias - mantissa);
  return ((bits >> (exponent + mantissa)) & 1U) != 0 ? -value : value;
}

// Rounds to nearest even, without overflow handling: the result may be one past the largest finite code.
unsigned encode_small(float value, int exponent, int mantissa) {
  const int bias = (1 << (exponent - 1)) - 1;
  const double size = std::fabs(static_cast<double>(value));
  if (size == 0) return 0;
  int e = 0;
  std::frexp(size, &e);  // size = f * 2^e, f in [0.5, 1)
  const int scale = std::max(e - 1, 1 - bias) - mantissa;
  const auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(size, -scale)));
  // `steps` counts units of 2^scale; a carry out of the mantissa moves into the exponent by itself.
  return steps + (static_cast<unsigned>(scale + mantissa + bias - 1) << mantissa);
}

unsigned sign_of(float value) { return std::signbit(value) ? 1U : 0U; }

}  // namespace

const DTypeInfo& info(DType type) { return kInfo[static_cast<std::size_t>(type)]; }

std::size_t bytes_of(DType type, std::size_t elements) {
  const DTypeInfo& i = info(type);
  return elements / static_cast<std::size_t>(i.block_elements) * static_cast<std::size_t>(i.block_bytes);
}

float f16_to_f32(std::uint16_t bits) {
  if ((bits & 0x7C00U) == 0x7C00U) {
    const float inf = (bits & 0x8000U) != 0 ? -std::numeric_limits<float>::infinity()
                                            : std::numeric_limits<float>::infinity();
    return (bits & 0x3FFU) != 0 ? std::numeric_limits<float>::quiet_NaN() : inf;
  }
  return static_cast<float>(decode_small(bits, 5, 10));
}

std::uint16_t f32_to_f16(float value) {
  const auto sign = static_cast<std::uint16_t>(sign_of(value) << 15U);
  if (std::isnan(value)) return sign | 0x7E00U;
  if (std::fabs(value) >= 65520.0F) return sign | 0x7C00U;
  return sign | static_cast<std::uint16_t>(encode_small(value, 5, 10));
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

float f8e4m3_to_f32(std::uint8_t bits) {
  if ((bits & 0x7FU) == 0x7FU) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(decode_small(bits, 4, 3));
}

float f8e5m2_to_f32(std::uint8_t bits) { return f16_to_f32(static_cast<std::uint16_t>(bits << 8U)); }

std::uint8_t f32_to_f8e4m3(float value) {
  const auto sign = static_cast<std::uint8_t>(sign_of(value) << 7U);
  if (std::isnan(value)) return sign | 0x7FU;
  if (std::fabs(value) >= 448.0F) return sign | 0x7EU;
  return sign | static_cast<std::uint8_t>(encode_small(value, 4, 3));
}

std::uint8_t f32_to_f8e5m2(float value) {
  const auto sign = static_cast<std::uint8_t>(sign_of(value) << 7U);
  if (std::isnan(value)) return sign | 0x7FU;
  if (std::fabs(value) >= 57344.0F) return sign | 0x7BU;
  return sign | static_cast<std::uint8_t>(encode_small(value, 5, 2));
}

float f4e2m1_to_f32(std::uint8_t bits) { return static_cast<float>(decode_small(bits & 15U, 2, 1)); }

float e8m0_to_f32(std::uint8_t bits) {
  if (bits == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(std::ldexp(1.0, static_cast<int>(bits) - 127));
}

}  // namespace met
