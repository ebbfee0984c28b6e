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
// Rows     a row's bits depend on its own context, `splits` and `split_tokens` alone: warps, then splits, are joined in
//          order by whoever comes last.
// Launch   grid (splits, kv_heads * head groups, rows), kWarps * 32 threads; a head group is 8 or 16 query heads of one
//          key-value head. Dependent: row data and older keys and values are read before the wait.
// Cost     reads 2 * context * head_dim * (2 or 1) bytes a row and key-value head. Bound by memory: each warp keeps
//          `kDepth` tiles of some 4 KB keys and 4 KB values in registers while more are on their way.
#include <cuda_bf16.h>

#include <cstdint>

#include "decode_fragments.cuh"
#include "met/cuda_ops.h"
#include "pdl.cuh"

namespace {

constexpr int kWarp = 32;
constexpr unsigned kAll = 0xffffffffU;
constexpr float kLog2e = 1.4426950408889634F;
constexpr int kSplitsMax = 128;

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float warp_sum(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(kAll, v, step);
  return v;
}

__device__ inline float warp_max(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(kAll, v, step));
  return v;
}

constexpr int clamped(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

/// One kernel: head size, cache, 8-head tiles of the N side, warps of a block, tiles in flight a warp.
template <class CacheType, int D, int HeadTiles, int Warps, int Depth>
struct Config {
  using Cache = CacheType;
  static constexpr int kDim = D;
  static constexpr int kHeadTiles = HeadTiles;
  static constexpr int kHeads = 8 * HeadTiles;
  static constexpr int kWarps = Warps;
  static constexpr int kThreads = Warps * kWarp;
  static constexpr int kDepth = Depth;
  static constexpr int kRowBytes = D * Cache::kBytes;
  static constexpr int kTileBlocks =
      clamped(4096 / (kBlockTokens * kRowBytes), 1, 4);  // cache blocks of a tile
  static constexpr int kTileTokens = kTileBlocks * kBlockTokens;
  static constexpr bool kHoldQuery = D * HeadTiles <= 128;  // in registers, else read from shared memory
  static constexpr int kQueryPitch = D + 8;
  static constexpr int kSumPitch = D + 4;
  static constexpr int kPairs = (D / 2 + kWarp - 1) / kWarp;       // of a head, a lane
  static constexpr int kUnits = (kHeads + 2 + Warps - 1) / Warps;  // heads that a warp prepares
};

template <class C>
struct Shared {
  float q_norm[C::kDim];
  float k_norm[C::kDim];
  float cosine[C::kDim / 2];
  float sine[C::kDim / 2];
  float turned[C::kWarps][C::kDim];
  alignas(16) std::uint16_t query[C::kHeads][C::kQueryPitch];
  alignas(16) typename C::Cache::Stored key[C::kDim];
  alignas(16) typename C::Cache::Stored value[C::kDim];
  float highest[C::kWarps][C::kHeads];
  float total[C::kWarps][C::kHeads];
  union {
    alignas(16) float sums[C::kWarps][C::kHeads][C::kSumPitch];
    float weight[C::kHeads][kSplitsMax];
  };
  float denominator[C::kHeads];
  int last;
};

/// What a block works on.
struct Work {
  met::StepRow row;
  int kv_head;
  int head;    // first query head
  int heads;   // of this block
  int from;    // first position that is seen
  int blocks;  // cache blocks of the row
  int first;   // the one that holds `from`
  int begin;   // tiles of this split, counted from `first`
  int end;
  int active;      // splits that have any
  bool newest;     // this split holds the row's own position
  bool writes_kv;  // ... and this block writes it to the cache
};

template <class C>
__device__ Work work_of(const met::DecodeAttentionArgs& args, const met::StepRow& row) {
  const met::AttentionLayerArgs& layer = args.layer;
  const int group = layer.heads / layer.kv_heads;
  const int parts = (group + C::kHeads - 1) / C::kHeads;
  const int part = static_cast<int>(blockIdx.y) % parts;
  Work w;
  w.row = row;
  w.kv_head = static_cast<int>(blockIdx.y) / parts;
  w.head = w.kv_head * group + part * C::kHeads;
  w.heads = min(C::kHeads, group - part * C::kHeads);
  w.from = layer.window > 0 ? max(0, row.position - layer.window + 1) : 0;
  w.blocks = row.position / kBlockTokens + 1;
  w.first = w.from / kBlockTokens;
  const int tiles = (w.blocks - w.first + C::kTileBlocks - 1) / C::kTileBlocks;
  // A join costs more than a short split saves.
  const int least = max(C::kWarps * C::kDepth, args.split_tokens_min / C::kTileTokens);
  const int each = args.split_tokens > 0 ? max(1, args.split_tokens / C::kTileTokens)
                                         : max(least, (tiles + args.splits - 1) / args.splits);
  w.active = (tiles + each - 1) / each;
  w.begin = static_cast<int>(blockIdx.x) * each;
  w.end = min(tiles, w.begin + each);
  w.newest = static_cast<int>(blockIdx.x) == w.active - 1;
  w.writes_kv = w.newest && part == 0;
  return w;
}

/// A warp's tiles: every kWarps-th of the split's. Block numbers are read 32 at a time, one batch ahead.
template <class C>
class Tiles {
 public:
  static constexpr int kBatch = kWarp / C::kTileBlocks;

  __device__ Tiles(const met::DecodeAttentionArgs& args, const Work& work, int warp, int lane)
      : table_(args.block_table + work.row.table_begin), lane_(lane), last_(work.blocks - 1) {
    begin_ = work.begin + warp;
    first_ = work.first;
    count_ = work.end > begin_ ? (work.end - begin_ + C::kWarps - 1) / C::kWarps : 0;
    const std::int64_t stride = std::int64_t{kBlockTokens} * C::kRowBytes;
    block_stride_ = stride * args.layer.kv_heads;
    keys_ = static_cast<const char*>(args.layer.k_cache) + stride * work.kv_head;
    values_ = static_cast<const char*>(args.layer.v_cache) + stride * work.kv_head;
    now_ = fetch(0);
    next_ = fetch(kBatch);
  }
  __device__ int count() const { return count_; }
  /// First position of tile i.
  __device__ int position(int i) const {
    return (first_ + (begin_ + i * C::kWarps) * C::kTileBlocks) * kBlockTokens;
  }
  /// Offset of the j-th block of tile i; tiles are asked for in ascending order, all of the warp at once.
  __device__ std::int64_t offset(int i, int j) const {
    return block_stride_ * __shfl_sync(kAll, now_, i % kBatch * C::kTileBlocks + j);
  }
  /// Before the first offset() of tile i.
  __device__ void reach(int i) {
    if (i == 0 || i % kBatch != 0) return;
    now_ = next_;
    next_ = fetch(i + kBatch);
  }
  __device__ const char* keys() const { return keys_; }
  __device__ const char* values() const { return values_; }

 private:
  __device__ int fetch(int i) const {
    const int tile = begin_ + (i + lane_ / C::kTileBlocks) * C::kWarps;
    const int block = min(last_, first_ + tile * C::kTileBlocks + lane_ % C::kTileBlocks);
    return i < count_ ? __ldg(table_ + block) : 0;
  }
  const std::int32_t* table_;
  const char* keys_;
  const char* values_;
  std::int64_t block_stride_;
  int lane_, last_, begin_, first_, count_, now_, next_;
};

/// A tile of keys and values in registers, and where its blocks lie.
template <class C>
struct Tile {
  KeyBlock<typename C::Cache, C::kDim> keys[C::kTileBlocks];
  ValueBlock<typename C::Cache, C::kDim> values[C::kTileBlocks];

  __device__ void load_keys(const Tiles<C>& tiles, int i, int lane) {
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j) keys[j].load(tiles.keys() + tiles.offset(i, j), lane);
  }
  __device__ void load_values(const Tiles<C>& tiles, int i, int lane) {
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j) values[j].load(tiles.values() + tiles.offset(i, j), lane);
  }
};

