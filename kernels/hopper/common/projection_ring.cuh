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

constexpr int kChunkBytes = 128;  // of a row of a chunk
constexpr int kChunkSteps = 4;    // products of 32 bytes of k
constexpr int kStepUnits = 2;     // of 16 bytes
constexpr int kGroupRows = 64;    // rows of W of a warpgroup
constexpr int kGroupThreads = 128;
constexpr int kWarpRows = 16;  // rows of W of a warp
constexpr int kSpreadBytes =
    80;  // from one row of x to the next where a warp spreads its sums: 16, and no bank twice
constexpr int kHelperWarps = 2;  // find 1 / rms
constexpr int kStageBarriers = 3;

/// What a block does: tiles first, first + step, … below `tiles`, and of each `stages` stages of k from `begin` on. All
/// blocks walk k side by side: what they read of x at a time is the same, and the caches on the way serve it once.
struct Work {
  int tiles, first, step;
  int begin, stages;
  int rank;  // in the cluster
};

/// Shared memory: the ring, each stage holding `chunks` chunks of W [rows, 128 bytes] and as many of x [N, 128 bytes], all
/// swizzled; the scales of x of each stage, [chunks, N, `x_scale_bytes`]; a piece for each warp to spread a slice of its
/// sums; barriers; 1 / rms of each row of x; sums of squares of each warp and row, and where rows are coded twice the
/// largest magnitudes. At tile.exchange sums of the other teams and of the other block of a split tile arrive.
class ProjectionMemory {
 public:
  __device__ ProjectionMemory(const ProjectionTile& tile, std::uint32_t base, int groups, int n,
                              int x_scale_bytes)
      : base_(base),
        weights_bytes_(tile.chunks * tile.rows * kChunkBytes),
        stage_bytes_(tile.chunks * (tile.rows + n) * kChunkBytes),
        x_scales_(base + tile.stages * stage_bytes_),
        x_scales_bytes_(tile.chunks * n * x_scale_bytes),
        warp_bytes_(min(n, 16) * kSpreadBytes),
        spread_(x_scales_ + tile.stages * x_scales_bytes_),
        barriers_(spread_ + groups / tile.teams * (kGroupThreads / kWarp) * warp_bytes_),
        tail_(barriers_ + kStageBarriers * 8 * tile.stages),
        stages_(tile.stages),
        n_(n),
        groups_(groups),
        teams_(tile.teams) {}
  __device__ std::uint32_t base() const { return base_; }
  __device__ std::uint32_t weights_bytes() const { return weights_bytes_; }
  __device__ std::uint32_t x_bytes() const { return stage_bytes_ - weights_bytes_; }
  __device__ std::uint32_t weights(int slot) const { return base_ + slot * stage_bytes_; }
  __device__ std::uint32_t x(int slot) const { return weights(slot) + weights_bytes_; }
  __device__ std::uint32_t x_scales(int slot) const { return x_scales_ + slot * x_scales_bytes_; }
  __device__ std::uint32_t spread(int warp, int row) const {
    return spread_ + warp * warp_bytes_ + row * kSpreadBytes;
  }
  __device__ std::uint32_t weights_full(int slot) const { return barriers_ + 8 * slot; }
  __device__ std::uint32_t x_full(int slot) const { return barriers_ + 8 * (stages_ + slot); }
  __device__ std::uint32_t empty(int slot) const { return barriers_ + 8 * (2 * stages_ + slot); }
  __device__ std::uint32_t scales_ready() const { return tail_; }
  __device__ std::uint32_t sums_arrived() const { return tail_ + 8; }
  __device__ std::uint32_t scale(int row) const { return tail_ + 16 + 4 * row; }
  __device__ std::uint32_t squares(int warp, int row) const { return scale((warp + 1) * n_ + row); }
  /// Largest magnitude among a warp's values of a row; `turn`: 0 or 1.
  __device__ std::uint32_t largest(int turn, int warp, int row) const {
    return squares((turn + 1) * finishers() * kGroupThreads / kWarp + warp, row);
  }
  /// Warpgroups of consumers that finish a tile: all, or the first team.
  __device__ int finishers() const { return groups_ / teams_; }

