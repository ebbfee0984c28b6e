// Shared memory of the decode projection and the warps that fill it.
#pragma once

#include "async.cuh"
#include "cluster.cuh"
#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

using met::ProjectionArgs;
using met::ProjectionTile;

constexpr int kChunkK = 64;       // values of k in a row of 128 bytes of BF16
constexpr int kChunkBytes = 128;  // of a row of a chunk
constexpr int kChunkSteps = 4;    // products of k = 16
constexpr int kStepUnits = 2;     // 16-byte units of k = 16
constexpr int kGroupRows = 64;    // rows of W of a warpgroup
constexpr int kGroupThreads = 128;
constexpr int kHelperWarps = 3;

/// What a block does: tiles first, first + step, … below `tiles`, and of each `stages` stages of k from `begin` on, of
/// which `start` comes first: blocks that walk k side by side would all want the same lines of x at a time.
struct Work {
  int tiles, first, step;
  int begin, stages, start;
  int rank;  // in the cluster
};

/// Shared memory: the ring, each stage holding `chunks` chunks of W [rows, 64] and as many of x [N, 64], all swizzled;
/// barriers; 1 / rms of each row of x; sums of squares of each warp and row. Where sums of a split tile meet in memory of
/// their own, they follow at tile.exchange.
class ProjectionMemory {
 public:
  __device__ ProjectionMemory(const ProjectionTile& tile, std::uint32_t base, int groups, int n)
      : base_(base),
        stage_bytes_(tile.chunks * (tile.rows + n) * kChunkBytes),
        barriers_(base + tile.stages * stage_bytes_),
        stages_(tile.stages),
        n_(n),
        groups_(groups) {}
  __device__ std::uint32_t base() const { return base_; }
  __device__ std::uint32_t stage_bytes() const { return stage_bytes_; }
  __device__ std::uint32_t stage(int slot) const { return base_ + slot * stage_bytes_; }
  __device__ std::uint32_t full(int slot) const { return barriers_ + 8 * slot; }
  __device__ std::uint32_t empty(int slot) const { return barriers_ + 8 * (stages_ + slot); }
  __device__ std::uint32_t scales_ready() const { return barriers_ + 16 * stages_; }
  __device__ std::uint32_t scale(int row) const { return barriers_ + 16 * (stages_ + 1) + 4 * row; }
  __device__ std::uint32_t squares(int warp, int row) const { return scale((warp + 1) * n_ + row); }
  __device__ int groups() const { return groups_; }

 private:
  std::uint32_t base_, stage_bytes_, barriers_;
  int stages_, n_, groups_;
};

__device__ inline void shared_store_float(std::uint32_t at, float v) {
  shared_store_word(at, __float_as_uint(v));
}

/// A stage of the ring and the parity of its current use.
struct RingCursor {
  int slot = 0;
  std::uint32_t phase = 0;
  __device__ void advance(int stages) {
    if (++slot < stages) return;
    slot = 0;
    phase ^= 1;
  }
};

/// The stages that a block reads, in order: of each tile its whole share, around from where it starts.
struct StageCursor {
  int tile, stage, left;
  __device__ explicit StageCursor(const Work& work)
      : tile(work.first), stage(work.begin + work.start), left(work.stages) {}
  __device__ void advance(const Work& work) {
    if (++stage == work.begin + work.stages) stage = work.begin;
    if (--left > 0) return;
    left = work.stages;
    tile += work.step;
  }
};

/// Chunks [first, first + chunks) of `rows` rows: one copy, or one a chunk where k ends within a chunk.
__device__ inline void load_weights(const ProjectionArgs& args, std::uint32_t to, std::uint32_t full,
                                    StageCursor at, std::uint64_t policy) {
  const ProjectionTile& tile = args.tile;
  const int first = at.stage * tile.chunks;
  const int row = at.tile * tile.rows;
  if (args.k % kChunkK == 0) return load_box3(to, args.weights, 0, row, first, full, policy);
  for (int c = 0; c < tile.chunks; ++c)
    load_box(to + c * tile.rows * kChunkBytes, args.weights, (first + c) * kChunkK, row, full, policy);
}

