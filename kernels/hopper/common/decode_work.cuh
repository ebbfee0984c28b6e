// What a block of decode attention works on: its items, their tiles of keys and values, its shared memory.
#pragma once

#include <cstdint>

#include "decode_fragments.cuh"
#include "met/cuda_ops.h"

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

/// One kernel: head size, cache, query heads of a block, warps of a block, tiles in flight a warp, KB of keys
/// of a tile, when the next kernel may start: at once, or once the wait is over, and whether warps keep rings, whose blocks
/// teams of them take in.
template <class CacheType, int D, int Heads, int Warps, int Depth, int TileKb, bool Late, bool Ring = false>
struct Config {
  using Cache = CacheType;
  static constexpr int kDim = D;
  static constexpr bool kRing = Ring;
  using KeyLayout = Layout<CacheType, D, Ring>;
  using Keys = KeyBlock<CacheType, D, Ring>;
  using Values = ValueBlock<CacheType, D>;
  static constexpr int kSteps =
      D / 16;  // products over the dimensions of a key, and 16-row tiles of the output
  static constexpr int kHeads = Heads;
  static constexpr int kHeadTiles = (Heads + 7) / 8;
  static constexpr int kWarps = Warps;
  static constexpr int kThreads = Warps * kWarp;
  static constexpr int kDepth = Depth;
  static constexpr bool kLate = Late;
  static constexpr int kRowBytes = D * Cache::kBytes;
  static constexpr int kTileBlocks =
      clamped(TileKb * 1024 / (kBlockTokens * kRowBytes), 1, 4);  // cache blocks
  static constexpr int kTileTokens = kTileBlocks * kBlockTokens;
  static constexpr int kSumPitch = D + 4;
  static constexpr int kPairs = (D / 2 + kWarp - 1) / kWarp;      // of a head, a lane
  static constexpr int kUnits = (Heads + 2 + Warps - 1) / Warps;  // heads that a warp prepares
  static_assert(Heads <= 16);
};

// A team is the warps that take one item in: all of a block, or some, of several teams that each have items of their own.
template <class C>
__device__ int thread_of_team() {
  return static_cast<int>(threadIdx.x) % C::kThreads;
}

/// All warps of a team.
template <class C>
__device__ void meet() {
  if constexpr (C::kWarps == 1)
    __syncwarp();
  else if (!C::kRing || threadIdx.x < C::kThreads)
    asm volatile("bar.sync 0, %0;" ::"n"(C::kThreads) : "memory");
  else
    asm volatile("bar.sync 1, %0;" ::"n"(C::kThreads) : "memory");  // of two teams
}