// ---- queries, and the new key and value ----

/// Fills what depends on the position alone; the rows of heads that do not exist become zero.
template <class C>
__device__ void prepare(const met::AttentionLayerArgs& layer, const Work& work, Shared<C>& shared) {
  const int tid = static_cast<int>(threadIdx.x);
  for (int d = tid; d < C::kDim; d += C::kThreads) {
    shared.q_norm[d] = layer.q_norm != nullptr ? layer.q_norm[d] : 1.0F;
    shared.k_norm[d] = layer.k_norm != nullptr ? layer.k_norm[d] : 1.0F;
  }
  if (layer.inv_freq != nullptr)
    for (int i = tid; i < layer.rotary_dim / 2; i += C::kThreads) {
      float sine, cosine;
      sincosf(__fmul_rn(static_cast<float>(work.row.position), layer.inv_freq[i]), &sine, &cosine);
      shared.cosine[i] = cosine * layer.rope_scale;
      shared.sine[i] = sine * layer.rope_scale;
    }
  for (int i = work.heads * C::kQueryPitch + tid; i < C::kHeads * C::kQueryPitch; i += C::kThreads)
    shared.query[i / C::kQueryPitch][i % C::kQueryPitch] = 0;
}

/// Value d of a head after rotation.
template <class C>
__device__ float rotated(const met::AttentionLayerArgs& layer, const Shared<C>& shared, const float* head,
                         int d) {
  if (layer.inv_freq == nullptr || d >= layer.rotary_dim) return head[d];
  const int half = layer.rotary_dim / 2;
  const bool second = layer.interleaved != 0 ? d % 2 != 0 : d >= half;
  const int pair = layer.interleaved != 0 ? d / 2 : second ? d - half : d;
  const int apart = layer.interleaved != 0 ? 1 : half;
  const float a = head[second ? d - apart : d];
  const float b = head[second ? d : d + apart];
  const float cosine = shared.cosine[pair];
  const float sine = shared.sine[pair];
  return second ? fmaf(b, cosine, a * sine) : fmaf(a, cosine, -b * sine);
}