  __device__ void init_barriers() const {
    for (int i = 0; i < stages_; ++i) {
      barrier_init(weights_full(i), 1);
      barrier_init(x_full(i), 1);
      barrier_init(empty(i), finishers() * kGroupThreads / kWarp);
    }
    barrier_init(scales_ready(), kHelperWarps);
    barrier_init(sums_arrived(), 1);
    barrier_init_fence();
    async_proxy_fence();
  }

 private:
  std::uint32_t base_, weights_bytes_, stage_bytes_, x_scales_, x_scales_bytes_;
  std::uint32_t warp_bytes_, spread_, barriers_, tail_;
  int stages_, n_, groups_, teams_;
};

/// A stage of the ring and the parity of its current use.
struct RingCursor {
  int slot = 0;
  std::uint32_t phase = 0;
  __device__ void advance(int stages, int by = 1) {
    for (slot += by; slot >= stages; slot -= stages) phase ^= 1;
  }
};

/// The stages that a block reads, in order: of each tile all of its share.
struct StageCursor {
  int tile, stage;
  __device__ explicit StageCursor(const Work& work) : tile(work.first), stage(work.begin) {}
  __device__ void advance(const Work& work) {
    if (++stage < work.begin + work.stages) return;
    stage = work.begin;
    tile += work.step;
  }
};

/// A stage's chunks of weights, or of x, `chunk_k` values each: one copy, or one a chunk where k ends within a chunk.
__device__ inline void load_weights(const ProjectionArgs& args, std::uint32_t to, std::uint32_t full,
                                    StageCursor at, int chunk_k, std::uint64_t policy) {
  const ProjectionTile& tile = args.tile;
  const int first = at.stage * tile.chunks;
  const int row = at.tile * tile.rows;
  if (args.k % chunk_k == 0) return load_box3(to, args.weights, 0, row, first, full, policy);
  for (int c = 0; c < tile.chunks; ++c)
    load_box(to + c * tile.rows * kChunkBytes, args.weights, (first + c) * chunk_k, row, full, policy);
}

__device__ inline void load_x(const ProjectionArgs& args, std::uint32_t to, std::uint32_t full,
                              StageCursor at, int chunk_k, int n) {
  const int first = at.stage * args.tile.chunks;
  if (args.k % chunk_k == 0) return load_box3(to, args.x, 0, 0, first, full);
  for (int c = 0; c < args.tile.chunks; ++c)
    load_box(to + c * n * kChunkBytes, args.x, (first + c) * chunk_k, 0, full);
}

/// How many stages a block reads.
__device__ inline int stages_of(const Work& work) {
  const int tiles = work.first < work.tiles ? (work.tiles - 1 - work.first) / work.step + 1 : 0;
  return tiles * work.stages;
}

/// One thread that brings weights. At most `flight` stages are under way: the copy engine works in order, and what waits in
/// front of it delays x.
class WeightsProducer {
 public:
  __device__ WeightsProducer(const ProjectionArgs& args, const ProjectionMemory& memory, const Work& work,
                             int chunk_k)
      : args_(args),
        memory_(memory),
        work_(work),
        chunk_k_(chunk_k),
        at_(work),
        policy_(evict_first_policy()),
        left_(stages_of(work)) {}

  /// The first stages, which wait for nothing.
  __device__ void begin() {
    for (int i = 0; i < args_.tile.flight && left_ > 0; ++i) load();
  }

  __device__ void run() {
    RingCursor landed;
    int free = args_.tile.stages - args_.tile.flight;  // stages that were never filled
    RingCursor released;
    for (; left_ > 0; landed.advance(args_.tile.stages)) {
      barrier_wait(memory_.weights_full(landed.slot), landed.phase);
      if (--free < 0) {
        barrier_wait(memory_.empty(released.slot), released.phase);
        released.advance(args_.tile.stages);
      }
      load();
    }
  }

