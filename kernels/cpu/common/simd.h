// One vocabulary of vectors over the instruction sets that a kernel is compiled for: generic (SSE4.2), avx2,
// avx512 (VNNI), and those of Arm (simd_neon.h). kLanes floats or 32-bit integers, 4 * kLanes bytes. Every
// operation rounds as written: no contraction is left to the compiler.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__aarch64__)
#include "simd_neon.h"
#else
#include <immintrin.h>
#endif

// GCC 12 reports the undefined operands inside its own AVX-512 intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace {
namespace simd {

inline float bits_to_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t float_to_bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

#if !defined(__aarch64__)
/// Whether byte products take two signed operands; else the first is unsigned.
constexpr bool kSignedProducts = false;
/// 16 bytes for lookup16.
using Table16 = __m128i;
inline Table16 table16(const std::int8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
#endif

#if defined(__AVX512F__)

constexpr int kLanes = 16;
using Vf = __m512;
using Vi = __m512i;

inline Vf zero() { return _mm512_setzero_ps(); }
inline Vf set1(float v) { return _mm512_set1_ps(v); }
inline Vf load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vf v) { _mm512_storeu_ps(p, v); }
inline Vf add(Vf a, Vf b) { return _mm512_add_ps(a, b); }
inline Vf sub(Vf a, Vf b) { return _mm512_sub_ps(a, b); }
inline Vf mul(Vf a, Vf b) { return _mm512_mul_ps(a, b); }
inline Vf div(Vf a, Vf b) { return _mm512_div_ps(a, b); }
/// The smaller (larger); b where either is NaN.
inline Vf min(Vf a, Vf b) { return _mm512_min_ps(a, b); }
inline Vf max(Vf a, Vf b) { return _mm512_max_ps(a, b); }
/// a * b + c.
inline Vf fma(Vf a, Vf b, Vf c) { return _mm512_fmadd_ps(a, b, c); }
/// where x < y: a, else b (also for NaN).
inline Vf select_less(Vf x, Vf y, Vf a, Vf b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
inline Vf load_f16(const std::uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vf load_bf16(const std::uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline void store_f16(std::uint16_t* p, Vf v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
/// kLanes numbers of E4M3 divided by 256: moved to the places of binary16, whose bias is 8 more. NaN codes give +-480.
inline Vf load_e4m3_256th(const std::uint8_t* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(-0x4001));
  return _mm512_cvtph_ps(half);
}

inline Vi izero() { return _mm512_setzero_si512(); }
inline Vi iset1(std::int32_t v) { return _mm512_set1_epi32(v); }
inline Vi iload(const void* p) { return _mm512_loadu_si512(p); }
inline void istore(void* p, Vi v) { _mm512_storeu_si512(p, v); }
inline Vi iand(Vi a, Vi b) { return _mm512_and_si512(a, b); }
inline Vi ior(Vi a, Vi b) { return _mm512_or_si512(a, b); }
inline Vi ixor(Vi a, Vi b) { return _mm512_xor_si512(a, b); }
inline Vi iadd(Vi a, Vi b) { return _mm512_add_epi32(a, b); }
inline Vi isub(Vi a, Vi b) { return _mm512_sub_epi32(a, b); }
inline Vi imax(Vi a, Vi b) { return _mm512_max_epi32(a, b); }
inline Vi shift_right16(Vi a, int bits) { return _mm512_srli_epi16(a, bits); }
inline Vi shift_left16(Vi a, int bits) { return _mm512_slli_epi16(a, bits); }
inline Vi shift_left32(Vi a, int bits) { return _mm512_slli_epi32(a, bits); }
inline Vf to_float(Vi v) { return _mm512_cvtepi32_ps(v); }
inline Vi to_int(Vf v) { return _mm512_cvtps_epi32(v); }
inline Vi as_int(Vf v) { return _mm512_castps_si512(v); }
inline Vf as_float(Vi v) { return _mm512_castsi512_ps(v); }
/// kLanes unsigned (signed) bytes, widened.
inline Vi load_u8(const std::uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Vi load_s8(const std::int8_t* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
/// Stores each lane's low byte, saturated.
inline void store_s8(std::int8_t* p, Vi v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(v));
}
/// In each 128 bits, bytes of `table` chosen by `index` (0 to 15).
inline Vi lookup16(Table16 table, Vi index) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index);
}
inline float sum(Vf v) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

#elif defined(__AVX2__)

constexpr int kLanes = 8;
using Vf = __m256;
using Vi = __m256i;

inline Vf zero() { return _mm256_setzero_ps(); }
inline Vf set1(float v) { return _mm256_set1_ps(v); }
inline Vf load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Vf v) { _mm256_storeu_ps(p, v); }
inline Vf add(Vf a, Vf b) { return _mm256_add_ps(a, b); }
inline Vf sub(Vf a, Vf b) { return _mm256_sub_ps(a, b); }
inline Vf mul(Vf a, Vf b) { return _mm256_mul_ps(a, b); }
inline Vf div(Vf a, Vf b) { return _mm256_div_ps(a, b); }
inline Vf min(Vf a, Vf b) { return _mm256_min_ps(a, b); }
inline Vf max(Vf a, Vf b) { return _mm256_max_ps(a, b); }
inline Vf fma(Vf a, Vf b, Vf c) { return _mm256_fmadd_ps(a, b, c); }
inline Vf select_less(Vf x, Vf y, Vf a, Vf b) {
  return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}
inline Vf load_f16(const std::uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Vf load_bf16(const std::uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline void store_f16(std::uint16_t* p, Vf v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
inline Vf load_e4m3_256th(const std::uint8_t* p) {
  const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16(-0x4001)));
}

inline Vi izero() { return _mm256_setzero_si256(); }
inline Vi iset1(std::int32_t v) { return _mm256_set1_epi32(v); }
inline Vi iload(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void istore(void* p, Vi v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline Vi iand(Vi a, Vi b) { return _mm256_and_si256(a, b); }
inline Vi ior(Vi a, Vi b) { return _mm256_or_si256(a, b); }
inline Vi ixor(Vi a, Vi b) { return _mm256_xor_si256(a, b); }
inline Vi iadd(Vi a, Vi b) { return _mm256_add_epi32(a, b); }
inline Vi isub(Vi a, Vi b) { return _mm256_sub_epi32(a, b); }
inline Vi imax(Vi a, Vi b) { return _mm256_max_epi32(a, b); }
inline Vi shift_right16(Vi a, int bits) { return _mm256_srli_epi16(a, bits); }
inline Vi shift_left16(Vi a, int bits) { return _mm256_slli_epi16(a, bits); }
inline Vi shift_left32(Vi a, int bits) { return _mm256_slli_epi32(a, bits); }
inline Vf to_float(Vi v) { return _mm256_cvtepi32_ps(v); }
inline Vi to_int(Vf v) { return _mm256_cvtps_epi32(v); }
inline Vi as_int(Vf v) { return _mm256_castps_si256(v); }
inline Vf as_float(Vi v) { return _mm256_castsi256_ps(v); }
inline Vi load_u8(const std::uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
inline Vi load_s8(const std::int8_t* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
inline void store_s8(std::int8_t* p, Vi v) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}
inline Vi lookup16(Table16 table, Vi index) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
}
inline float sum(Vf v) {
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
inline Vi multiply_bytes(Vi u, Vi s) { return _mm256_maddubs_epi16(u, s); }
/// 256 times the signed bytes of w at even (Odd: odd) places, in 16 bits.
template <bool Odd>
inline Vi wide_bytes(Vi w) {
  return Odd ? _mm256_and_si256(w, _mm256_set1_epi16(-256)) : _mm256_slli_epi16(w, 8);
}
inline Vi multiply_words(Vi a, Vi b) { return _mm256_madd_epi16(a, b); }
/// Stores the lanes in 16 bits, each four in the order 0, 2, 1, 3.
inline void store_s16_even_odd(std::int16_t* p, Vi v) {
  const __m256i order = _mm256_shuffle_epi32(v, 0xD8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi32(_mm256_castsi256_si128(order), _mm256_extracti128_si256(order, 1)));
}
inline Vi add16(Vi a, Vi b) { return _mm256_add_epi16(a, b); }
inline Vi widen_pairs(Vi a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }

#elif !defined(__aarch64__)

constexpr int kLanes = 4;
using Vf = __m128;
using Vi = __m128i;

inline Vf zero() { return _mm_setzero_ps(); }
inline Vf set1(float v) { return _mm_set1_ps(v); }
inline Vf load(const float* p) { return _mm_loadu_ps(p); }
inline void store(float* p, Vf v) { _mm_storeu_ps(p, v); }
inline Vf add(Vf a, Vf b) { return _mm_add_ps(a, b); }
inline Vf sub(Vf a, Vf b) { return _mm_sub_ps(a, b); }
inline Vf mul(Vf a, Vf b) { return _mm_mul_ps(a, b); }
inline Vf div(Vf a, Vf b) { return _mm_div_ps(a, b); }
inline Vf min(Vf a, Vf b) { return _mm_min_ps(a, b); }
inline Vf max(Vf a, Vf b) { return _mm_max_ps(a, b); }
inline Vf fma(Vf a, Vf b, Vf c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }  // rounds twice: no FMA here
inline Vf select_less(Vf x, Vf y, Vf a, Vf b) { return _mm_blendv_ps(b, a, _mm_cmplt_ps(x, y)); }
inline Vf load_bf16(const std::uint16_t* p) {
  const __m128i wide = _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm_castsi128_ps(_mm_slli_epi32(wide, 16));
}
/// Exponent and mantissa move to binary32's places; a multiplication by 2^112 corrects the bias and makes
/// subnormals normal; infinities and NaN are put in by hand.
inline Vf load_f16(const std::uint16_t* p) {
  const __m128i h = _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i magnitude = _mm_and_si128(h, _mm_set1_epi32(0x7FFF));
  const __m128i sign = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x8000)), 16);
  const __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(_mm_slli_epi32(magnitude, 13)), _mm_set1_ps(0x1p112F));
  const __m128i special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7BFF));
  const __m128i exponent = _mm_and_si128(special, _mm_set1_epi32(0x7F800000));
  return _mm_castsi128_ps(_mm_or_si128(_mm_or_si128(_mm_castps_si128(scaled), exponent), sign));
}
inline void store_f16(std::uint16_t* p, Vf v) {
  alignas(16) float values[4];
  _mm_store_ps(values, v);
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t bits = float_to_bits(values[i]);
    const std::uint32_t sign = bits >> 16U & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    std::uint32_t half = 0;
    if (magnitude > 0x7F800000U) {
      half = 0x7E00U;
    } else if (magnitude >= 0x477FF000U) {  // rounds to 65536 or more
      half = 0x7C00U;
    } else if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 rounds at 2^-24
      half = float_to_bits(bits_to_float(magnitude) + 0.5F) - 0x3F000000U;
    } else {
      half = (magnitude + 0xFFFU + (magnitude >> 13U & 1U) - 0x38000000U) >> 13U;
    }
    p[i] = static_cast<std::uint16_t>(sign | half);
  }
}

