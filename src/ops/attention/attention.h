// Attention of the CPU: the paged cache's layout, and what the kernels rope_kv and attention need.
#pragma once

#include <cstddef>
#include <cstdint>

namespace met::ops {

/// Positions of one KV block.
inline constexpr int kKvBlockTokens = 16;

/// Positions of one attention tile. Tiles are absolute: tile t holds positions [256 t, 256 t + 256).
inline constexpr int kAttentionTile = 256;

/// Cache   one layer's K and V are two arrays of blocks of 16 positions, f16 (or f32, for comparison with references).
///         Block b starts at element b * kv_heads * head_dim * 16 of either. K is [kv_head][head_dim][16 positions]; V is
///         [kv_head][16 positions][head_dim]. Position p of a row lies in block
///         block_table[table_begin + p / 16], slot p % 16. Slots beyond a row's length are never read into a
///         result, whatever they hold.
/// Types   qkv, y: f32; scores, probabilities and sums f32; an f16 cache is the only rounding seam.
/// Rows    a token's bits depend on its q and on positions <= its own alone: the same for decode, for any
///         chunk of a prompt, any batch and any number of threads. Each absolute tile is summed from zero in
///         position order, and tiles are combined in ascending order.
/// Sizes   head_dim 16 to 256, a multiple of 16; heads % kv_heads == 0.
/// Oracle  FP64, tests/ops/oracle/attention.h.
inline constexpr int kHeadDimMax = 256;

/// Elements of one layer's K (or V) cache.
constexpr std::size_t kv_elements(std::size_t blocks, int kv_heads, int head_dim) {
  return blocks * static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(head_dim) * kKvBlockTokens;
}

/// Bytes of AttentionArgs::workspace: partial results of decode rows that are split over threads.
/// `positions_max` is the longest sequence.
constexpr std::size_t attention_workspace_bytes(int rows_max, int threads, int heads, int kv_heads,
                                                int head_dim, std::size_t positions_max) {
  const auto lists = static_cast<std::size_t>(rows_max) * static_cast<std::size_t>(kv_heads);
  const auto split_max = static_cast<std::size_t>(threads) * 4;
  const auto tiles = (positions_max + kAttentionTile - 1) / kAttentionTile;
  const auto group = static_cast<std::size_t>(heads / kv_heads);
  return (lists < split_max ? lists : split_max) * group * tiles * (static_cast<std::size_t>(head_dim) + 16) *
         sizeof(float);
}

}  // namespace met::ops