template <class C>
struct HeadPairs {
  float2 x[C::kPairs];
};

template <class C>
__device__ void norm_and_rotate(const met::AttentionLayerArgs& layer, Shared<C>& shared, const float* weights,
                                int warp, int lane, HeadPairs<C>& head) {
  float* own = shared.turned[warp];
  if (weights != nullptr) {
    float sum = 0.0F;
#pragma unroll
    for (int j = 0; j < C::kPairs; ++j) sum += fmaf(head.x[j].x, head.x[j].x, head.x[j].y * head.x[j].y);
    const float scale = rsqrtf(warp_sum(sum) / static_cast<float>(C::kDim) + layer.norm_eps);
#pragma unroll
    for (int j = 0; j < C::kPairs; ++j) {
      const int d = min(2 * (j * kWarp + lane), C::kDim - 2);
      head.x[j].x *= scale * weights[d];
      head.x[j].y *= scale * weights[d + 1];
    }
  }
  if (layer.inv_freq == nullptr) return;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < C::kPairs; ++j) {
    const int pair = j * kWarp + lane;
    if (pair < C::kDim / 2) *reinterpret_cast<float2*>(own + 2 * pair) = head.x[j];
  }
  __syncwarp();
#pragma unroll
  for (int j = 0; j < C::kPairs; ++j) {
    const int pair = j * kWarp + lane;
    if (pair < C::kDim / 2)
      head.x[j] =
          make_float2(rotated<C>(layer, shared, own, 2 * pair), rotated<C>(layer, shared, own, 2 * pair + 1));
  }
}

/// Rounds a new key or value as the cache does, for this block and, where it is the one to do so, into the cache.
template <class C>
__device__ void keep(const HeadPairs<C>& head, float inverse_scale, typename C::Cache::Stored* own,
                     typename C::Cache::Stored* slot, int lane) {
#pragma unroll
  for (int j = 0; j < C::kPairs; ++j) {
    const int d = 2 * (j * kWarp + lane);
    if (d >= C::kDim) continue;
    own[d] = C::Cache::store(head.x[j].x, inverse_scale);
    own[d + 1] = C::Cache::store(head.x[j].y, inverse_scale);
    if (slot == nullptr) continue;
    slot[d] = own[d];
    slot[d + 1] = own[d + 1];
  }
}

