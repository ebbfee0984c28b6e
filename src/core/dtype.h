// Element and block types of tensors, and the bit-exact conversions of small floats. C++20: .cu files include
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace met {

/// Storage types. A ggml type stores `block_elements` values in `block_bytes` bytes along the last axis.
enum class DType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
};

struct DTypeInfo {
  std::string_view name;  ///< as users know it: "BF16", "Q4_K"
  int block_elements;     ///< 1 for plain types
  int block_bytes;
};
const DTypeInfo& info(DType type);

/// Bytes of `elements` values; `elements` is a multiple of the block.
std::size_t bytes_of(DType type, std::size_t elements);

/// IEEE and brain floats to and from binary32; to: round to nearest even, NaN stays NaN.
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
inline float bf16_to_f32(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16U);
}
std::uint16_t f32_to_bf16(float value);
/// OCP 8-bit floats (OFP8 rev 1.0): E4M3 has no infinities, 0x7F and 0xFF are NaN; E5M2 is IEEE-like.
float f8e4m3_to_f32(std::uint8_t bits);
float f8e5m2_to_f32(std::uint8_t bits);
/// Saturating: values beyond 448 (57344) become it; round to nearest even.
std::uint8_t f32_to_f8e4m3(float value);
std::uint8_t f32_to_f8e5m2(float value);
/// OCP MX: E2M1 (low 4 bits used) and the power-of-two scale E8M0 (0xFF is NaN).
float f4e2m1_to_f32(std::uint8_t bits);
float e8m0_to_f32(std::uint8_t bits);

}  // namespace met
