// Decode attention for many rows: every warp keeps a ring of cache blocks of its own full by tensor copies, from one item into
// the next. A warp takes items in by itself, or a team of them takes a part of its blocks each where there are fewer items
// than warps. Teams wait for nobody, so what one does between items hides behind the blocks of others.
#pragma once

#include "async.cuh"
#include "decode_items.cuh"

namespace {

/// Cache blocks on their way to a warp. A stage is a block's keys or its values, in slabs of 64 dimensions as tensor copies
/// swizzle them. Of all that the warp takes, keys and values in turn, number i lies in stage i % Stages.
template <class C, int Stages>
class BlockRing {
 public:
  static_assert(C::kTileBlocks == 1, "a tile is a block");
  static constexpr int kSlab = 64;                      // dimensions
  static constexpr std::uint32_t kSlabRow = 2 * kSlab;  // bytes
  static constexpr std::uint32_t kSlabBytes = kBlockTokens * kSlabRow;
  static constexpr int kSlabs = C::kDim / kSlab;
  static constexpr std::uint32_t kStageBytes = kSlabs * kSlabBytes;
  static constexpr std::uint32_t kBytes = Stages * kStageBytes;

  __device__ BlockRing(std::uint32_t memory, std::uint32_t barriers) : memory_(memory), barriers_(barriers) {}
  __device__ void init() const {
    for (int s = 0; s < Stages; ++s) barrier_init(full(s), 1);
    barrier_init_fence();
  }
  __device__ bool has_room() const { return filled_ - taken_ < Stages; }
  /// Whether keys are next to be asked for.
  __device__ bool at_keys() const { return filled_ % 2 == 0; }

  /// The warp: asks for the block whose first row in the cache of `map` is `row`.
  __device__ void fill(const met::DeviceTensorMap& map, int row, int lane) {
    const unsigned stage = filled_ % Stages;
    if (lane == 0) barrier_expect(full(stage), kStageBytes);
    __syncwarp();
    if (lane < kSlabs)
      load_box(memory_ + stage * kStageBytes + lane * kSlabBytes, map, lane * kSlab, row, full(stage));
    ++filled_;
  }
  /// Moves the next keys or values to registers; their stage may be filled again.
  template <class Block>
  __device__ void take(Block& block, int lane) {
    const unsigned stage = taken_ % Stages;
    barrier_wait(full(stage), taken_ / Stages % 2);
    const std::uint32_t from = memory_ + stage * kStageBytes;
#pragma unroll
    for (int i = 0; i < Block::kVectors; ++i) {
      const int row = Block::row(i, lane);
      const int unit = Block::unit(i, lane);
      const uint4 v =
          shared_load_bits(from + unit / 8 * kSlabBytes + row * kSlabRow + (unit % 8 ^ row % 8) * 16);
      std::uint32_t* words = block.vector(i);
      words[0] = v.x;
      words[1] = v.y;
      words[2] = v.z;
      words[3] = v.w;
    }
    __syncwarp();
    ++taken_;
  }

 private:
  __device__ std::uint32_t full(unsigned stage) const { return barriers_ + 8 * stage; }
  std::uint32_t memory_;
  std::uint32_t barriers_;
  unsigned filled_ = 0;
  unsigned taken_ = 0;
};

/// The blocks of an item that a warp of its team takes in.
struct Part {
  int begin, end;
};
template <class C>
__device__ Part part_of(const Work& work, int warp) {
  const int each = (work.end - work.begin + C::kWarps - 1) / C::kWarps;
  const int begin = min(work.end, work.begin + warp * each);
  return {begin, min(work.end, begin + each)};
}

/// Numbers of a part's cache blocks, asked for in order: read 32 at a time, one batch ahead.
class BlockNumbers {
 public:
  BlockNumbers() = default;
  __device__ BlockNumbers(const met::DecodeAttentionArgs& args, const Work& work, const Part& part, int lane)
      : table_(args.block_table + work.row.table_begin + work.first + part.begin),
        count_(part.end - part.begin) {
    now_ = fetch(0, lane);
    next_ = fetch(kWarp, lane);
  }
  __device__ bool left() const { return asked_ < count_; }
  __device__ int pop(int lane) {
    const int number = __shfl_sync(kAll, now_, asked_ % kWarp);
    if (++asked_ % kWarp == 0) {
      now_ = next_;
      next_ = fetch(asked_ + kWarp, lane);
    }
    return number;
  }

