// AVX-512 (VNNI) and AMX for a processor that has neither: the intrinsics that kernels/cpu uses, in plain C++ as Intel's
// manual describes the instructions. A kernel source compiled with this folder first in its include path runs the code
// of those instruction sets anywhere. Wrong shapes of tiles end the process, as they would raise a fault.
#pragma once

#include_next <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __AVX512F__ 1
#define __AVX512VNNI__ 1
#define __AMX_INT8__ 1

namespace {
namespace emulated {

template <class To, class From>
inline To bits(const From& from) {
  static_assert(sizeof(To) <= sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// The lanes of a vector as an array.
template <class T>
struct Lanes {
  static constexpr int kCount = 64 / sizeof(T);
  alignas(64) T v[kCount];
};
using F32 = Lanes<float>;
using I32 = Lanes<std::int32_t>;
using U32 = Lanes<std::uint32_t>;
using U16 = Lanes<std::uint16_t>;
using U8 = Lanes<std::uint8_t>;
using S8 = Lanes<std::int8_t>;

/// A vector whose lane i is f(i).
template <class L, class Vector, class Function>
inline Vector each(Function f) {
  L to;
  for (int i = 0; i < L::kCount; ++i) to.v[i] = f(i);
  return bits<Vector>(to);
}
template <class Function>
inline __m512 floats(Function f) {
  return each<F32, __m512>(f);
}
template <class L, class Function>
inline __m512i integers(Function f) {
  return each<L, __m512i>(f);
}
template <class Function>
inline __m512 floats2(__m512 x, __m512 y, Function f) {
  const F32 a = bits<F32>(x), b = bits<F32>(y);
  return floats([&](int i) { return f(a.v[i], b.v[i]); });
}
template <class L, class Function>
inline __m512i integers2(__m512i x, __m512i y, Function f) {
  const L a = bits<L>(x), b = bits<L>(y);
  return integers<L>(
      [&](int i) { return static_cast<std::remove_cvref_t<decltype(a.v[0])>>(f(a.v[i], b.v[i])); });
}

inline __m512 setzero_ps() {
  return floats([](int) { return 0.0F; });
}
inline __m512 set1_ps(float x) {
  return floats([x](int) { return x; });
}
inline __m512 loadu_ps(const void* p) {
  return floats([p](int i) { return static_cast<const float*>(p)[i]; });
}
inline void storeu_ps(void* p, __m512 x) { std::memcpy(p, &x, 64); }
inline __m512 add_ps(__m512 x, __m512 y) {
  return floats2(x, y, [](float a, float b) { return a + b; });
}
inline __m512 sub_ps(__m512 x, __m512 y) {
  return floats2(x, y, [](float a, float b) { return a - b; });
}
inline __m512 mul_ps(__m512 x, __m512 y) {
  return floats2(x, y, [](float a, float b) { return a * b; });
}
inline __m512 div_ps(__m512 x, __m512 y) {
  return floats2(x, y, [](float a, float b) { return a / b; });
}
inline __m512 min_ps(__m512 x, __m512 y) {
  return floats2(x, y, [](float a, float b) { return a < b ? a : b; });
}
inline __m512 max_ps(__m512 x, __m512 y) {
  return floats2(x, y, [](float a, float b) { return a > b ? a : b; });
}
inline __m512 fmadd_ps(__m512 x, __m512 y, __m512 z) {
  const F32 a = bits<F32>(x), b = bits<F32>(y), c = bits<F32>(z);
  return floats([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
inline std::uint16_t cmp_ps_mask(__m512 x, __m512 y, int predicate) {
  if (predicate != _CMP_LT_OQ) std::abort();
  const F32 a = bits<F32>(x), b = bits<F32>(y);
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i) mask |= a.v[i] < b.v[i] ? 1U << i : 0U;
  return static_cast<std::uint16_t>(mask);
}
inline __m512 mask_blend_ps(std::uint16_t mask, __m512 x, __m512 y) {
  const F32 a = bits<F32>(x), b = bits<F32>(y);
  return floats([&](int i) { return (mask >> i & 1) != 0 ? b.v[i] : a.v[i]; });
}
inline __m512 cvtph_ps(__m256i halves) {
  std::uint16_t h[16];
  std::memcpy(h, &halves, sizeof h);
  return floats([&](int i) { return _cvtsh_ss(h[i]); });
}
inline __m256i cvtps_ph(__m512 x, int) {
  const F32 a = bits<F32>(x);
  std::uint16_t h[16];
  for (int i = 0; i < 16; ++i) h[i] = _cvtss_sh(a.v[i], _MM_FROUND_TO_NEAREST_INT);
  __m256i to;
  std::memcpy(&to, h, sizeof h);
  return to;
}
inline __m512 castsi512_ps(__m512i x) { return bits<__m512>(x); }
inline __m512i castps_si512(__m512 x) { return bits<__m512i>(x); }
inline __m256 castps512_ps256(__m512 x) { return bits<__m256>(x); }
inline __m256 extractf32x8_ps(__m512 x, int half) {
  __m256 to;
  std::memcpy(&to, reinterpret_cast<const char*>(&x) + 32 * half, 32);
  return to;
}

inline __m512i setzero_si512() {
  return integers<I32>([](int) { return 0; });
}
inline __m512i set1_epi32(std::int32_t x) {
  return integers<I32>([x](int) { return x; });
}
inline __m512i loadu_si512(const void* p) {
  return integers<I32>([p](int i) {
    std::int32_t v;
    std::memcpy(&v, static_cast<const char*>(p) + 4 * i, 4);
    return v;
  });
}
inline void storeu_si512(void* p, __m512i x) { std::memcpy(p, &x, 64); }
inline __m512i and_si512(__m512i x, __m512i y) {
  return integers2<U32>(x, y, [](auto a, auto b) { return a & b; });
}
inline __m512i or_si512(__m512i x, __m512i y) {
  return integers2<U32>(x, y, [](auto a, auto b) { return a | b; });
}
inline __m512i xor_si512(__m512i x, __m512i y) {
  return integers2<U32>(x, y, [](auto a, auto b) { return a ^ b; });
}
inline __m512i add_epi32(__m512i x, __m512i y) {
  return integers2<U32>(x, y, [](auto a, auto b) { return a + b; });
}
inline __m512i sub_epi32(__m512i x, __m512i y) {
  return integers2<U32>(x, y, [](auto a, auto b) { return a - b; });
}
inline __m512i max_epi32(__m512i x, __m512i y) {
  return integers2<I32>(x, y, [](auto a, auto b) { return a > b ? a : b; });
}
inline __m512i slli_epi32(__m512i x, int n) {
  return integers2<U32>(x, x, [n](auto a, auto) { return a << n; });
}
inline __m512i srli_epi16(__m512i x, int n) {
  return integers2<U16>(x, x, [n](auto a, auto) { return a >> n; });
}
inline __m512i slli_epi16(__m512i x, int n) {
  return integers2<U16>(x, x, [n](auto a, auto) { return a << n; });
}
inline __m512 cvtepi32_ps(__m512i x) {
  const I32 a = bits<I32>(x);
  return floats([&](int i) { return static_cast<float>(a.v[i]); });
}
inline __m512i cvtps_epi32(__m512 x) {
  const F32 a = bits<F32>(x);
  return integers<I32>([&](int i) { return _mm_cvtss_si32(_mm_set_ss(a.v[i])); });
}
template <class T, class Source>
inline __m512i widened(Source source) {
  T from[16];
  std::memcpy(from, &source, sizeof from);
  return integers<I32>([&](int i) { return static_cast<std::int32_t>(from[i]); });
}
inline __m512i cvtepu16_epi32(__m256i x) { return widened<std::uint16_t>(x); }
inline __m512i cvtepu8_epi32(__m128i x) { return widened<std::uint8_t>(x); }
inline __m512i cvtepi8_epi32(__m128i x) { return widened<std::int8_t>(x); }
inline __m128i cvtsepi32_epi8(__m512i x) {
  const I32 a = bits<I32>(x);
  std::int8_t b[16];
  for (int i = 0; i < 16; ++i)
    b[i] = static_cast<std::int8_t>(a.v[i] > 127 ? 127 : a.v[i] < -128 ? -128 : a.v[i]);
  __m128i to;
  std::memcpy(&to, b, sizeof b);
  return to;
}
inline __m512i broadcast_i32x4(__m128i x) {
  std::int32_t q[4];
  std::memcpy(q, &x, sizeof q);
  return integers<I32>([&](int i) { return q[i % 4]; });
}
inline __m512i shuffle_epi8(__m512i table, __m512i index) {
  const U8 t = bits<U8>(table), at = bits<U8>(index);
  return integers<U8>([&](int i) {
    return static_cast<std::uint8_t>((at.v[i] & 0x80) != 0 ? 0 : t.v[i / 16 * 16 + (at.v[i] & 15)]);
  });
}
inline std::int32_t reduce_max_epi32(__m512i x) {
  const I32 a = bits<I32>(x);
  std::int32_t largest = a.v[0];
  for (const std::int32_t v : a.v) largest = v > largest ? v : largest;
  return largest;
}
inline std::int32_t reduce_add_epi32(__m512i x) {
  const U32 a = bits<U32>(x);
  std::uint32_t sum = 0;
  for (const std::uint32_t v : a.v) sum += v;
  return static_cast<std::int32_t>(sum);
}
inline __m512i dpbusd_epi32(__m512i sums, __m512i x, __m512i y) {
  const I32 s = bits<I32>(sums);
  const U8 a = bits<U8>(x);
  const S8 b = bits<S8>(y);
  return integers<I32>([&](int i) {
    std::int32_t sum = s.v[i];
    for (int j = 4 * i; j < 4 * i + 4; ++j) sum += a.v[j] * b.v[j];
    return sum;
  });
}

/// The tiles of a thread and what LDTILECFG read.
struct Tiles {
  struct {
    std::uint8_t palette, start_row, reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
  } shape{};
  std::uint8_t data[8][16][64]{};

  void check(bool valid) const {
    if (shape.palette != 1 || !valid) std::abort();
  }
};
inline thread_local Tiles tiles;

inline void tile_loadconfig(const void* p) {
  tiles = {};
  std::memcpy(&tiles.shape, p, 64);
  for (int t = 0; t < 16; ++t)
    tiles.check(tiles.shape.rows[t] <= (t < 8 ? 16 : 0) && tiles.shape.row_bytes[t] <= (t < 8 ? 64 : 0));
}
inline void tile_release() { tiles = {}; }
inline void tile_zero(int t) {
  tiles.check(true);
  std::memset(tiles.data[t], 0, sizeof tiles.data[t]);
}
inline void tile_loadd(int t, const void* p, std::size_t stride) {
  tiles.check(tiles.shape.rows[t] > 0);
  std::memset(tiles.data[t], 0, sizeof tiles.data[t]);
  for (int r = 0; r < tiles.shape.rows[t]; ++r)
    std::memcpy(tiles.data[t][r], static_cast<const char*>(p) + static_cast<std::size_t>(r) * stride,
                tiles.shape.row_bytes[t]);
}
inline void tile_stored(int t, void* p, std::size_t stride) {
  tiles.check(tiles.shape.rows[t] > 0);
  for (int r = 0; r < tiles.shape.rows[t]; ++r)
    std::memcpy(static_cast<char*>(p) + static_cast<std::size_t>(r) * stride, tiles.data[t][r],
                tiles.shape.row_bytes[t]);
}
/// sums += a * b: four bytes of a row of a times four of a column of b.
template <class B>
inline void tile_multiply(int sums, int a, int b) {
  const int rows = tiles.shape.rows[sums], columns = tiles.shape.row_bytes[sums] / 4,
            depth = tiles.shape.row_bytes[a] / 4;
  tiles.check(rows == tiles.shape.rows[a] && depth == tiles.shape.rows[b] &&
              4 * columns == tiles.shape.row_bytes[b]);
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < columns; ++n) {
      std::int32_t sum;
      std::memcpy(&sum, &tiles.data[sums][m][4 * n], 4);
      for (int k = 0; k < depth; ++k)
        for (int i = 0; i < 4; ++i)
          sum += static_cast<std::int8_t>(tiles.data[a][m][4 * k + i]) *
                 static_cast<B>(tiles.data[b][k][4 * n + i]);
      std::memcpy(&tiles.data[sums][m][4 * n], &sum, 4);
    }
}

}  // namespace emulated
}  // namespace

#undef _mm512_setzero_ps
#define _mm512_setzero_ps emulated::setzero_ps
#undef _mm512_set1_ps
#define _mm512_set1_ps emulated::set1_ps
#undef _mm512_loadu_ps
#define _mm512_loadu_ps emulated::loadu_ps
#undef _mm512_storeu_ps
#define _mm512_storeu_ps emulated::storeu_ps
#undef _mm512_add_ps
#define _mm512_add_ps emulated::add_ps
#undef _mm512_sub_ps
#define _mm512_sub_ps emulated::sub_ps
#undef _mm512_mul_ps
#define _mm512_mul_ps emulated::mul_ps
#undef _mm512_div_ps
#define _mm512_div_ps emulated::div_ps
#undef _mm512_min_ps
#define _mm512_min_ps emulated::min_ps
#undef _mm512_max_ps
#define _mm512_max_ps emulated::max_ps
#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps emulated::fmadd_ps
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask emulated::cmp_ps_mask
#undef _mm512_mask_blend_ps
#define _mm512_mask_blend_ps emulated::mask_blend_ps
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps emulated::cvtph_ps
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph emulated::cvtps_ph
#undef _mm512_castsi512_ps
#define _mm512_castsi512_ps emulated::castsi512_ps
#undef _mm512_castps_si512
#define _mm512_castps_si512 emulated::castps_si512
#undef _mm512_castps512_ps256
#define _mm512_castps512_ps256 emulated::castps512_ps256
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps emulated::extractf32x8_ps
#undef _mm512_setzero_si512
#define _mm512_setzero_si512 emulated::setzero_si512
#undef _mm512_set1_epi32
#define _mm512_set1_epi32 emulated::set1_epi32
#undef _mm512_loadu_si512
#define _mm512_loadu_si512 emulated::loadu_si512
#undef _mm512_storeu_si512
#define _mm512_storeu_si512 emulated::storeu_si512
#undef _mm512_and_si512
#define _mm512_and_si512 emulated::and_si512
#undef _mm512_or_si512
#define _mm512_or_si512 emulated::or_si512
#undef _mm512_xor_si512
#define _mm512_xor_si512 emulated::xor_si512
#undef _mm512_add_epi32
#define _mm512_add_epi32 emulated::add_epi32
#undef _mm512_sub_epi32
#define _mm512_sub_epi32 emulated::sub_epi32
#undef _mm512_max_epi32
#define _mm512_max_epi32 emulated::max_epi32
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 emulated::slli_epi32
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 emulated::srli_epi16
#undef _mm512_slli_epi16
#define _mm512_slli_epi16 emulated::slli_epi16
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps emulated::cvtepi32_ps
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 emulated::cvtps_epi32
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 emulated::cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 emulated::cvtepu8_epi32
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 emulated::cvtepi8_epi32
#undef _mm512_cvtsepi32_epi8
#define _mm512_cvtsepi32_epi8 emulated::cvtsepi32_epi8
#undef _mm512_broadcast_i32x4
#define _mm512_broadcast_i32x4 emulated::broadcast_i32x4
#undef _mm512_shuffle_epi8
#define _mm512_shuffle_epi8 emulated::shuffle_epi8
#undef _mm512_reduce_max_epi32
#define _mm512_reduce_max_epi32 emulated::reduce_max_epi32
#undef _mm512_reduce_add_epi32
#define _mm512_reduce_add_epi32 emulated::reduce_add_epi32
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32 emulated::dpbusd_epi32
#undef _tile_loadconfig
#define _tile_loadconfig emulated::tile_loadconfig
#undef _tile_release
#define _tile_release emulated::tile_release
#undef _tile_zero
#define _tile_zero emulated::tile_zero
#undef _tile_loadd
#define _tile_loadd emulated::tile_loadd
#undef _tile_stored
#define _tile_stored emulated::tile_stored
#undef _tile_dpbssd
#define _tile_dpbssd emulated::tile_multiply<std::int8_t>
#undef _tile_dpbsud
#define _tile_dpbsud emulated::tile_multiply<std::uint8_t>