__device__ inline void load_x(const ProjectionArgs& args, std::uint32_t to, std::uint32_t full,
                              StageCursor at, int n) {
  const int first = at.stage * args.tile.chunks;
  if (args.k % kChunkK == 0) return load_box3(to, args.x, 0, 0, first, full);
  for (int c = 0; c < args.tile.chunks; ++c)
    load_box(to + c * n * kChunkBytes, args.x, (first + c) * kChunkK, 0, full);
}

/// One thread: weights into the whole ring, the wait for the kernels in front, x, and then both as stages are released.
__device__ inline void produce(const ProjectionArgs& args, const ProjectionMemory& memory, const Work& work,
                               int n) {
  prefetch_map(args.weights);
  prefetch_map(args.x);
  const std::uint64_t policy = evict_first_policy();
  const std::uint32_t x_at = args.tile.chunks * args.tile.rows * kChunkBytes;
  const int tiles = work.first < work.tiles ? (work.tiles - 1 - work.first) / work.step + 1 : 0;
  const int total = tiles * work.stages;
  const int ahead = min(total, args.tile.stages);
  StageCursor at(work);
  for (int i = 0; i < ahead; ++i, at.advance(work)) {
    barrier_expect(memory.full(i), memory.stage_bytes());
    load_weights(args, memory.stage(i), memory.full(i), at, policy);
  }
  wait_for_producers();
  StageCursor x_cursor(work);
  for (int i = 0; i < ahead; ++i, x_cursor.advance(work))
    load_x(args, memory.stage(i) + x_at, memory.full(i), x_cursor, n);
  RingCursor slot;
  for (int i = ahead; i < total; ++i, at.advance(work), slot.advance(args.tile.stages)) {
    barrier_wait(memory.empty(slot.slot), slot.phase);
    barrier_expect(memory.full(slot.slot), memory.stage_bytes());
    load_weights(args, memory.stage(slot.slot), memory.full(slot.slot), at, policy);
    load_x(args, memory.stage(slot.slot) + x_at, memory.full(slot.slot), at, n);
  }
}

__device__ inline int rows_of(const ProjectionArgs& args, int n) {
  return min(args.logits != 0 ? args.counts->logits : args.counts->tokens, n);
}

/// Helper warps: 1 / rms of each live row. Eight lanes share a row, each adds every 8th part; a butterfly adds the lanes.
__device__ inline void scale_rows(const ProjectionArgs& args, const ProjectionMemory& memory, int helper,
                                  int n) {
  constexpr int kLanesEach = 8;
  constexpr int kRowsAtOnce = kWarp / kLanesEach;
  constexpr int kTurns = 4;  // rows of a lane whose parts are in flight together
  wait_for_producers();
  if (args.norm.parts != nullptr) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int count = args.norm.count;
    const int rows = rows_of(args, n);
    const int stride = kHelperWarps * kRowsAtOnce;
    for (int row = helper * kRowsAtOnce + lane / kLanesEach; row - lane / kLanesEach < rows;
         row += kTurns * stride) {
      float sums[kTurns] = {};
#pragma unroll 4
      for (int i = lane % kLanesEach; i < count; i += kLanesEach) {
#pragma unroll
        for (int r = 0; r < kTurns; ++r) {
          const std::int64_t at = row + r * stride;
          if (at < rows) sums[r] += args.norm.parts[at * count + i];
        }
      }
#pragma unroll
      for (int r = 0; r < kTurns; ++r) {
#pragma unroll
        for (int step = kLanesEach / 2; step > 0; step /= 2)
          sums[r] += __shfl_xor_sync(0xffffffffU, sums[r], step);
        const int at = row + r * stride;
        const float mean = sums[r] / static_cast<float>(args.k);
        if (lane % kLanesEach == 0 && at < rows)
          shared_store_float(memory.scale(at), rsqrtf(mean + args.norm.eps));
      }
    }
  }
  __syncwarp();
  if (threadIdx.x % kWarp == 0) barrier_arrive(memory.scales_ready());
}

/// The part of warps without sums in the exchange between the blocks of a cluster.
__device__ inline void follow_exchange(const ProjectionTile& tile) {
  if (tile.exchange == 0) cluster_arrive();
  cluster_wait();
  cluster_sync();
}

}  // namespace