/// Queries of the block's heads and, in the split of the newest position, its key and value: a warp takes every
/// kWarps-th of them. `slot`: elements from the beginning of either cache.
template <class C>
__device__ void prepare_heads(const met::DecodeAttentionArgs& args, const Work& work, std::int64_t slot,
                              Shared<C>& shared, int warp, int lane) {
  const met::AttentionLayerArgs& layer = args.layer;
  using Stored = typename C::Cache::Stored;
  const met::Bf16Bits* token = args.qkv + static_cast<std::int64_t>(work.row.token_begin) *
                                              (layer.heads + 2 * layer.kv_heads) * C::kDim;
  const int units = work.heads + (work.newest ? 2 : 0);
  std::uint32_t raw[C::kUnits][C::kPairs];
#pragma unroll
  for (int i = 0; i < C::kUnits; ++i) {
    const int unit = warp + i * C::kWarps;
    const int head = unit < work.heads    ? work.head + unit
                     : unit == work.heads ? layer.heads + work.kv_head
                                          : layer.heads + layer.kv_heads + work.kv_head;
    const auto* pairs =
        reinterpret_cast<const std::uint32_t*>(token + static_cast<std::int64_t>(head) * C::kDim);
#pragma unroll
    for (int j = 0; j < C::kPairs; ++j) {
      const int pair = j * kWarp + lane;
      raw[i][j] = unit < units && pair < C::kDim / 2 ? __ldcg(pairs + pair) : 0U;
    }
  }
#pragma unroll
  for (int i = 0; i < C::kUnits; ++i) {
    const int unit = warp + i * C::kWarps;
    if (unit >= units) break;
    HeadPairs<C> head;
#pragma unroll
    for (int j = 0; j < C::kPairs; ++j)
      head.x[j] = make_float2(__uint_as_float(raw[i][j] << 16), __uint_as_float(raw[i][j] & 0xffff0000U));
    if (unit < work.heads) {
      norm_and_rotate<C>(layer, shared, layer.q_norm != nullptr ? shared.q_norm : nullptr, warp, lane, head);
#pragma unroll
      for (int j = 0; j < C::kPairs; ++j) {
        const int pair = j * kWarp + lane;
        if (pair < C::kDim / 2)
          reinterpret_cast<std::uint32_t*>(shared.query[unit])[pair] =
              C::Cache::pack(head.x[j].x, head.x[j].y);
      }
    } else if (unit == work.heads) {
      norm_and_rotate<C>(layer, shared, layer.k_norm != nullptr ? shared.k_norm : nullptr, warp, lane, head);
      keep<C>(head, 1.0F / layer.k_scale, shared.key,
              work.writes_kv ? static_cast<Stored*>(layer.k_cache) + slot : nullptr, lane);
    } else {
      keep<C>(head, 1.0F / layer.v_scale, shared.value,
              work.writes_kv ? static_cast<Stored*>(layer.v_cache) + slot : nullptr, lane);
    }
  }
}

// ---- softmax over tiles ----

/// Query fragments: of lane 4 g + t those of head g.
template <class C>
struct Query {
  std::uint32_t held[C::kHoldQuery ? C::kHeadTiles : 1][C::kHoldQuery ? C::kDim / 16 : 1][2];
  const Shared<C>* shared;
  int lane;

  __device__ uint2 read(int tile, int step) const {
    const int d = Layout<typename C::Cache, C::kDim>::key_dim(step, lane % 4);
    return *reinterpret_cast<const uint2*>(&shared->query[8 * tile + lane / 4][d]);
  }
  __device__ Query(const Shared<C>& from, int own_lane) : shared(&from), lane(own_lane) {
    if constexpr (C::kHoldQuery)
#pragma unroll
      for (int n = 0; n < C::kHeadTiles; ++n)
#pragma unroll
        for (int s = 0; s < C::kDim / 16; ++s) {
          const uint2 words = read(n, s);
          held[n][s][0] = words.x;
          held[n][s][1] = words.y;
        }
  }
  __device__ uint2 fragment(int tile, int step) const {
    if constexpr (C::kHoldQuery)
      return make_uint2(held[tile][step][0], held[tile][step][1]);
    else
      return read(tile, step);
  }
};

/// What a warp has summed: lane 4 g + t has heads 8 n + 2t and 8 n + 2t + 1.
template <class C>
struct Sums {
  float out[C::kHeadTiles][C::kDim / 16][4];  // rows g (values 0, 1) and g + 8 (2, 3) of each tile of O^T
  float highest[C::kHeadTiles][2];
  float total[C::kHeadTiles][2];  // over the lane's own tokens
};

