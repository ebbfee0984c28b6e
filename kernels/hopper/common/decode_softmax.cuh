// Decode attention's products and softmax, one tile of keys and values of a warp after the other.
#pragma once

#include "decode_work.cuh"

namespace {

/// What a warp has summed. Lane 4 g + t has the softmax of heads g and g + 8 over its own tokens, and of the output heads
/// 8 n + 2t and 8 n + 2t + 1.
template <class C>
struct Sums {
  float out[C::kHeadTiles][C::kSteps][4];  // rows g (values 0, 1) and g + 8 (2, 3) of each tile of O^T
  float highest[C::kHeadTiles];            // in units of q . k, or of the capped score
  float total[C::kHeadTiles];

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < C::kHeadTiles; ++n) {
      highest[n] = -INFINITY;
      total[n] = 0.0F;
#pragma unroll
      for (int r = 0; r < C::kSteps; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][r][i] = 0.0F;
    }
  }
};

/// Scores are exponents of two once multiplied by `scale`; where there is a cap they are put through it first.
struct Scores {
  float scale;
  float inner;  // 0: no cap
  __device__ Scores(const met::AttentionLayerArgs& layer)
      : scale((layer.softcap > 0 ? layer.softcap : layer.scale * layer.k_scale) * kLog2e),
        inner(layer.softcap > 0 ? layer.scale * layer.k_scale / layer.softcap : 0.0F) {}
};

/// Of each half of a block: values 0 and 1 are head g, tokens 2t and 2t + 1 of the half; 2 and 3 head g + 8.
template <class C>
using Logits = float[C::kTileBlocks][2][4];

/// A fragment as the product takes it: heads g and g + 8, then both again.
template <class C>
__device__ uint4 query_fragment(const QueryFragments<C>& queries, int step, int lane) {
  if constexpr (C::kHeadTiles == 1) {
    const uint2 q = *reinterpret_cast<const uint2*>(queries.words[step][lane]);
    return make_uint4(q.x, 0U, q.y, 0U);
  } else {
    return *reinterpret_cast<const uint4*>(queries.words[step][lane]);
  }
}

template <class C, class Queries>
__device__ void multiply_keys(const Tile<C>& tile, const Queries& queries, Logits<C>& logits) {
  constexpr int kChains = C::kTileBlocks == 1 && C::kSteps > 1 ? 2 : 1;  // of products, to hide their latency
  float sums[kChains][C::kTileBlocks][2][4];
#pragma unroll
  for (int c = 0; c < kChains; ++c)
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[c][j][i / 4][i % 4] = 0.0F;
#pragma unroll
  for (int s = 0; s < C::kSteps; ++s) {
    const uint4 query = queries(s);
    const std::uint32_t a[4] = {query.x, query.y, query.z, query.w};
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint2 b = tile.keys[j].fragment(half, s);
        C::Cache::mma(sums[s % kChains][j][half], a, b.x, b.y);
      }
  }
#pragma unroll
  for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      logits[j][i / 4][i % 4] = kChains == 2 ? sums[0][j][i / 4][i % 4] + sums[kChains - 1][j][i / 4][i % 4]
                                             : sums[0][j][i / 4][i % 4];
}

/// Caps the scores, and takes positions outside [from, to] out.
template <class C>
__device__ void trim(const Scores& scores, int position, int from, int to, bool edge, int lane,
                     Logits<C>& logits) {
  if (scores.inner != 0.0F)
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
      for (int i = 0; i < 8; ++i) logits[j][i / 4][i % 4] = tanhf(logits[j][i / 4][i % 4] * scores.inner);
  if (edge)
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int at = position + j * kBlockTokens + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (at < from || at > to) logits[j][i / 4][i % 4] = -INFINITY;
      }
}

