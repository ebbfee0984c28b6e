// Writes one row of W, in its file format, into column c of a zeroed packed tile. Private to linear_pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace met::ops {

using TileWriter = void (*)(const std::byte* row, std::int64_t k, int c, std::byte* tile);

template <std::size_t Bytes>
std::size_t float_tile_bytes(std::int64_t k) {
  return static_cast<std::size_t>(k) * 16 * Bytes;
}
template <std::size_t BlockBytes>
std::size_t block32_tile_bytes(std::int64_t k) {
  return static_cast<std::size_t>(k / 32) * BlockBytes;
}

template <std::size_t Bytes>
void write_floats(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t i = 0; i < k; ++i)
    std::memcpy(tile + (static_cast<std::size_t>(i) * 16 + static_cast<std::size_t>(c)) * Bytes,
                row + static_cast<std::size_t>(i) * Bytes, Bytes);
}
void write_q4_0(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q4_1(const std::byte* row, std::int64_t k, int c, std::byte* tile);
void write_q8_0(const std::byte* row, std::int64_t k, int c, std::byte* tile);

}  // namespace met::ops