/// How scores become exponents of two.
struct Scores {
  float scale;    // without a cap: of q . k, times log2(e)
  float softcap;  // times log2(e); 0: none
  float inner;    // with a cap: scale / softcap
  __device__ Scores(const met::AttentionLayerArgs& layer)
      : scale(layer.scale * layer.k_scale * kLog2e),
        softcap(layer.softcap * kLog2e),
        inner(layer.softcap > 0 ? layer.scale * layer.k_scale / layer.softcap : 0.0F) {}
  __device__ float exponent(float dot) const {
    return softcap > 0 ? softcap * tanhf(dot * inner) : dot * scale;
  }
};

template <class C>
using Logits = float[C::kTileBlocks][C::kHeadTiles][4];

template <class C>
__device__ void multiply_keys(const Tile<C>& tile, const Query<C>& query, Logits<C>& logits) {
#pragma unroll
  for (int j = 0; j < C::kTileBlocks; ++j) {
    float odd[C::kHeadTiles][4];  // two chains of products hide each other's latency
#pragma unroll
    for (int n = 0; n < C::kHeadTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) logits[j][n][i] = odd[n][i] = 0.0F;
#pragma unroll
    for (int s = 0; s < C::kDim / 16; ++s) {
      std::uint32_t a[4];
      tile.keys[j].fragment(s, a);
#pragma unroll
      for (int n = 0; n < C::kHeadTiles; ++n) {
        const uint2 b = query.fragment(n, s);
        C::Cache::mma(s % 2 == 0 ? logits[j][n] : odd[n], a, b.x, b.y);
      }
    }
    if constexpr (C::kDim > 16)
#pragma unroll
      for (int n = 0; n < C::kHeadTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) logits[j][n][i] += odd[n][i];
  }
}

/// Logits to probabilities relative to the highest so far; what was summed before is scaled to it.
template <class C>
__device__ void soften(const Scores& scores, int position, int from, int to, bool edge, int lane,
                       Logits<C>& logits, Sums<C>& sums) {
#pragma unroll
  for (int n = 0; n < C::kHeadTiles; ++n) {
    float most[2] = {sums.highest[n][0], sums.highest[n][1]};
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& x = logits[j][n][i];
        x = scores.exponent(x);
        const int at = position + j * kBlockTokens + lane / 4 + i / 2 * 8;
        if (edge && (at < from || at > to)) x = -INFINITY;
        most[i % 2] = fmaxf(most[i % 2], x);
      }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2)
        most[h] = fmaxf(most[h], __shfl_xor_sync(kAll, most[h], step));
      const float rescale = exp2_fast(sums.highest[n][h] - most[h]);
      sums.highest[n][h] = most[h];
      float total = sums.total[n][h] * rescale;
#pragma unroll
      for (int j = 0; j < C::kTileBlocks; ++j)
#pragma unroll
        for (int i = h; i < 4; i += 2) {
          logits[j][n][i] = exp2_fast(logits[j][n][i] - most[h]);
          total += logits[j][n][i];
        }
      sums.total[n][h] = total;
#pragma unroll
      for (int r = 0; r < C::kDim / 16; ++r) {
        sums.out[n][r][h] *= rescale;
        sums.out[n][r][h + 2] *= rescale;
      }
    }
  }
}

template <class C>
__device__ void add_values(const Tile<C>& tile, const Logits<C>& weights, Sums<C>& sums) {
#pragma unroll
  for (int j = 0; j < C::kTileBlocks; ++j) {
    std::uint32_t b[C::kHeadTiles][2];
#pragma unroll
    for (int n = 0; n < C::kHeadTiles; ++n) {
      b[n][0] = transpose(C::Cache::pack(weights[j][n][0], weights[j][n][1]));
      b[n][1] = transpose(C::Cache::pack(weights[j][n][2], weights[j][n][3]));
    }
#pragma unroll
    for (int r = 0; r < C::kDim / 16; ++r) {
      std::uint32_t a[4];
      tile.values[j].fragment(r, a);
#pragma unroll
      for (int n = 0; n < C::kHeadTiles; ++n) C::Cache::mma(sums.out[n][r], a, b[n][0], b[n][1]);
    }
  }
}