 private:
  __device__ void load() {
    const std::uint32_t full = memory_.weights_full(slot_.slot);
    barrier_expect(full, memory_.weights_bytes());
    load_weights(args_, memory_.weights(slot_.slot), full, at_, chunk_k_, policy_);
    at_.advance(work_);
    slot_.advance(args_.tile.stages);
    --left_;
  }

  const ProjectionArgs& args_;
  const ProjectionMemory& memory_;
  const Work& work_;
  int chunk_k_;
  StageCursor at_;
  RingCursor slot_;
  std::uint64_t policy_;
  int left_;
};

/// One thread that brings x and its scales, once the kernels in front have ended.
__device__ inline void produce_x(const ProjectionArgs& args, const ProjectionMemory& memory, const Work& work,
                                 int n, int chunk_k, int x_scale_bytes) {
  prefetch_map(args.x);
  StageCursor at(work);
  RingCursor slot;
  RingCursor released;
  const int all_chunks = (args.k + chunk_k - 1) / chunk_k;
  wait_for_producers();
  const int total = stages_of(work);
  for (int i = 0; i < total; ++i) {
    if (i >= args.tile.stages) {
      barrier_wait(memory.empty(released.slot), released.phase);
      released.advance(args.tile.stages);
    }
    const std::uint32_t full = memory.x_full(slot.slot);
    const int first = at.stage * args.tile.chunks;
    const int scale_bytes = min(args.tile.chunks, all_chunks - first) * n * x_scale_bytes;
    barrier_expect(full, memory.x_bytes() + scale_bytes);
    load_x(args, memory.x(slot.slot), full, at, chunk_k, n);
    if (x_scale_bytes > 0)
      bulk_copy(memory.x_scales(slot.slot),
                reinterpret_cast<const char*>(args.x_scales) + std::int64_t{first} * n * x_scale_bytes,
                scale_bytes, full);
    at.advance(work);
    slot.advance(args.tile.stages);
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
  constexpr int kTurns = 4;  // rows of a lane,
  constexpr int kDepth = 4;  // and parts of each, that are in flight together
  constexpr int kStride = kHelperWarps * kRowsAtOnce;
  wait_for_producers();
  if (args.norm.parts != nullptr) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int part = lane % kLanesEach;
    const int count = args.norm.count;
    const int rows = rows_of(args, n);
    for (int first = helper * kRowsAtOnce; first < rows; first += kTurns * kStride) {
      const int row = first + lane / kLanesEach;
      float sums[kTurns] = {};
      const float* parts[kTurns];
#pragma unroll
      for (int r = 0; r < kTurns; ++r) parts[r] = args.norm.parts + min(row + r * kStride, rows - 1) * count;
      int i = part;
      for (; i + (kDepth - 1) * kLanesEach < count; i += kDepth * kLanesEach) {
        float v[kTurns][kDepth];
#pragma unroll
        for (int d = 0; d < kDepth; ++d)
#pragma unroll
          for (int r = 0; r < kTurns; ++r) v[r][d] = parts[r][i + d * kLanesEach];
#pragma unroll
        for (int d = 0; d < kDepth; ++d)
#pragma unroll
          for (int r = 0; r < kTurns; ++r) sums[r] += v[r][d];
      }
      for (; i < count; i += kLanesEach)
#pragma unroll
        for (int r = 0; r < kTurns; ++r) sums[r] += parts[r][i];
#pragma unroll
      for (int r = 0; r < kTurns; ++r) {
#pragma unroll
        for (int step = kLanesEach / 2; step > 0; step /= 2)
          sums[r] += __shfl_xor_sync(0xffffffffU, sums[r], step);
        const int at = row + r * kStride;
        const float mean = sums[r] / static_cast<float>(args.k);
        if (part == 0 && at < rows) shared_store_float(memory.scale(at), rsqrtf(mean + args.norm.eps));
      }
    }
  }
  __syncwarp();
  if (threadIdx.x % kWarp == 0) barrier_arrive(memory.scales_ready());
}

}  // namespace
