// Attention of the CPU: the paged cache's layout, and what the kernels rope_kv and attention need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "core/error.h"

namespace met::ops {

/// Positions of one KV block.
inline constexpr int kKvBlockTokens = 16;

/// Positions of one attention tile. Tiles are absolute: tile t holds positions [256 t, 256 t + 256).
inline constexpr int kAttentionTile = 256;

/// Cache   one layer's K and V are two arrays of blocks of 16 positions: f16, bf16, E4M3 (k / k_scale and v / v_scale,
///         one scale a layer; what lies beyond 448 then becomes it), int8,
///         or f32 for comparison with references. A block is a part a kv head: K's [head_dim][16 positions], V's
///         [16 positions][head_dim], of int8 followed by 16 f32, each position's scale: its greatest magnitude in this
///         head / 127. Position p of a row lies in block
///         block_table[table_begin + p / 16], slot p % 16. Slots beyond a row's length are never read into a
///         result, whatever they hold.
/// Types   qkv, y: f32; scores, probabilities and sums f32; the cache is the only rounding seam.
/// Rows    a token's bits depend on its q and on positions <= its own alone: the same for decode, for any
///         chunk of a prompt, any batch and any number of threads. Each absolute tile is summed from zero in
///         position order, and tiles are combined in ascending order.
/// Sizes   head_dim 16 to 256, a multiple of 16; heads % kv_heads == 0.
/// Oracle  FP64, tests/ops/oracle/attention.h.
inline constexpr int kHeadDimMax = 256;

/// What a layer's E4M3 numbers stand for: k = number * k, v = number * v. They meet the scale of q.k and the sum of the
/// probabilities, so that no number costs a product more.
struct KvScales {
  float k = 1;
  float v = 1;
};

/// Numbers in one layer's K (or V) cache.
constexpr std::size_t kv_elements(std::size_t blocks, int kv_heads, int head_dim) {
  return blocks * static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(head_dim) * kKvBlockTokens;
}
/// Its bytes, scales included.
inline std::size_t kv_bytes(DType cache, std::size_t blocks, int kv_heads, int head_dim) {
  const std::size_t scales =
      cache == DType::kI8 ? blocks * static_cast<std::size_t>(kv_heads) * kKvBlockTokens * sizeof(float) : 0;
  return bytes_of(cache, kv_elements(blocks, kv_heads, head_dim)) + scales;
}

/// The kernel of an operation for a cache of this type, module and entry alike. Errors: kUnsupported.
inline Result<std::string> kv_kernel(std::string operation, DType cache) {
  switch (cache) {
    case DType::kF16:
      return operation;
    case DType::kF32:
      return operation + "_f32";
    case DType::kBF16:
      return operation + "_bf16";
    case DType::kF8E4M3:
      return operation + "_e4m3";
    case DType::kI8:
      return operation + "_i8";
    default:
      return unsupported("kv_cache_dtype", "the CPU has no cache of " + std::string(info(cache).name));
  }
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