/// Takes in tile i and begins to fetch tile i + kDepth in its place.
template <class C>
__device__ void take(Tile<C>& tile, Tiles<C>& tiles, int i, const Work& work, const Scores& scores,
                     const Query<C>& query, const Shared<C>& shared, int lane, Sums<C>& sums) {
  const int position = tiles.position(i);
  const int to = work.row.position;
  const bool edge = position < work.from || position + C::kTileTokens > to;
  if (edge)
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j) {
      const int base = position + j * kBlockTokens;
      tile.keys[j].replace(to - base, reinterpret_cast<const char*>(shared.key), lane);
      tile.values[j].trim(work.from - base, to - base, reinterpret_cast<const char*>(shared.value), lane);
    }
  Logits<C> logits;
  multiply_keys<C>(tile, query, logits);
  const bool more = i + C::kDepth < tiles.count();
  if (more) {
    tiles.reach(i + C::kDepth);
    tile.load_keys(tiles, i + C::kDepth, lane);
  }
  soften<C>(scores, position, work.from, to, edge, lane, logits, sums);
  add_values<C>(tile, logits, sums);
  if (more) tile.load_values(tiles, i + C::kDepth, lane);
}

// ---- joining warps, then splits ----

template <class C>
__device__ void publish(Shared<C>& shared, Sums<C>& sums, int warp, int lane) {
  using L = Layout<typename C::Cache, C::kDim>;
#pragma unroll
  for (int n = 0; n < C::kHeadTiles; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = sums.total[n][h];
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) total += __shfl_xor_sync(kAll, total, step);
      const int head = 8 * n + 2 * (lane % 4) + h;
      if (lane < 4) {
        shared.highest[warp][head] = sums.highest[n][h];
        shared.total[warp][head] = total;
      }
#pragma unroll
      for (int r = 0; r < C::kDim / 16; ++r)
        *reinterpret_cast<float2*>(&shared.sums[warp][head][L::value_dim(r, lane / 4)]) =
            make_float2(sums.out[n][r][h], sums.out[n][r][h + 2]);
    }
}

/// Highest exponent, total and two values of the output, over the warps of the block.
struct Joined {
  float highest;
  float total;
  float2 out;
};

template <class C>
__device__ Joined join_warps(const Shared<C>& shared, int head, int d) {
  Joined all{-INFINITY, 0.0F, {0.0F, 0.0F}};
#pragma unroll
  for (int w = 0; w < C::kWarps; ++w) all.highest = fmaxf(all.highest, shared.highest[w][head]);
#pragma unroll
  for (int w = 0; w < C::kWarps; ++w) {
    if (shared.highest[w][head] == -INFINITY) continue;  // the warp had no tile
    const float weight = exp2_fast(shared.highest[w][head] - all.highest);
    const float2 part = *reinterpret_cast<const float2*>(&shared.sums[w][head][d]);
    all.total = fmaf(weight, shared.total[w][head], all.total);
    all.out.x = fmaf(weight, part.x, all.out.x);
    all.out.y = fmaf(weight, part.y, all.out.y);
  }
  return all;
}

__device__ inline float sink_of(const met::AttentionLayerArgs& layer, int head) {
  return layer.sinks != nullptr ? layer.sinks[head] * kLog2e : -INFINITY;
}

template <class C>
__device__ void store_output(const met::DecodeAttentionArgs& args, const Work& work, int head, int d,
                             float2 v) {
  const std::int64_t at =
      (static_cast<std::int64_t>(work.row.token_begin) * args.layer.heads + work.head + head) * C::kDim + d;
  *reinterpret_cast<std::uint32_t*>(args.y + at) = Bf16Cache::pack(v.x, v.y);
}

template <class C>
__device__ float* partial_of(const met::DecodeAttentionArgs& args, const Work& work, int head, int split) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.z) * args.layer.heads + work.head + head;
  return args.partial + (row * args.splits + split) * (C::kDim + 2);
}

/// The only split of its row: the block's own sums are the result.
template <class C>
__device__ void finish_alone(const met::DecodeAttentionArgs& args, const Work& work,
                             const Shared<C>& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < work.heads * (C::kDim / 2); i += C::kThreads) {
    const int head = i / (C::kDim / 2);
    const int d = i % (C::kDim / 2) * 2;
    const Joined all = join_warps<C>(shared, head, d);
    const float total = all.total + exp2_fast(sink_of(args.layer, work.head + head) - all.highest);
    const float factor = args.layer.v_scale / total;
    store_output<C>(args, work, head, d, make_float2(all.out.x * factor, all.out.y * factor));
  }
}

