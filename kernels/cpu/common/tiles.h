// Sixteen rows of int8 times a block of 16 columns in the tiles of AMX: one instruction where VNNI takes 128. The
// sums are exact, so that they may meet those of any other instruction set.
#pragma once

#include "simd.h"

namespace {
namespace tiles {

constexpr int kRows = 16;

#if defined(__AMX_INT8__)

constexpr bool kHas = true;

/// Gives a thread its tiles while it multiplies: 0 holds sums, 1 and 2 rows and weights of 32 k, 3 and 4 of 16 k.
class Session {
 public:
  Session() {
    Shapes shapes;
    const auto shape = [&shapes](int tile, int rows, int row_bytes) {
      shapes.rows[tile] = static_cast<std::uint8_t>(rows);
      shapes.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
    };
    shape(0, kRows, 64);
    shape(1, kRows, 32);
    shape(2, 8, 64);
    shape(3, kRows, 16);
    shape(4, 4, 64);
    _tile_loadconfig(&shapes);
  }
  ~Session() { _tile_release(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  /// As LDTILECFG reads it.
  struct alignas(64) Shapes {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Shapes) == 64);
};

/// sums[r][c] = sum over 4 * Groups k of row r times column c. Rows lie `stride` bytes apart; weights are Groups
/// vectors of [column][k % 4], bytes that are signed or not.
template <int Groups, bool Signed>
inline void multiply(const std::int8_t* rows, std::size_t stride, const std::uint8_t* weights,
                     std::int32_t (&sums)[kRows][16]) {
  static_assert(Groups == 8 || Groups == 4);
  __asm__ volatile("" ::: "memory");  // GCC's tile loads do not say that they read memory
  _tile_zero(0);
  if constexpr (Groups == 8) {
    _tile_loadd(1, rows, stride);
    _tile_loadd(2, weights, 64);
    if constexpr (Signed)
      _tile_dpbssd(0, 1, 2);
    else
      _tile_dpbsud(0, 1, 2);
  } else {
    _tile_loadd(3, rows, stride);
    _tile_loadd(4, weights, 64);
    if constexpr (Signed)
      _tile_dpbssd(0, 3, 4);
    else
      _tile_dpbsud(0, 3, 4);
  }
  _tile_stored(0, sums, 64);
  __asm__ volatile("" ::: "memory");
}

#else

constexpr bool kHas = false;
class Session {};
template <int Groups, bool Signed>
void multiply(const std::int8_t*, std::size_t, const std::uint8_t*, std::int32_t (&)[kRows][16]) = delete;

#endif

}  // namespace tiles
}  // namespace
