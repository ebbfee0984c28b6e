#include "ops/linear/tile_writer.h"

namespace met::ops {
namespace {

std::size_t at(int k, int c) { return static_cast<std::size_t>(k / 4 * 64 + c * 4 + k % 4); }

/// 32 numbers of 4 bits: value k in the low (k < 16) or high half of the byte of k % 16.
void put_nibbles(std::byte* quants, int c, const std::uint8_t (&q)[32]) {
  for (int k = 0; k < 16; ++k) quants[at(k, c)] = std::byte(q[k] | q[k + 16] << 4);
}
void put_bytes(std::byte* quants, int c, const std::uint8_t (&q)[32]) {
  for (int k = 0; k < 32; ++k) quants[at(k, c)] = std::byte{q[k]};
}
void put_half(std::byte* halves, int c, const std::byte* from) { std::memcpy(halves + 2 * c, from, 2); }

/// ggml's order of a nibble block: byte i holds values i and i + 16.
void unpack_nibbles(const std::byte* from, std::uint8_t (&q)[32]) {
  for (int i = 0; i < 16; ++i) {
    const auto byte = std::to_integer<std::uint8_t>(from[i]);
    q[i] = byte & 15U;
    q[i + 16] = byte >> 4U;
  }
}

}  // namespace

void write_q4_0(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 18, tile += 288) {
    std::uint8_t q[32];
    put_half(tile, c, row);
    unpack_nibbles(row + 2, q);
    put_nibbles(tile + 32, c, q);
  }
}

void write_q4_1(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 20, tile += 320) {
    std::uint8_t q[32];
    put_half(tile, c, row);
    put_half(tile + 32, c, row + 2);
    unpack_nibbles(row + 4, q);
    put_nibbles(tile + 64, c, q);
  }
}

void write_q8_0(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t b = 0; b < k / 32; ++b, row += 34, tile += 544) {
    std::uint8_t q[32];
    put_half(tile, c, row);
    std::memcpy(q, row + 2, 32);
    put_bytes(tile + 32, c, q);
  }
}

}  // namespace met::ops