/// Leaves this split's sums in memory; true in the block that comes last.
template <class C>
__device__ bool leave_partial(const met::DecodeAttentionArgs& args, const Work& work, Shared<C>& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < work.heads * (C::kDim / 2); i += C::kThreads) {
    const int head = i / (C::kDim / 2);
    const int d = i % (C::kDim / 2) * 2;
    const Joined all = join_warps<C>(shared, head, d);
    float* partial = partial_of<C>(args, work, head, static_cast<int>(blockIdx.x));
    *reinterpret_cast<float2*>(partial + d) = all.out;
    if (d == 0) *reinterpret_cast<float2*>(partial + C::kDim) = make_float2(all.highest, all.total);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const int parts = (args.layer.heads / args.layer.kv_heads + C::kHeads - 1) / C::kHeads;
    const int wanted = work.active * parts;
    std::int32_t* finished =
        args.finished + static_cast<std::int64_t>(blockIdx.z) * args.layer.kv_heads + work.kv_head;
    __threadfence();
    const bool last = atomicAdd(finished, 1) == wanted - 1;
    if (last) *finished = 0;
    __threadfence();
    shared.last = last ? 1 : 0;
  }
  __syncthreads();
  return shared.last != 0;
}

/// Joins the splits of the block's heads in order.
template <class C>
__device__ void join_splits(const met::DecodeAttentionArgs& args, const Work& work, Shared<C>& shared,
                            int warp, int lane) {
  for (int head = warp; head < work.heads; head += C::kWarps) {
    const float sink = sink_of(args.layer, work.head + head);
    float2 ends[kSplitsMax / kWarp];  // highest and total of each split
    float highest = sink;
#pragma unroll
    for (int i = 0; i < kSplitsMax / kWarp; ++i) {
      const int split = i * kWarp + lane;
      ends[i] =
          split < work.active
              ? __ldcg(reinterpret_cast<const float2*>(partial_of<C>(args, work, head, split) + C::kDim))
              : make_float2(-INFINITY, 0.0F);
      highest = fmaxf(highest, ends[i].x);
    }
    highest = warp_max(highest);
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kSplitsMax / kWarp; ++i) {
      const float weight = exp2_fast(ends[i].x - highest);
      shared.weight[head][i * kWarp + lane] = weight;
      total = fmaf(weight, ends[i].y, total);
    }
    total = warp_sum(total) + exp2_fast(sink - highest);
    if (lane == 0) shared.denominator[head] = args.layer.v_scale / total;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < work.heads * (C::kDim / 2); i += C::kThreads) {
    const int head = i / (C::kDim / 2);
    const int d = i % (C::kDim / 2) * 2;
    const float* partial = partial_of<C>(args, work, head, 0) + d;
    float2 out{0.0F, 0.0F};
#pragma unroll 8
    for (int split = 0; split < work.active; ++split) {
      const float2 part = __ldcg(reinterpret_cast<const float2*>(partial + split * (C::kDim + 2)));
      out.x = fmaf(shared.weight[head][split], part.x, out.x);
      out.y = fmaf(shared.weight[head][split], part.y, out.y);
    }
    const float factor = shared.denominator[head];
    store_output<C>(args, work, head, d, make_float2(out.x * factor, out.y * factor));
  }
}