/// The same way as load_f16: the magnitude's bits to binary32's places, then 2^112, the difference of the biases but 8.
inline Vf load_e4m3_256th(const std::uint8_t* p) {
  std::int32_t bytes;
  std::memcpy(&bytes, p, 4);
  const __m128i wide = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes));
  const __m128i magnitude = _mm_slli_epi32(_mm_and_si128(wide, _mm_set1_epi32(0x7F)), 20);
  const __m128i sign = _mm_slli_epi32(_mm_and_si128(wide, _mm_set1_epi32(0x80)), 24);
  const __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0x1p112F));
  return _mm_or_ps(scaled, _mm_castsi128_ps(sign));
}

inline Vi izero() { return _mm_setzero_si128(); }
inline Vi iset1(std::int32_t v) { return _mm_set1_epi32(v); }
inline Vi iload(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline void istore(void* p, Vi v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
inline Vi iand(Vi a, Vi b) { return _mm_and_si128(a, b); }
inline Vi ior(Vi a, Vi b) { return _mm_or_si128(a, b); }
inline Vi ixor(Vi a, Vi b) { return _mm_xor_si128(a, b); }
inline Vi iadd(Vi a, Vi b) { return _mm_add_epi32(a, b); }
inline Vi isub(Vi a, Vi b) { return _mm_sub_epi32(a, b); }
inline Vi imax(Vi a, Vi b) { return _mm_max_epi32(a, b); }
inline Vi shift_right16(Vi a, int bits) { return _mm_srli_epi16(a, bits); }
inline Vi shift_left16(Vi a, int bits) { return _mm_slli_epi16(a, bits); }
inline Vi shift_left32(Vi a, int bits) { return _mm_slli_epi32(a, bits); }
inline Vf to_float(Vi v) { return _mm_cvtepi32_ps(v); }
inline Vi to_int(Vf v) { return _mm_cvtps_epi32(v); }
inline Vi as_int(Vf v) { return _mm_castps_si128(v); }
inline Vf as_float(Vi v) { return _mm_castsi128_ps(v); }
inline Vi load_u8(const std::uint8_t* p) {
  std::int32_t bytes;
  std::memcpy(&bytes, p, 4);
  return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes));
}
inline Vi load_s8(const std::int8_t* p) {
  std::int32_t bytes;
  std::memcpy(&bytes, p, 4);
  return _mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes));
}
inline void store_s8(std::int8_t* p, Vi v) {
  const __m128i words = _mm_packs_epi32(v, v);
  const std::int32_t bytes = _mm_cvtsi128_si32(_mm_packs_epi16(words, words));
  std::memcpy(p, &bytes, 4);
}
inline Vi lookup16(Table16 table, Vi index) { return _mm_shuffle_epi8(table, index); }
inline float sum(Vf v) {
  const __m128 d = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline Vi multiply_bytes(Vi u, Vi s) { return _mm_maddubs_epi16(u, s); }
template <bool Odd>
inline Vi wide_bytes(Vi w) {
  return Odd ? _mm_and_si128(w, _mm_set1_epi16(-256)) : _mm_slli_epi16(w, 8);
}
inline Vi multiply_words(Vi a, Vi b) { return _mm_madd_epi16(a, b); }
inline void store_s16_even_odd(std::int16_t* p, Vi v) {
  const __m128i order = _mm_shuffle_epi32(v, 0xD8);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi32(order, order));
}
inline Vi add16(Vi a, Vi b) { return _mm_add_epi16(a, b); }
inline Vi widen_pairs(Vi a) { return _mm_madd_epi16(a, _mm_set1_epi16(1)); }

