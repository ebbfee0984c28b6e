// Decode attention whose keys and values come by bulk copies: one warp keeps a ring of cache blocks full, item after item,
// and the others take the blocks in by turns. What is on its way does not depend on what the others are busy with.
#pragma once

#include "barrier.cuh"
#include "decode_items.cuh"

namespace {

/// A number of cache blocks, keys and values each, behind each other in shared memory, and their barriers. Block number i of
/// all that this block of threads takes lies in stage i % kStages.
template <class C, int Stages>
class BlockRing {
 public:
  static_assert(C::kTileBlocks == 1, "a stage is a tile");
  static constexpr std::uint32_t kBlockBytes = kBlockTokens * C::kRowBytes;
  static constexpr int kStages = Stages;

  __device__ explicit BlockRing(const char* memory)
      : memory_(memory), barriers_(shared_address(memory) + Stages * 2 * kBlockBytes) {}
  __device__ void init() const {
    for (int s = 0; s < Stages; ++s) {
      barrier_init(full(s), 1);
      barrier_init(empty(s), 1);
    }
    barrier_init_fence();
  }

  /// One thread: copies block `block` of both caches as number `number`.
  __device__ void fill(unsigned number, const char* keys, const char* values) const {
    const int stage = static_cast<int>(number % Stages);
    barrier_wait(empty(stage), number / Stages % 2 ^ 1);
    barrier_expect(full(stage), 2 * kBlockBytes);
    const std::uint32_t to = shared_address(memory_) + stage * 2 * kBlockBytes;
    bulk_copy(to, keys, kBlockBytes, full(stage));
    bulk_copy(to + kBlockBytes, values, kBlockBytes, full(stage));
  }
  /// One warp: moves number `number` to registers and gives its stage back.
  __device__ void take(unsigned number, Tile<C>& tile, int lane) const {
    const int stage = static_cast<int>(number % Stages);
    // Another warp had the stage before this one. While that block is on its way, its phase passes for the next but one,
    // which is this one's; once it is given back, only this one's can end. With a multiple of the warps' stages it was
    // this warp, or one that has been met since.
    if (Stages % C::kWarps != 0 && number >= Stages) barrier_wait(empty(stage), number / Stages % 2 ^ 1);
    barrier_wait(full(stage), number / Stages % 2);
    const char* from = memory_ + stage * 2 * kBlockBytes;
    tile.keys[0].template load<FromShared>(from, lane);
    tile.values[0].template load<FromShared>(from + kBlockBytes, lane);
    __syncwarp();
    if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty(stage)) : "memory");
  }

 private:
  __device__ std::uint32_t full(int stage) const { return barriers_ + 16 * stage; }
  __device__ std::uint32_t empty(int stage) const { return barriers_ + 16 * stage + 8; }
  const char* memory_;
  std::uint32_t barriers_;
};

/// The warp that brings data. Nothing it reads is of this step, but for what is replaced by the new token's key and value.
template <class C, class Ring>
__device__ void fill_ring(const met::DecodeAttentionArgs& args, const Ring& ring, Work& work, int lane) {
  const std::int64_t head_bytes = Ring::kBlockBytes;
  const std::int64_t block_bytes = head_bytes * args.layer.kv_heads;
  unsigned number = 0;
  for (Items<C> items(args); items.advance(work, lane);) {
    const std::int32_t* table = args.block_table + work.row.table_begin + work.first;
    const char* keys = static_cast<const char*>(args.layer.k_cache) + head_bytes * work.kv_head;
    const char* values = static_cast<const char*>(args.layer.v_cache) + head_bytes * work.kv_head;
    for (int begin = work.begin; begin < work.end; begin += kWarp) {
      const int count = min(kWarp, work.end - begin);
      const int own = lane < count ? __ldg(table + begin + lane) : 0;
      for (int i = 0; i < count; ++i, ++number) {
        const std::int64_t at = block_bytes * __shfl_sync(kAll, own, i);
        if (lane == 0) ring.fill(number, keys + at, values + at);
      }
    }
  }
}

/// Takes in one block.
template <class C>
__device__ void take_block(Tile<C>& tile, int position, const Work& work, const Scores& scores,
                           const Shared<C>& shared, int lane, Sums<C>& sums) {
  const int to = work.row.position;
  const bool edge = position < work.from || position + C::kTileTokens > to;
  if (edge) mend_edges<C>(tile, position, work, shared, lane);
  Logits<C> logits;
  multiply_keys<C>(tile, shared, lane, logits);
  trim<C>(scores, position, work.from, to, edge, lane, logits);
  soften<C>(scores, lane, logits, sums);
  add_values<C>(tile, logits, sums);
}

/// An item's blocks as the ring brings them: of four warps, each takes every fourth.
template <class C, class Ring>
class BlocksOfRing {
 public:
  static constexpr bool kHeadsFirst = true;

  __device__ explicit BlocksOfRing(const Ring& ring) : ring_(ring) {}
  __device__ void expect(const met::DecodeAttentionArgs&, const Work&, bool, int, int) {}
  __device__ void take_all(const Work& work, const Scores& scores, const Shared<C>& shared, int warp,
                           int lane, Sums<C>& sums) {
    const int blocks = work.end - work.begin;
    for (int i = warp; i < blocks; i += C::kWarps) {
      Tile<C> tile;
      ring_.take(taken_ + i, tile, lane);
      take_block<C>(tile, (work.first + work.begin + i) * kBlockTokens, work, scores, shared, lane, sums);
    }
    taken_ += blocks;
  }
  __device__ void begin(const met::DecodeAttentionArgs&, const Work&, int, int) {}

 private:
  const Ring ring_;
  unsigned taken_ = 0;  // blocks of earlier items
};

template <class C, int Stages>
__device__ void decode_attention_ring(const met::DecodeAttentionArgs& args) {
  __shared__ Shared<C> shared;
  extern __shared__ __align__(128) char ring_memory[];
  launch_dependents();
  using Ring = BlockRing<C, Stages>;
  const Ring ring(ring_memory);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (threadIdx.x == C::kThreads) ring.init();
  __syncthreads();
  if (warp == C::kWarps) return fill_ring<C>(args, ring, shared.work[0][warp], lane);
  take_items<C>(args, shared, warp, lane, [&](const Work&) { return BlocksOfRing<C, Ring>(ring); });
}

}  // namespace