template <class C>
__device__ void decode_attention(const met::DecodeAttentionArgs& args) {
  __shared__ Shared<C> shared;
  launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int rows = args.counts->decode_rows;
  const met::StepRow row = args.rows[blockIdx.z];
  const Work work = work_of<C>(args, row);
  if (static_cast<int>(blockIdx.z) >= rows || work.begin >= work.end) {
    wait_for_producers();
    return;
  }
  // Before the wait: everything but the new token.
  Tiles<C> tiles(args, work, warp, lane);
  Tile<C> tile[C::kDepth];
#pragma unroll
  for (int s = 0; s < C::kDepth; ++s)
    if (s < tiles.count()) {
      tile[s].load_keys(tiles, s, lane);
      tile[s].load_values(tiles, s, lane);
    }
  std::int64_t slot = 0;
  if (work.newest)
    slot = ((static_cast<std::int64_t>(args.block_table[row.table_begin + row.position / kBlockTokens]) *
                 args.layer.kv_heads +
             work.kv_head) *
                kBlockTokens +
            row.position % kBlockTokens) *
           C::kDim;
  prepare<C>(args.layer, work, shared);
  __syncthreads();
  wait_for_producers();

  prepare_heads<C>(args, work, slot, shared, warp, lane);
  __syncthreads();
  const Query<C> query(shared, lane);
  const Scores scores(args.layer);
  Sums<C> sums;
#pragma unroll
  for (int n = 0; n < C::kHeadTiles; ++n) {
    sums.highest[n][0] = sums.highest[n][1] = -INFINITY;
    sums.total[n][0] = sums.total[n][1] = 0.0F;
#pragma unroll
    for (int r = 0; r < C::kDim / 16; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums.out[n][r][i] = 0.0F;
  }
  for (int i = 0; i < tiles.count(); i += C::kDepth)
#pragma unroll
    for (int s = 0; s < C::kDepth; ++s)
      if (i + s < tiles.count()) take<C>(tile[s], tiles, i + s, work, scores, query, shared, lane, sums);

  publish<C>(shared, sums, warp, lane);
  __syncthreads();
  if (work.active == 1) {
    finish_alone<C>(args, work, shared);
  } else if (leave_partial<C>(args, work, shared)) {
    const int group = args.layer.heads / args.layer.kv_heads;
    for (int first = 0; first < group; first += C::kHeads) {  // of every block of the key-value head
      Work part = work;
      part.head = work.kv_head * group + first;
      part.heads = min(C::kHeads, group - first);
      __syncthreads();
      join_splits<C>(args, part, shared, warp, lane);
    }
  }
}

}  // namespace

// One line an entry: name, cache, head size, 8-head tiles, warps, tiles in flight a warp, blocks an SM at least.
#define DECODE_ATTENTION(name, Cache, dim, tiles, warps, depth, blocks)                      \
  extern "C" __global__ __launch_bounds__(                                                   \
      warps * 32, blocks) void name(const __grid_constant__ met::DecodeAttentionArgs args) { \
    decode_attention<Config<Cache, dim, tiles, warps, depth>>(args);                         \
  }

#ifndef DECODE_ATTENTION_ENTRIES
DECODE_ATTENTION(decode_attention_d16_bf16_h8, Bf16Cache, 16, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d16_bf16_h16, Bf16Cache, 16, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d32_bf16_h8, Bf16Cache, 32, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d32_bf16_h16, Bf16Cache, 32, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d64_bf16_h8, Bf16Cache, 64, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d64_bf16_h16, Bf16Cache, 64, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d64_bf16_h8_wide, Bf16Cache, 64, 1, 8, 2, 1)
DECODE_ATTENTION(decode_attention_d96_bf16_h8, Bf16Cache, 96, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d96_bf16_h16, Bf16Cache, 96, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d128_bf16_h8, Bf16Cache, 128, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d128_bf16_h16, Bf16Cache, 128, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d128_bf16_h8_wide, Bf16Cache, 128, 1, 8, 2, 1)
DECODE_ATTENTION(decode_attention_d256_bf16_h8, Bf16Cache, 256, 1, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d16_e4m3_h8, E4m3Cache, 16, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d16_e4m3_h16, E4m3Cache, 16, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d32_e4m3_h8, E4m3Cache, 32, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d32_e4m3_h16, E4m3Cache, 32, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d64_e4m3_h8, E4m3Cache, 64, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d64_e4m3_h16, E4m3Cache, 64, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d64_e4m3_h8_wide, E4m3Cache, 64, 1, 8, 2, 1)
DECODE_ATTENTION(decode_attention_d96_e4m3_h8, E4m3Cache, 96, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d96_e4m3_h16, E4m3Cache, 96, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d128_e4m3_h8, E4m3Cache, 128, 1, 4, 1, 3)
DECODE_ATTENTION(decode_attention_d128_e4m3_h16, E4m3Cache, 128, 2, 4, 1, 2)
DECODE_ATTENTION(decode_attention_d128_e4m3_h8_wide, E4m3Cache, 128, 1, 8, 2, 1)
DECODE_ATTENTION(decode_attention_d256_e4m3_h8, E4m3Cache, 256, 1, 4, 1, 2)
#endif