/// Multiplies what was summed of heads 8 n + 2t and the next by the factors that lanes 4 g hold for heads 8 n + g.
template <class C>
__device__ void rescale(float factor, int n, int lane, Sums<C>& sums) {
  const float first = __shfl_sync(kAll, factor, lane % 4 * 8);
  const float second = __shfl_sync(kAll, factor, lane % 4 * 8 + 4);
#pragma unroll
  for (int r = 0; r < C::kSteps; ++r) {
    sums.out[n][r][0] *= first;
    sums.out[n][r][1] *= second;
    sums.out[n][r][2] *= first;
    sums.out[n][r][3] *= second;
  }
}

/// Logits to probabilities relative to the highest so far; what was summed before is scaled to it.
template <class C>
__device__ void soften(const Scores& scores, int lane, Logits<C>& logits, Sums<C>& sums) {
#pragma unroll
  for (int n = 0; n < C::kHeadTiles; ++n) {
    float most = sums.highest[n];
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) most = fmaxf(most, logits[j][i / 2][2 * n + i % 2]);
    most = fmaxf(most, __shfl_xor_sync(kAll, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAll, most, 2));
    if (__any_sync(kAll, most > sums.highest[n])) {
      const float factor = exp2_fast((sums.highest[n] - most) * scores.scale);
      sums.total[n] *= factor;
      sums.highest[n] = most;
      rescale<C>(factor, n, lane, sums);
    }
    const float base = most * scores.scale;
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& x = logits[j][i / 2][2 * n + i % 2];
        x = exp2_fast(fmaf(x, scores.scale, -base));
        sums.total[n] += x;
      }
  }
}

template <class C>
__device__ void add_values(const Tile<C>& tile, const Logits<C>& weights, Sums<C>& sums) {
#pragma unroll
  for (int j = 0; j < C::kTileBlocks; ++j) {
    std::uint32_t b[C::kHeadTiles][2];
#pragma unroll
    for (int n = 0; n < C::kHeadTiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        b[n][half] = C::Cache::pack(weights[j][half][2 * n], weights[j][half][2 * n + 1]);
#pragma unroll
    for (int r = 0; r < C::kSteps; ++r) {
      std::uint32_t a[4];
      tile.values[j].fragment(r, a);
#pragma unroll
      for (int n = 0; n < C::kHeadTiles; ++n) C::Cache::mma(sums.out[n][r], a, b[n][0], b[n][1]);
    }
  }
}

/// A tile that reaches beyond the positions that are seen: the newest one's key and value come from shared memory, values
/// outside become zero.
template <class C>
__device__ void mend_edges(Tile<C>& tile, int position, const Work& work, const Shared<C>& shared, int lane) {
#pragma unroll
  for (int j = 0; j < C::kTileBlocks; ++j) {
    const int base = position + j * kBlockTokens;
    const int to = work.row.position - base;
    tile.keys[j].replace(to, reinterpret_cast<const char*>(shared.key), lane);
    tile.values[j].trim(work.from - base, to, reinterpret_cast<const char*>(shared.value), lane);
  }
}

/// Takes in tile i and begins to fetch tile i + kDepth in its place.
template <class C>
__device__ void take(Tile<C>& tile, Tiles<C>& tiles, int i, const Work& work, const Scores& scores,
                     const Shared<C>& shared, int lane, Sums<C>& sums) {
  const int position = tiles.position(i);
  const int to = work.row.position;
  const bool edge = position < work.from || position + C::kTileTokens > to;
  if (edge) mend_edges<C>(tile, position, work, shared, lane);
  Logits<C> logits;
  multiply_keys<C>(tile, [&](int step) { return query_fragment(shared.queries, step, lane); }, logits);
  const bool more = i + C::kDepth < tiles.count();
  if (more) {
    tiles.reach(i + C::kDepth);
    tile.load_keys(tiles, i + C::kDepth, lane);
  }
  trim<C>(scores, position, work.from, to, edge, lane, logits);
  soften<C>(scores, lane, logits, sums);
  add_values<C>(tile, logits, sums);
  if (more) tile.load_values(tiles, i + C::kDepth, lane);
}

}  // namespace
