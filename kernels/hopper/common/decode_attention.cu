// Attention of a step's decode rows, one token each, with head norms, rotation and the cache write of the new token:
//   q, k    = rotate(norm(x)): x / sqrt(mean(x^2) + eps) * w where weights are given, then pairs (i, i + rotary_dim / 2),
//             or (2i, 2i + 1) where interleaved, by the angle position * inv_freq[i] rounded to FP32, times rope_scale
//   s[j]    = scale * q . k[j], or softcap * tanh(that / softcap), for positions max(0, p - window + 1) <= j <= p
//   y       = sum_j exp(s[j]) v[j] / (sum_j exp(s[j]) + exp(sink)), k[p] and v[p] as the cache now holds them
//
// Shapes   qkv: [tokens, (heads + 2 * kv_heads) * head_dim] as projected; y: [tokens, heads * head_dim]; caches:
//          [blocks, kv_heads, 16, head_dim] BF16 or E4M3, 16-byte aligned. rotary_dim % 4 == 0, <= head_dim.
//          Rows r < counts->decode_rows; other rows are neither read nor written.
// Rounding q to BF16 (E4M3 caches: F16) after rotation, probabilities likewise; k and v once, to the cache; sums, norms,
//          rotation and softmax FP32. Slots that hold no position of the row are not used, whatever they hold.
// Rows     a row's bits depend on its own context, `splits` and `split_tokens_min` alone: warps, then splits, are joined
//          in order by whoever comes last.
// Launch   grid (any, kv_heads * head groups), kWarps * 32 threads; a head group is up to 8 or 16 query heads of one
//          key-value head. Along x a block (`_ring`: a team, those of a block gridDim.x apart) takes items blockIdx.x,
//          blockIdx.x + gridDim.x, …: a row and a split, the split slowest, since of short rows only the first has work.
//          `rows` is 16-byte aligned. Dependent: row data and older keys and values are read before the wait; blocks
//          without work leave at once, but for one that waits.
// Cost     reads 2 * context * head_dim * (2 or 1) bytes a row and key-value head. Bound by memory: each warp keeps
//          `kDepth` tiles of some 4 KB keys and 4 KB values in registers while more are on their way, the first of the
//          next item among them. In entries `_ring<warps of a team>`, for rows enough to occupy all SMs, each warp has 20 KB on
//          their way (decode_ring.cuh).
#include "decode_items.cuh"
#include "decode_ring.cuh"

namespace {

/// Tiles that each warp loads from the paged cache straight into registers, some ahead.
template <class C>
class TilesInRegisters {
 public:
  static constexpr bool kHeadsFirst = false;

  __device__ TilesInRegisters(const met::DecodeAttentionArgs& args, const Work& work, int warp, int lane)
      : tiles_(args, work, Tiles<C>::first_blocks(args, work, warp, lane), warp, lane) {
    load_first<C>(tiles_, lane, tile_);
  }
  __device__ void expect(const met::DecodeAttentionArgs& args, const Work& next, bool more, int warp,
                         int lane) {
    next_blocks_ = more ? Tiles<C>::first_blocks(args, next, warp, lane) : 0;
  }
  __device__ void take_all(const Work& work, const Scores& scores, const Shared<C>& shared, int, int lane,
                           Sums<C>& sums) {
    for (int i = 0; i < tiles_.count(); i += C::kDepth)
#pragma unroll
      for (int s = 0; s < C::kDepth; ++s)
        if (i + s < tiles_.count()) take<C>(tile_[s], tiles_, i + s, work, scores, shared, lane, sums);
  }
  __device__ void begin(const met::DecodeAttentionArgs& args, const Work& next, int warp, int lane) {
    tiles_ = Tiles<C>(args, next, next_blocks_, warp, lane);
    load_first<C>(tiles_, lane, tile_);
  }

 private:
  Tiles<C> tiles_;
  Tile<C> tile_[C::kDepth];
  int next_blocks_ = 0;
};

template <class C>
__device__ void decode_attention(const met::DecodeAttentionArgs& args) {
  __shared__ Shared<C> shared;
  if (!C::kLate) launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  take_items<C>(args, shared, warp, lane,
                [&](const Work& work) { return TilesInRegisters<C>(args, work, warp, lane); });
}

}  // namespace

