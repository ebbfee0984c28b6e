// Formats whose super-block is 256 values: eight blocks of 32 with scales of two levels.
#include "ops/linear/tile_writer.h"

namespace met::ops {
namespace {

unsigned at(const std::byte* p, int i) { return std::to_integer<unsigned>(p[i]); }

/// Values [32 b, 32 b + 32) of 256 two-bit numbers: runs of 128 values share 32 bytes.
void unpack_pairs(const std::byte* from, int b, std::uint8_t (&q)[32]) {
  for (int i = 0; i < 32; ++i) q[i] = static_cast<std::uint8_t>(at(from, b / 4 * 32 + i) >> (b % 4 * 2) & 3U);
}

/// Scale and minimum of block b of Q4_K and Q5_K, 6 bits each in 12 bytes.
void six_bit_pair(const std::byte* s, int b, std::byte* scale, std::byte* minimum) {
  if (b < 4) {
    *scale = std::byte(at(s, b) & 63U);
    *minimum = std::byte(at(s, b + 4) & 63U);
  } else {
    *scale = std::byte((at(s, b + 4) & 15U) | at(s, b - 4) >> 6U << 4U);
    *minimum = std::byte(at(s, b + 4) >> 4U | at(s, b) >> 6U << 4U);
  }
}

/// Scale j (of 16 values) of Q3_K: 6 bits, stored plus 32.
std::byte q3_scale(const std::byte* s, int j) {
  const unsigned low = j < 8 ? at(s, j) & 15U : at(s, j - 8) >> 4U;
  const unsigned high = at(s, 8 + j % 4) >> (2 * (j / 4)) & 3U;
  return std::byte((low | high << 4U) - 32U);
}

}  // namespace

void write_q2_k(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t s = 0; s < k / 256; ++s, row += 84) {
    put_half(tile, c, row + 80);
    put_half(tile + 32, c, row + 82);
    tile += 64;
    for (int b = 0; b < 8; ++b, tile += 160) {
      std::uint8_t q[32];
      unpack_pairs(row + 16, b, q);
      tile[c] = row[2 * b];
      tile[16 + c] = row[2 * b + 1];
      BlockColumn(tile + 32, c).pairs(q, 0, 0);
    }
  }
}

void write_q3_k(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t s = 0; s < k / 256; ++s, row += 110) {
    put_half(tile, c, row + 108);
    tile += 32;
    for (int b = 0; b < 8; ++b, tile += 224) {
      std::uint8_t q[32];
      unpack_pairs(row + 32, b, q);
      for (int i = 0; i < 32; ++i) q[i] |= static_cast<std::uint8_t>((at(row, i) >> b & 1U) << 2U);
      tile[c] = q3_scale(row + 96, 2 * b);
      tile[16 + c] = q3_scale(row + 96, 2 * b + 1);
      BlockColumn to(tile + 32, c);
      to.pairs(q, 0, 0);
      to.plane(q, 2, 128);
    }
  }
}

void write_q4_k(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t s = 0; s < k / 256; ++s, row += 144) {
    put_half(tile, c, row);
    put_half(tile + 32, c, row + 2);
    tile += 64;
    for (int b = 0; b < 8; ++b, tile += 288) {
      std::uint8_t q[32];
      six_bit_pair(row + 4, b, tile + c, tile + 16 + c);
      for (int i = 0; i < 32; ++i)
        q[i] = static_cast<std::uint8_t>(at(row, 16 + b / 2 * 32 + i) >> (b % 2 * 4) & 15U);
      BlockColumn(tile + 32, c).nibbles(q);
    }
  }
}

void write_q5_k(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t s = 0; s < k / 256; ++s, row += 176) {
    put_half(tile, c, row);
    put_half(tile + 32, c, row + 2);
    tile += 64;
    for (int b = 0; b < 8; ++b, tile += 352) {
      std::uint8_t q[32];
      six_bit_pair(row + 4, b, tile + c, tile + 16 + c);
      for (int i = 0; i < 32; ++i) {
        const unsigned low = at(row, 48 + b / 2 * 32 + i) >> (b % 2 * 4) & 15U;
        q[i] = static_cast<std::uint8_t>(low | (at(row, 16 + i) >> b & 1U) << 4U);
      }
      BlockColumn to(tile + 32, c);
      to.nibbles(q);
      to.plane(q, 4, 256);
    }
  }
}

void write_q6_k(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t s = 0; s < k / 256; ++s, row += 210) {
    put_half(tile, c, row + 208);
    tile += 32;
    for (int b = 0; b < 8; ++b, tile += 416) {
      // A run of 128 values: low bits in 64 bytes (blocks 0 and 1, then 2 and 3 in the high halves), high
      // bits in 32.
      const std::byte* low = row + b / 4 * 64 + b % 2 * 32;
      const std::byte* high = row + 128 + b / 4 * 32;
      std::uint8_t q[32];
      for (int i = 0; i < 32; ++i)
        q[i] = static_cast<std::uint8_t>((at(low, i) >> (b % 4 / 2 * 4) & 15U) |
                                         (at(high, i) >> (b % 4 * 2) & 3U) << 4U);
      tile[c] = row[192 + 2 * b];
      tile[16 + c] = row[192 + 2 * b + 1];
      BlockColumn to(tile + 32, c);
      to.nibbles(q);
      to.pairs(q, 4, 256);
    }
  }
}

void write_iq4_xs(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t s = 0; s < k / 256; ++s, row += 136) {
    put_half(tile, c, row);
    tile += 32;
    for (int b = 0; b < 8; ++b, tile += 272) {
      const unsigned low = at(row, 4 + b / 2) >> (b % 2 * 4) & 15U;
      const unsigned high = (at(row, 2) | at(row, 3) << 8U) >> (2 * b) & 3U;
      tile[c] = std::byte((low | high << 4U) - 32U);
      std::uint8_t q[32];
      for (int i = 0; i < 16; ++i) {
        q[i] = static_cast<std::uint8_t>(at(row, 8 + b * 16 + i) & 15U);
        q[i + 16] = static_cast<std::uint8_t>(at(row, 8 + b * 16 + i) >> 4U);
      }
      BlockColumn(tile + 16, c).nibbles(q);
    }
  }
}

}  // namespace met::ops