/// What a block works on.
struct Work {
  met::StepRow row;
  int row_index;
  int split;
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

/// The queries of a team as fragments: of each product and lane the lower two dimensions of heads g (and g + 8), then the upper.
template <class C>
struct QueryFragments {
  alignas(16) std::uint32_t words[C::kSteps][kWarp][2 * C::kHeadTiles];
};

/// What products read. A warp alone has its queries in registers before its sums take their place.
template <class C, bool Here>
struct Queries {
  QueryFragments<C> queries;
};
template <class C>
struct Queries<C, false> {};

/// Where warps keep rings: heads as projected.
template <class C, bool Here>
struct Staged {
  std::uint32_t projected[C::kUnits * C::kWarps][C::kDim / 2];
};
template <class C>
struct Staged<C, false> {};

/// What is needed while heads are prepared.
template <class C>
struct Preparing : Queries<C, C::kWarps == 1>, Staged<C, C::kRing> {
  float turned[C::kWarps][C::kDim];
};

template <class C>
struct Shared : Queries<C, C::kWarps != 1> {
  float q_norm[C::kDim];
  float k_norm[C::kDim];
  float frequency[C::kDim / 2];
  float cosine[C::kDim / 2];
  float sine[C::kDim / 2];
  alignas(16) typename C::Cache::Stored key[C::kDim];
  alignas(16) typename C::Cache::Stored value[C::kDim];
  float highest[C::kWarps][C::kHeads];
  float total[C::kWarps][C::kHeads];
  union {
    Preparing<C> preparing;
    alignas(16) float sums[C::kWarps][C::kHeads][C::kSumPitch];  // while warps are joined
    float weight[C::kHeads][kSplitsMax];                         // while splits are joined
  };
  float denominator[C::kHeads];
  int last;
  Work work[2][C::kWarps];  // of this item and the next: each warp has its own, out of registers
};

template <class C>
__device__ auto& queries_of(Shared<C>& shared) {
  if constexpr (C::kWarps == 1)
    return shared.preparing.queries;
  else
    return shared.queries;
}

template <class C>
__device__ Work work_of(const met::DecodeAttentionArgs& args, const met::StepRow& row, int row_index,
                        int split) {
  const met::AttentionLayerArgs& layer = args.layer;
  Work w;
  w.row = row;
  w.row_index = row_index;
  w.split = split;
  int part = 0;
  w.kv_head = static_cast<int>(blockIdx.y);
  if (args.group > C::kHeads) {
    const int parts = static_cast<int>(gridDim.y) / layer.kv_heads;
    part = w.kv_head % parts;
    w.kv_head /= parts;
  }
  w.head = w.kv_head * args.group + part * C::kHeads;
  w.heads = min(C::kHeads, args.group - part * C::kHeads);
  w.from = layer.window > 0 ? max(0, row.position - layer.window + 1) : 0;
  w.blocks = row.position / kBlockTokens + 1;
  w.first = w.from / kBlockTokens;
  const int tiles = (w.blocks - w.first + C::kTileBlocks - 1) / C::kTileBlocks;
  int each = max(1, args.split_tokens_min / C::kTileTokens);
  w.active = 1;
  if (tiles > each) {
    each = max(each, (tiles + args.splits - 1) / args.splits);
    w.active = (tiles + each - 1) / each;
  }
  w.begin = split * each;
  w.end = min(tiles, w.begin + each);
  w.newest = split == w.active - 1;
  w.writes_kv = w.newest && part == 0;
  return w;
}

/// A team's items, splits slowest, since of short rows only the first has work: lanes look at 32 of them at once. What the
/// step says of their rows is loaded one item ahead.
template <class C>
class Items {
 public:
  __device__ Items(const met::DecodeAttentionArgs& args, int lane)
      : args_(args),
        rows_(args.counts->decode_rows),
        stride_(static_cast<int>(gridDim.x * (blockDim.x / C::kThreads))),
        own_(static_cast<int>(blockIdx.x + gridDim.x * (threadIdx.x / C::kThreads)) + lane * stride_) {
    look();
  }
  /// Fills `work`, the warp's own, with the next item that has some; false: there is none.
  __device__ bool advance(Work& work, int lane) {
    while (__any_sync(kAll, own_ < rows_ * args_.splits)) {
      Work w;
      w.begin = w.end = 0;
      if (own_ < rows_ * args_.splits) w = work_of<C>(args_, row_, own_ % rows_, own_ / rows_);
      const unsigned found = __ballot_sync(kAll, w.begin < w.end);
      const int first = found != 0 ? __ffs(static_cast<int>(found)) - 1 : kWarp - 1;
      __syncwarp();
      if (found != 0 && lane == first) work = w;
      own_ += (first + 1) * stride_;
      look();
      if (found == 0) continue;
      __syncwarp();
      return true;
    }
    return false;
  }

 private:
  __device__ void look() {
    if (own_ >= rows_ * args_.splits) return;
    const int4 row = __ldg(reinterpret_cast<const int4*>(args_.rows) + own_ % rows_);
    row_ = {row.x, row.y, row.z, row.w};
  }
  const met::DecodeAttentionArgs& args_;
  int rows_;
  int stride_;  // from item to item
  int own_;     // the item that the lane looks at next
  met::StepRow row_;
};

/// Cache slot of the row's own position: elements from the beginning of either cache.
template <class C>
__device__ std::int64_t slot_of(const met::DecodeAttentionArgs& args, const Work& work) {
  const std::int64_t block = __ldg(args.block_table + work.row.table_begin + work.blocks - 1);
  return ((block * args.layer.kv_heads + work.kv_head) * kBlockTokens + work.row.position % kBlockTokens) *
         C::kDim;
}

/// A warp's tiles: every kWarps-th of the split's. Block numbers are read 32 at a time, one batch ahead.
template <class C>
class Tiles {
 public:
  static constexpr int kBatch = kWarp / C::kTileBlocks;