 private:
  __device__ int fetch(int begin, int lane) const {
    return begin + lane < count_ ? __ldg(table_ + begin + lane) : 0;
  }
  const std::int32_t* table_ = nullptr;
  int count_ = 0;
  int asked_ = 0;
  int now_ = 0;
  int next_ = 0;
};

/// Queries in registers.
template <class C>
struct QueriesInRegisters {
  uint4 of[C::kSteps];
  __device__ QueriesInRegisters(Shared<C>& shared, int lane) {
#pragma unroll
    for (int s = 0; s < C::kSteps; ++s) of[s] = query_fragment<C>(queries_of(shared), s, lane);
  }
  __device__ uint4 operator()(int step) const { return of[step]; }
};

/// An item's blocks as the warp's ring brings them. Nothing that it reads is of this step, but for what is replaced by the
/// new token's key and value.
template <class C, int Stages>
class BlocksOfRing {
 public:
  static constexpr bool kHeadsFirst = true;
  using Ring = BlockRing<C, Stages>;

  __device__ BlocksOfRing(const met::DecodeAttentionArgs& args, const Ring& ring, const Work& work, int warp,
                          int lane)
      : args_(args), ring_(ring), now_(args, work, part_of<C>(work, warp), lane), kv_head_(work.kv_head) {
    top_up(lane);
  }
  __device__ void expect(const met::DecodeAttentionArgs& args, const Work& next, bool more, int warp,
                         int lane) {
    next_ = more ? BlockNumbers(args, next, part_of<C>(next, warp), lane) : BlockNumbers();
  }
  __device__ void take_all(const Work& work, const Scores& scores, Shared<C>& shared, int warp, int lane,
                           Sums<C>& sums) {
    const QueriesInRegisters<C> queries(shared, lane);
    const int to = work.row.position;
    const int from = work.from;
    const Part part = part_of<C>(work, warp);
    int position = (work.first + part.begin) * kBlockTokens;
#pragma unroll 1
    for (int left = part.end - part.begin; left > 0; --left, position += kBlockTokens) {
      Tile<C> tile;
      ring_.take(tile.keys[0], lane);
      fill(lane);
      ring_.take(tile.values[0], lane);
      fill(lane);
      const bool edge = position < from || position + kBlockTokens > to;
      if (edge) mend_edges<C>(tile, position, work, shared, lane);
      Logits<C> logits;
      multiply_keys<C>(tile, queries, logits);
      trim<C>(scores, position, from, to, edge, lane, logits);
      soften<C>(scores, lane, logits, sums);
      add_values<C>(tile, logits, sums);
    }
  }
  __device__ void begin(const met::DecodeAttentionArgs&, const Work&, int, int lane) {
    if (next_.left()) advance();
    top_up(lane);
  }

 private:
  /// Asks for the next keys or values of this item or, where there are none left, of the next one.
  __device__ void fill(int lane) {
    if (ring_.at_keys()) {
      if (!now_.left()) {
        if (!next_.left()) return;
        advance();
      }
      row_ = (now_.pop(lane) * args_.layer.kv_heads + kv_head_) * kBlockTokens;
      ring_.fill(args_.k_map, row_, lane);
    } else {
      ring_.fill(args_.v_map, row_, lane);
    }
  }
  __device__ void advance() {
    now_ = next_;
    next_ = BlockNumbers();
  }
  __device__ void top_up(int lane) {
#pragma unroll 1
    while (ring_.has_room() && (now_.left() || !ring_.at_keys())) fill(lane);
  }
  const met::DecodeAttentionArgs& args_;
  Ring ring_;
  BlockNumbers now_, next_;
  int kv_head_;
  int row_ = 0;  // of the block asked for last
};

template <class C, int Teams, int Stages>
__device__ void decode_attention_ring(const met::DecodeAttentionArgs& args) {
  using Source = BlocksOfRing<C, Stages>;
  using Ring = typename Source::Ring;
  constexpr std::uint32_t kAlignment = 1024;  // of what is swizzled
  __shared__ Shared<C> shared[Teams];
  __shared__ alignas(8) std::uint64_t barriers[Teams * C::kWarps][Stages];
  extern __shared__ char ring_memory[];
  launch_dependents();
  const int number = static_cast<int>(threadIdx.x) / kWarp;  // of the warp
  const int warp = number % C::kWarps;                       // of its team
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::uint32_t base = (shared_address(ring_memory) + kAlignment - 1) / kAlignment * kAlignment;
  const Ring ring(base + number * Ring::kBytes, shared_address(barriers[number]));
  if (lane == 0) {
    prefetch_map(args.k_map);
    prefetch_map(args.v_map);
    ring.init();
  }
  __syncwarp();
  take_items<C>(args, shared[number / C::kWarps], warp, lane,
                [&](const Work& work) { return Source(args, ring, work, warp, lane); });
}

}  // namespace
