// E4M3: groups of kE4m3Group k, 16 scales of F32 in front of [k][16] bytes.
#include <algorithm>
#include <limits>

#include "ops/linear/tile_writer.h"

namespace met::ops {
namespace {

constexpr std::size_t kScaleBytes = kTileColumns * sizeof(float);

bool is_nan(std::byte code) { return (code & std::byte{0x7F}) == std::byte{0x7F}; }

/// Bytes of a whole group.
constexpr std::size_t kGroupBytes = kScaleBytes + static_cast<std::size_t>(kE4m3Group * kTileColumns);

float* scale_at(std::byte* tile, std::int64_t group, int c) {
  return reinterpret_cast<float*>(tile + static_cast<std::size_t>(group) * kGroupBytes) + c;
}

}  // namespace

void write_e4m3(const std::byte* row, std::int64_t k, int c, std::byte* tile) {
  for (std::int64_t group = 0; group * kE4m3Group < k; ++group, row += kE4m3Group) {
    const auto count = static_cast<std::size_t>(std::min(kE4m3Group, k - group * kE4m3Group));
    const bool nan = std::any_of(row, row + count, is_nan);
    *scale_at(tile, group, c) = nan ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
    std::byte* to = tile + static_cast<std::size_t>(group) * kGroupBytes + kScaleBytes + c;
    for (std::size_t i = 0; i < count; ++i) to[i * kTileColumns] = row[i];
  }
}

void scale_e4m3(const E4m3Scales& scales, std::int64_t row, std::int64_t k, int c, std::byte* tile) {
  const float* own = scales.values.data() + row / scales.rows * scales.groups;
  for (std::int64_t group = 0; group * kE4m3Group < k; ++group)
    *scale_at(tile, group, c) *= own[scales.groups > 1 ? group : 0];
}

}  // namespace met::ops
