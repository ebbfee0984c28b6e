// Formats whose block is 32 values.
#include "ops/linear/tile_writer.h"

namespace met::ops {
namespace {

/// ggml's order of a nibble block: byte i holds values i and i + 16.
void unpack_nibbles(const std::byte* from, std::uint8_t (&q)[32]) {
  for (int i = 0; i < 16; ++i) {
    const auto byte = std::to_integer<std::uint8_t>(from[i]);
    q[i] = byte & 15U;
    q[i + 16] = byte >> 4U;
  }
}

/// Adds bit k of 32 as the fifth bit of value k.
void add_fifth_bits(const std::byte* from, std::uint8_t (&q)[32]) {
  for (int k = 0; k < 32; ++k)
    q[k] |= static_cast<std::uint8_t>((std::to_integer<unsigned>(from[k / 8]) >> (k % 8) & 1U) << 4U);
}

}  // namespace

void write_q4_0(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 18, tile += 288) {
    std::uint8_t q[32];
    put_half(tile, c, row);
    unpack_nibbles(row + 2, q);
    BlockColumn(tile + 32, c).nibbles(q);
  }
}

void write_q4_1(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 20, tile += 320) {
    std::uint8_t q[32];
    put_half(tile, c, row);
    put_half(tile + 32, c, row + 2);
    unpack_nibbles(row + 4, q);
    BlockColumn(tile + 64, c).nibbles(q);
  }
}

void write_q5_0(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 22, tile += 352) {
    std::uint8_t q[32];
    put_half(tile, c, row);
    unpack_nibbles(row + 6, q);
    add_fifth_bits(row + 2, q);
    BlockColumn to(tile + 32, c);
    to.nibbles(q);
    to.plane(q, 4, 256);
  }
}

void write_q5_1(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 24, tile += 384) {
    std::uint8_t q[32];
    put_half(tile, c, row);
    put_half(tile + 32, c, row + 2);
    unpack_nibbles(row + 8, q);
    add_fifth_bits(row + 4, q);
    BlockColumn to(tile + 64, c);
    to.nibbles(q);
    to.plane(q, 4, 256);
  }
}

void write_q8_0(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 34, tile += 544) {
    std::uint8_t q[32];
    put_half(tile, c, row);
    std::memcpy(q, row + 2, 32);
    BlockColumn(tile + 32, c).bytes(q);
  }
}

void write_iq4_nl(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  write_q4_0(row, k, c, tile);
}

void write_mxfp4(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 17, tile += 272) {
    std::uint8_t q[32];
    tile[c] = row[0];
    unpack_nibbles(row + 1, q);
    BlockColumn(tile + 16, c).nibbles(q);
  }
}

}  // namespace met::ops
