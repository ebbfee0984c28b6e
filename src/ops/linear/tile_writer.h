// Writes one row of W, in its file format, into column c of a zeroed packed tile. Private to linear_pack. The
// packed blocks are described in kernels/cpu/common/{packed,quants}.h, the file's in ggml's documentation of
// its types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/linear/linear_pack.h"

namespace met::ops {

using TileWriter = void (*)(const std::byte* row, std::int64_t k, int c, std::byte* tile);

/// `tile` is a pair of tiles, c of its 32 columns: [k][2][16].
template <std::size_t Bytes>
void write_floats(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t i = 0; i < k; ++i)
    std::memcpy(tile + (static_cast<std::size_t>(i) * 32 + static_cast<std::size_t>(c)) * Bytes,
                row + static_cast<std::size_t>(i) * Bytes, Bytes);
}
/// The same: [k][16][2].
inline void write_bf16(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  write_floats<2>(row, k, c % 16 * 2 + c / 16, tile);
}
/// Scales become 1, or NaN where a group holds a NaN code; scale_e4m3 then multiplies them by those of row `row`.
void write_e4m3(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void scale_e4m3(const E4m3Scales& scales, std::int64_t row, std::int64_t k, int c, std::byte* tile);
void write_q4_0(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q4_1(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q5_0(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q5_1(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q8_0(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_iq4_nl(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_mxfp4(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q2_k(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q3_k(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q4_k(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q5_k(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q6_k(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_iq4_xs(const std::byte* row, std::int64_t k, int c, std::byte* tile);

/// Column c of a block: 32 numbers put where their bits belong.
class BlockColumn {
 public:
  BlockColumn(std::byte* quants, int c) : quants_(quants), c_(c) {}

  /// The low 4 bits: [k % 16 / 4][column][k % 4], k >= 16 in the high half.
  void nibbles(const std::uint8_t (&q)[32]) {
    for (int k = 0; k < 16; ++k) quants_[at(k)] = std::byte((q[k] & 15U) | (q[k + 16] & 15U) << 4U);
  }
  /// Bit `bit` of each, from byte `offset` on: bit k / 4 of [column][k % 4].
  void plane(const std::uint8_t (&q)[32], int bit, std::size_t offset) {
    for (int k = 0; k < 32; ++k) quants_[offset + at(k % 4)] |= std::byte((q[k] >> bit & 1U) << (k / 4));
  }
  /// Bits [bit, bit + 2) of each, from byte `offset` on: pair k / 4 % 4 of [k / 16][column][k % 4].
  void pairs(const std::uint8_t (&q)[32], int bit, std::size_t offset) {
    for (int k = 0; k < 32; ++k)
      quants_[offset + static_cast<std::size_t>(k / 16 * 64) + at(k % 4)] |=
          std::byte((q[k] >> bit & 3U) << (k / 4 % 4 * 2));
  }
  /// All 8 bits.
  void bytes(const std::uint8_t (&q)[32]) {
    for (int k = 0; k < 32; ++k) quants_[at(k)] = std::byte{q[k]};
  }

 private:
  std::size_t at(int k) const { return static_cast<std::size_t>(k / 4 * 64 + c_ * 4 + k % 4); }
  std::byte* quants_;
  int c_;
};

inline void put_half(std::byte* halves, int c, const std::byte* from) {
  std::memcpy(halves + 2 * c, from, 2);
}

}  // namespace met::ops