// One line an entry: name, cache, head size, query heads, warps, tiles in flight a warp, KB of keys a tile, whether the
// next kernel starts late, blocks an SM at least.
#define DECODE_ATTENTION(name, Cache, dim, heads, warps, depth, kb, late, blocks)            \
  extern "C" __global__ __launch_bounds__(                                                   \
      warps * 32, blocks) void name(const __grid_constant__ met::DecodeAttentionArgs args) { \
    decode_attention<Config<Cache, dim, heads, warps, depth, kb, late>>(args);               \
  }

// By rings: warps of a team, teams of a block, and stages of each warp.
#define DECODE_ATTENTION_RING(name, Cache, dim, heads, warps, teams, stages, kb)                      \
  extern "C" __global__ __launch_bounds__(                                                            \
      warps* teams * 32, 2) void name(const __grid_constant__ met::DecodeAttentionArgs args) {        \
    decode_attention_ring<Config<Cache, dim, heads, warps, 1, kb, false, true>, teams, stages>(args); \
  }

#ifndef DECODE_ATTENTION_ENTRIES
DECODE_ATTENTION(decode_attention_d16_bf16_h8, Bf16Cache, 16, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d16_bf16_h16, Bf16Cache, 16, 16, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d32_bf16_h8, Bf16Cache, 32, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d32_bf16_h16, Bf16Cache, 32, 16, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d64_bf16_h8, Bf16Cache, 64, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d64_bf16_h16, Bf16Cache, 64, 16, 4, 1, 4, false, 2)
DECODE_ATTENTION(decode_attention_d64_bf16_h8_wide, Bf16Cache, 64, 8, 8, 1, 8, true, 1)
DECODE_ATTENTION(decode_attention_d96_bf16_h8, Bf16Cache, 96, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d96_bf16_h16, Bf16Cache, 96, 16, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d128_bf16_h8, Bf16Cache, 128, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d128_bf16_h16, Bf16Cache, 128, 16, 4, 1, 4, false, 2)
DECODE_ATTENTION(decode_attention_d128_bf16_h8_wide, Bf16Cache, 128, 8, 8, 1, 8, true, 1)
DECODE_ATTENTION(decode_attention_d256_bf16_h8, Bf16Cache, 256, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d16_e4m3_h8, E4m3Cache, 16, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d16_e4m3_h16, E4m3Cache, 16, 16, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d32_e4m3_h8, E4m3Cache, 32, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d32_e4m3_h16, E4m3Cache, 32, 16, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d64_e4m3_h8, E4m3Cache, 64, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d64_e4m3_h16, E4m3Cache, 64, 16, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d64_e4m3_h8_wide, E4m3Cache, 64, 8, 8, 1, 8, true, 1)
DECODE_ATTENTION(decode_attention_d96_e4m3_h8, E4m3Cache, 96, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d96_e4m3_h16, E4m3Cache, 96, 16, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d128_e4m3_h8, E4m3Cache, 128, 8, 4, 1, 8, false, 2)
DECODE_ATTENTION(decode_attention_d128_e4m3_h16, E4m3Cache, 128, 16, 4, 1, 4, false, 2)
DECODE_ATTENTION(decode_attention_d128_e4m3_h8_wide, E4m3Cache, 128, 8, 8, 1, 8, true, 1)
DECODE_ATTENTION(decode_attention_d256_e4m3_h8, E4m3Cache, 256, 8, 4, 1, 4, false, 2)
DECODE_ATTENTION_RING(decode_attention_d64_bf16_h8_ring1, Bf16Cache, 64, 8, 1, 4, 10, 2)
DECODE_ATTENTION_RING(decode_attention_d64_bf16_h8_ring2, Bf16Cache, 64, 8, 2, 2, 10, 2)
DECODE_ATTENTION_RING(decode_attention_d64_bf16_h8_ring4, Bf16Cache, 64, 8, 4, 1, 10, 2)
DECODE_ATTENTION_RING(decode_attention_d128_bf16_h8_ring1, Bf16Cache, 128, 8, 1, 4, 5, 4)
DECODE_ATTENTION_RING(decode_attention_d128_bf16_h8_ring2, Bf16Cache, 128, 8, 2, 2, 5, 4)
DECODE_ATTENTION_RING(decode_attention_d128_bf16_h8_ring4, Bf16Cache, 128, 8, 4, 1, 5, 4)
#endif
