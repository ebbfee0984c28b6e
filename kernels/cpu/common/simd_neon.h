// The vocabulary of simd.h for Arm: NEON as every 64-bit processor has it, with the byte products of dot product
// and i8mm where the compiler is told of them.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace {
namespace simd {

constexpr int kLanes = 4;
using Vf = float32x4_t;
using Vi = int32x4_t;
using Table16 = int8x16_t;
constexpr bool kSignedProducts = true;

inline Vf zero() { return vdupq_n_f32(0.0F); }
inline Vf set1(float v) { return vdupq_n_f32(v); }
inline Vf load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, Vf v) { vst1q_f32(p, v); }
inline Vf add(Vf a, Vf b) { return vaddq_f32(a, b); }
inline Vf sub(Vf a, Vf b) { return vsubq_f32(a, b); }
inline Vf mul(Vf a, Vf b) { return vmulq_f32(a, b); }
inline Vf div(Vf a, Vf b) { return vdivq_f32(a, b); }
/// vminq and vmaxq would give NaN, where b is promised.
inline Vf min(Vf a, Vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline Vf max(Vf a, Vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline Vf fma(Vf a, Vf b, Vf c) { return vfmaq_f32(c, a, b); }
inline Vf select_less(Vf x, Vf y, Vf a, Vf b) { return vbslq_f32(vcltq_f32(x, y), a, b); }
inline Vf load_f16(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline Vf load_bf16(const std::uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
inline void store_f16(std::uint16_t* p, Vf v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }

/// Four bytes in the low half of a register, zeros behind them.
inline uint8x8_t load4(const void* p) {
  std::uint32_t bytes;
  std::memcpy(&bytes, p, 4);
  return vcreate_u8(bytes);
}
inline Vf load_e4m3_256th(const std::uint8_t* p) {
  const int16x4_t wide = vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load4(p))));
  const int16x4_t half = vand_s16(vshl_n_s16(wide, 7), vdup_n_s16(-0x4001));
  return vcvt_f32_f16(vreinterpret_f16_s16(half));
}

inline Vi izero() { return vdupq_n_s32(0); }
inline Vi iset1(std::int32_t v) { return vdupq_n_s32(v); }
inline Vi iload(const void* p) { return vreinterpretq_s32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p))); }
inline void istore(void* p, Vi v) { vst1q_u8(static_cast<std::uint8_t*>(p), vreinterpretq_u8_s32(v)); }
inline Vi iand(Vi a, Vi b) { return vandq_s32(a, b); }
inline Vi ior(Vi a, Vi b) { return vorrq_s32(a, b); }
inline Vi ixor(Vi a, Vi b) { return veorq_s32(a, b); }
inline Vi iadd(Vi a, Vi b) { return vaddq_s32(a, b); }
inline Vi isub(Vi a, Vi b) { return vsubq_s32(a, b); }
inline Vi imax(Vi a, Vi b) { return vmaxq_s32(a, b); }
inline Vi shift_right16(Vi a, int bits) { return vreinterpretq_s32_u16(vreinterpretq_u16_s32(a) >> bits); }
inline Vi shift_left16(Vi a, int bits) { return vreinterpretq_s32_u16(vreinterpretq_u16_s32(a) << bits); }
inline Vi shift_left32(Vi a, int bits) { return a << bits; }
inline Vf to_float(Vi v) { return vcvtq_f32_s32(v); }
inline Vi to_int(Vf v) { return vcvtnq_s32_f32(v); }
inline Vi as_int(Vf v) { return vreinterpretq_s32_f32(v); }
inline Vf as_float(Vi v) { return vreinterpretq_f32_s32(v); }
inline Vi load_u8(const std::uint8_t* p) {
  return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load4(p)))));
}
inline Vi load_s8(const std::int8_t* p) {
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load4(p)))));
}
inline void store_s8(std::int8_t* p, Vi v) {
  const int16x4_t words = vqmovn_s32(v);
  const int8x8_t bytes = vqmovn_s16(vcombine_s16(words, words));
  std::memcpy(p, &bytes, 4);
}
inline Table16 table16(const std::int8_t* p) { return vld1q_s8(p); }
inline Vi lookup16(Table16 table, Vi index) {
  return vreinterpretq_s32_s8(vqtbl1q_s8(table, vreinterpretq_u8_s32(index)));
}
inline float sum(Vf v) { return vaddvq_f32(v); }
inline float square_root(float v) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(v)), 0); }
inline std::int32_t max_lane(Vi v) { return vmaxvq_s32(v); }
inline std::int32_t sum(Vi v) { return vaddvq_s32(v); }

/// Both operands are signed here. Stored numbers of unsigned formats are below 64, so that they are the same; and
/// signed numbers need no turning of signs: |w| * sign(a, w) is w * a.
inline Vi multiply_bytes(Vi w, Vi a) {
  const int8x16_t x = vreinterpretq_s8_s32(w);
  const int8x16_t y = vreinterpretq_s8_s32(a);
  const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y));
  return vreinterpretq_s32_s16(vpaddq_s16(low, vmull_high_s8(x, y)));
}
inline Vi add16(Vi a, Vi b) {
  return vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
}
inline Vi widen_pairs(Vi a) { return vpaddlq_s16(vreinterpretq_s16_s32(a)); }

#if defined(__ARM_FEATURE_DOTPROD)
/// sum + the four products of each lane's bytes.
inline Vi dot_bytes(Vi sum, Vi w, Vi a) {
  return vdotq_s32(sum, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(a));
}
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
/// Sums of four columns and two rows while they grow: [column][row], two columns a register.
struct Square {
  int32x4_t low, high;
};
/// The two rows' 8 bytes at a and b, for add_product.
inline int8x16_t row_pair(const std::int8_t* a, const std::int8_t* b) {
  return vcombine_s8(vld1_s8(a), vld1_s8(b));
}
/// Adds the products of 8 k: `first` and `second` hold k 0 to 3 and 4 to 7 of the four columns.
inline void add_product(Square& to, Vi first, Vi second, int8x16_t rows) {
  to.low = vmmlaq_s32(to.low, vreinterpretq_s8_s32(vzip1q_s32(first, second)), rows);
  to.high = vmmlaq_s32(to.high, vreinterpretq_s8_s32(vzip2q_s32(first, second)), rows);
}
inline Vi row_of(const Square& sums, int row) {
  return row == 0 ? vuzp1q_s32(sums.low, sums.high) : vuzp2q_s32(sums.low, sums.high);
}
#endif

inline void keep(Vi& v) { __asm__("" : "+w"(v)); }

}  // namespace simd
}  // namespace
