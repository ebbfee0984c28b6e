// Values of ggml's block types and of small floats in FP64, from the formats' public definitions; shares nothing with the packer.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/dtype.h"

namespace met::oracle {

inline double half_at(const std::uint8_t* p) {
  const unsigned bits = p[0] | p[1] << 8U;
  const int exponent = bits >> 10U & 31U;
  const double fraction = bits & 1023U;
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25));
}

inline int nibble_value(const std::uint8_t* qs, int i) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }

constexpr int kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr double kE2m1[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6};

/// Scale and minimum j of a Q4_K or Q5_K super-block.
inline void scale_and_minimum(const std::uint8_t* s, int j, int& scale, int& minimum) {
  if (j < 4) {
    scale = s[j] & 63;
    minimum = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    minimum = s[j + 4] >> 4 | (s[j] >> 6) << 4;
  }
}

/// Value i of one block of `type`.
inline double block_value(DType type, const std::uint8_t* p, int i) {
  const int half = i / 128;  // K-quants: two runs of 128 values, four groups of 32 in each
  const int group = i % 128 / 32;
  const int l = i % 32;
  switch (type) {
    case DType::kQ4_0:
      return half_at(p) * (nibble_value(p + 2, i) - 8);
    case DType::kQ4_1:
      return half_at(p) * nibble_value(p + 4, i) + half_at(p + 2);
    case DType::kQ5_0:
    case DType::kQ5_1: {
      const std::uint8_t* qh = p + (type == DType::kQ5_0 ? 2 : 4);
      const int q = nibble_value(qh + 4, i) | (qh[i / 8] >> (i % 8) & 1) << 4;
      return type == DType::kQ5_0 ? half_at(p) * (q - 16) : half_at(p) * q + half_at(p + 2);
    }
    case DType::kQ8_0:
      return half_at(p) * static_cast<std::int8_t>(p[2 + i]);
    case DType::kQ2_K: {
      const int q = p[16 + half * 32 + l] >> (2 * group) & 3;
      const int s = p[i / 16];
      return half_at(p + 80) * (s & 15) * q - half_at(p + 82) * (s >> 4);
    }
    case DType::kQ3_K: {
      const int low = p[32 + half * 32 + l] >> (2 * group) & 3;
      const int high = p[l] >> (half * 4 + group) & 1;
      const std::uint8_t* s = p + 96;
      const int j = i / 16;
      const int scale = (j < 8 ? s[j] & 15 : s[j - 8] >> 4) | (s[8 + j % 4] >> (2 * (j / 4)) & 3) << 4;
      return half_at(p + 108) * (scale - 32) * (low + 4 * high - 4);
    }
    case DType::kQ4_K:
    case DType::kQ5_K: {
      int scale = 0;
      int minimum = 0;
      scale_and_minimum(p + 4, i / 32, scale, minimum);
      const std::uint8_t* qs = p + (type == DType::kQ4_K ? 16 : 48);
      int q = qs[i / 64 * 32 + l] >> (i / 32 % 2 * 4) & 15;
      if (type == DType::kQ5_K) q |= (p[16 + l] >> (i / 32) & 1) << 4;
      return half_at(p) * scale * q - half_at(p + 2) * minimum;
    }
    case DType::kQ6_K: {
      const int low = p[half * 64 + group % 2 * 32 + l] >> (group / 2 * 4) & 15;
      const int high = p[128 + half * 32 + l] >> (2 * group) & 3;
      return half_at(p + 208) * static_cast<std::int8_t>(p[192 + i / 16]) * ((low | high << 4) - 32);
    }
    case DType::kIQ4_NL:
      return half_at(p) * kIq4Values[nibble_value(p + 2, i)];
    case DType::kIQ4_XS: {
      const int b = i / 32;
      const int low = p[4 + b / 2] >> (b % 2 * 4) & 15;
      const int high = (p[2] | p[3] << 8) >> (2 * b) & 3;
      return half_at(p) * ((low | high << 4) - 32) * kIq4Values[nibble_value(p + 8 + b * 16, l)];
    }
    case DType::kMXFP4:
      return std::ldexp(kE2m1[nibble_value(p + 1, i)], p[0] - 127);
    default:
      return std::nan("");
  }
}

/// OCP 8-bit floating point, E4M3: no infinities, all ones are NaN.
inline double e4m3_value(std::uint8_t code) {
  const int exponent = code >> 3U & 15;
  const int fraction = code & 7;
  const double sign = (code & 0x80U) != 0 ? -1.0 : 1.0;
  if (exponent == 15 && fraction == 7) return std::nan("");
  return sign * (exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10));
}

/// The k values of one row.
inline std::vector<double> dequantise_row(DType type, const std::byte* row, std::int64_t k) {
  std::vector<double> values(static_cast<std::size_t>(k));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == DType::kF32) {
      float value;
      std::memcpy(&value, bytes + 4 * i, 4);
      values[i] = value;
    } else if (type == DType::kF16) {
      values[i] = half_at(bytes + 2 * i);
    } else if (type == DType::kBF16) {
      const std::uint32_t bits = static_cast<std::uint32_t>(bytes[2 * i] | bytes[2 * i + 1] << 8) << 16U;
      values[i] = __builtin_bit_cast(float, bits);
    } else if (type == DType::kF8E4M3) {
      values[i] = e4m3_value(bytes[i]);
    } else {
      const auto elements = static_cast<std::size_t>(info(type).block_elements);
      const auto size = static_cast<std::size_t>(info(type).block_bytes);
      values[i] = block_value(type, bytes + i / elements * size, static_cast<int>(i % elements));
    }
  }
  return values;
}

}  // namespace met::oracle