  /// Block numbers of the warp's first tiles, to be fetched ahead of the rest.
  __device__ static int first_blocks(const met::DecodeAttentionArgs& args, const Work& work, int warp,
                                     int lane) {
    return fetch(args.block_table + work.row.table_begin, work, work.begin + warp, 0, lane);
  }
  __device__ Tiles(const met::DecodeAttentionArgs& args, const Work& work, int blocks, int warp, int lane)
      : work_(&work), lane_(lane), begin_(work.begin + warp), now_(blocks) {
    count_ = work.end > begin_ ? (work.end - begin_ + C::kWarps - 1) / C::kWarps : 0;
    const std::int64_t stride = std::int64_t{kBlockTokens} * C::kRowBytes;
    block_stride_ = static_cast<std::uint32_t>(stride * args.layer.kv_heads);
    table_ = args.block_table + work.row.table_begin;
    keys_ = static_cast<const char*>(args.layer.k_cache) + stride * work.kv_head;
    values_ = static_cast<const char*>(args.layer.v_cache) + stride * work.kv_head;
    next_ = fetch(table_, work, begin_, kBatch, lane);
  }
  __device__ int count() const { return count_; }
  /// First position of tile i.
  __device__ int position(int i) const {
    return (work_->first + (begin_ + i * C::kWarps) * C::kTileBlocks) * kBlockTokens;
  }
  /// Offset of the j-th block of tile i; tiles are asked for in ascending order, all of the warp at once.
  __device__ std::int64_t offset(int i, int j) const {
    const int block = __shfl_sync(kAll, now_, i % kBatch * C::kTileBlocks + j);
    return static_cast<std::int64_t>(block_stride_) * block;
  }
  /// Before the first offset() of tile i.
  __device__ void reach(int i) {
    if (i == 0 || i % kBatch != 0) return;
    now_ = next_;
    next_ = fetch(table_, *work_, begin_, i + kBatch, lane_);
  }
  __device__ const char* keys() const { return keys_; }
  __device__ const char* values() const { return values_; }

 private:
  __device__ static int fetch(const std::int32_t* table, const Work& work, int begin, int i, int lane) {
    const int tile = begin + (i + lane / C::kTileBlocks) * C::kWarps;
    const int block = min(work.blocks - 1, work.first + tile * C::kTileBlocks + lane % C::kTileBlocks);
    return begin + i * C::kWarps < work.end ? __ldg(table + block) : 0;
  }
  const std::int32_t* table_;
  const char* keys_;
  const char* values_;
  const Work* work_;
  std::uint32_t block_stride_;
  int lane_, begin_, count_, now_, next_;
};

/// A tile of keys and values in registers, and where its blocks lie.
template <class C>
struct Tile {
  typename C::Keys keys[C::kTileBlocks];
  typename C::Values values[C::kTileBlocks];

  __device__ void load_keys(const Tiles<C>& tiles, int i, int lane) {
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j) keys[j].load(tiles.keys() + tiles.offset(i, j), lane);
  }
  __device__ void load_values(const Tiles<C>& tiles, int i, int lane) {
#pragma unroll
    for (int j = 0; j < C::kTileBlocks; ++j) values[j].load(tiles.values() + tiles.offset(i, j), lane);
  }
};

/// The first tiles of an item.
template <class C>
__device__ void load_first(const Tiles<C>& tiles, int lane, Tile<C> (&tile)[C::kDepth]) {
#pragma unroll
  for (int s = 0; s < C::kDepth; ++s)
    if (s < tiles.count()) {
      tile[s].load_keys(tiles, s, lane);
      tile[s].load_values(tiles, s, lane);
    }
}

}  // namespace