#endif

/// Signed bytes are widened to meet activations of 16 bits: on AVX2 |w| and sign(a, w) would take three of the four
/// operations of a product to the two ports that multiply.
#if defined(__x86_64__) && !defined(__AVX512VNNI__)
constexpr bool kWideSigned = true;
#else
constexpr bool kWideSigned = false;
template <bool Odd>
Vi wide_bytes(Vi w) = delete;
template <class V>
V multiply_words(V a, V b) = delete;
#endif

#if !defined(__aarch64__)
/// Pins a value to a register here: the compiler may neither reorder a chain of sums through it nor spill
/// what it would rather compute early.
inline void keep(Vi& v) {
#if defined(__AVX512F__)
  __asm__("" : "+v"(v));
#else
  __asm__("" : "+x"(v));
#endif
}
#endif
/// Makes the compiler forget what it loaded through p: loading again is cheaper than a spill.
template <class T>
inline void forget(const T*& p) {
  __asm__("" : "+r"(p));
}

/// All lanes become the 4 bytes at p.
inline Vi broadcast4(const void* p) {
  std::int32_t bytes;
  std::memcpy(&bytes, p, 4);
  return iset1(bytes);
}
inline Vi bytes(int v) {
  return iset1(static_cast<std::int32_t>(static_cast<std::uint8_t>(v) * 0x01010101U));
}
inline Vf magnitude(Vf v) { return as_float(iand(as_int(v), iset1(0x7FFFFFFF))); }

#if !defined(__aarch64__)
inline float square_root(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }
#endif

/// Largest lane and sum of the lanes.
#if defined(__AVX512F__)
inline std::int32_t max_lane(Vi v) { return _mm512_reduce_max_epi32(v); }
inline std::int32_t sum(Vi v) { return _mm512_reduce_add_epi32(v); }
#elif !defined(__aarch64__)
inline __m128i folded_max(__m128i v) { return v; }
inline __m128i folded_sum(__m128i v) { return v; }
#if defined(__AVX2__)
inline __m128i folded_max(__m256i v) {
  return _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}
inline __m128i folded_sum(__m256i v) {
  return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}
#endif
inline std::int32_t max_lane(Vi v) {
  __m128i m = folded_max(v);
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1)));
}
inline std::int32_t sum(Vi v) {
  __m128i s = folded_sum(v);
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}
#endif

/// x[i] = e^x[i] to about 2 ulp for N vectors: 0 below -86.9, NaN stays NaN; infinity above 88.7 unless Negative, which
/// promises x <= 0 and saves the operations. Step by step over all N, for one alone waits for its own results.
/// Cody and Waite's reduction to |r| <= ln 2 / 2, then the Taylor polynomial of degree 7.
template <bool Negative, int N>
inline void exp_all(Vf (&x)[N]) {
  static constexpr float kTerms[] = {
      1.38888889e-3F, 8.33333333e-3F, 4.16666667e-2F, 1.66666667e-1F, 0.5F, 1.0F, 1.0F};
  const Vf low = set1(-86.9F);
  const Vf high = set1(88.72284F);
  Vf r[N];
  Vi n[N];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    r[i] = Negative ? x[i] : min(high, max(low, x[i]));
    n[i] = to_int(mul(r[i], set1(1.44269504F)));
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) r[i] = fma(to_float(n[i]), set1(-0.693145752F), r[i]);
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) r[i] = fma(to_float(n[i]), set1(-1.42860677e-6F), r[i]);
  Vf p[N];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) p[i] = set1(1.98412698e-4F);
#pragma GCC unroll 8
  for (const float term : kTerms) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) p[i] = fma(p[i], r[i], set1(term));
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    // 2^n in two steps, so that n = 128 does not overflow the exponent on the way.
    const Vf scaled = Negative
                          ? mul(p[i], as_float(shift_left32(iadd(n[i], iset1(127)), 23)))
                          : mul(mul(p[i], set1(2.0F)), as_float(shift_left32(iadd(n[i], iset1(126)), 23)));
    const Vf bounded = select_less(x[i], low, zero(), scaled);
    x[i] = Negative ? bounded : select_less(high, x[i], set1(bits_to_float(0x7F800000U)), bounded);
  }
}

inline Vf exp(Vf x) {
  Vf one[1] = {x};
  exp_all<false>(one);
  return one[0];
}

inline Vf silu(Vf x) { return div(x, add(set1(1.0F), exp(sub(zero(), x)))); }

/// x * sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3): GELU by its tanh approximation.
inline Vf gelu_tanh(Vf x) {
  const Vf cubic = mul(mul(mul(x, x), x), set1(0.044715F));
  const Vf u = mul(add(x, cubic), set1(-1.59576912F));
  return div(x, add(set1(1.0F), exp(u)));
}

}  // namespace simd
}  // namespace
