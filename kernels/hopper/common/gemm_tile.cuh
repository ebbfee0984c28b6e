// What the GEMM kernels share: the order of tiles, the ring of stages that tensor copies fill, the sum over a
// cluster that split K, and the epilogues. gemm.cu says how the parts work together.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "async.cuh"
#include "pdl.cuh"
#include "wgmma.cuh"

namespace {

using namespace met;

constexpr int kWarpThreads = 32;
constexpr int kGroupWarps = 4;  // of a warpgroup
constexpr int kGroupThreads = kGroupWarps * kWarpThreads;
constexpr int kConsumerWarps = 8;
constexpr int kConsumers = kConsumerWarps * kWarpThreads;
constexpr int kThreads = kConsumers + kGroupThreads;  // the last warpgroup feeds the ring
constexpr int kTileM = 128;                           // rows of x in a tile, 64 a warpgroup
constexpr int kRowBytes = 128;                        // of a stage: 64 BF16 or 128 E4M3 values of k
constexpr int kXBoxRows = 64;                         // rows of a tensor copy of x
constexpr int kXBoxBytes = kXBoxRows * kRowBytes;
constexpr int kWBoxRows = 32;  // and of W: 96 columns are whole boxes
constexpr int kWBoxBytes = kWBoxRows * kRowBytes;
constexpr int kStagingBytes = 16 * kRowBytes;  // a warp's 16 rows of 64 results
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;

/// How the blocks of a cluster share work.
enum class Share {
  kNone,   // one block
  kPair,   // two tiles of rows on the same rows of W, which are loaded once for both
  kSplit,  // one tile, each block takes a part of k
};

template <int N, Share Mode, int Blocks, int Stages>
struct Tile {
  static constexpr int kN = N;  // rows of W in a tile
  static constexpr Share kShare = Mode;
  static constexpr int kBlocks = Blocks;  // of a cluster
  static constexpr int kStages = Stages;
  static constexpr int kSplits = Mode == Share::kSplit ? Blocks : 1;
  static constexpr int kMTiles = Mode == Share::kPair ? 2 : 1;  // of a cluster
  static constexpr int kXBytes = kTileM * kRowBytes;
  static constexpr int kStageBytes = kXBytes + N * kRowBytes;
  static constexpr int kOwnColumns = N / kSplits;  // that a block adds up and stores
  static constexpr int kSumBytes = kSplits > 1 ? N* kTileM * 4 : 0;
  static constexpr int kBarriers = 2 * Stages + 2;
  static constexpr int kSharedBytes =
      1024 + Stages * kStageBytes + kConsumerWarps * kStagingBytes + kSumBytes + kBarriers * 8;
  static_assert(kSharedBytes <= 232448, "more shared memory than a block can have");
  static_assert(N % kWBoxRows == 0 && kOwnColumns % 16 == 0);
  static_assert(Mode != Share::kPair || N % (2 * kWBoxRows) == 0, "each block of a pair loads whole boxes");
};

// ---- shared memory ----

template <class T>
struct Shared {
  std::uint32_t ring;
  std::uint32_t staging;
  std::uint32_t sums;
  std::uint32_t barriers;

  __device__ static Shared at(const void* memory) {
    Shared s;
    s.ring = (shared_address(memory) + 1023) & ~1023U;
    s.staging = s.ring + T::kStages * T::kStageBytes;
    s.sums = s.staging + kConsumerWarps * kStagingBytes;
    s.barriers = s.sums + T::kSumBytes;
    return s;
  }
  __device__ std::uint32_t x(int stage) const { return ring + stage * T::kStageBytes; }
  __device__ std::uint32_t weights(int stage) const { return x(stage) + T::kXBytes; }
  __device__ std::uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ std::uint32_t empty(int stage) const { return barriers + 8 * (T::kStages + stage); }
  __device__ std::uint32_t summed() const { return barriers + 8 * (2 * T::kStages); }  // all parts are here
  __device__ std::uint32_t taken() const {
    return barriers + 8 * (2 * T::kStages + 1);
  }  // all peers read theirs

  __device__ void init() const {
    constexpr int kReaders = T::kShare == Share::kPair ? T::kBlocks : 1;
    for (int s = 0; s < T::kStages; ++s) {
      barrier_init(full(s), 1);
      barrier_init(empty(s), kReaders * kConsumerWarps);
    }
    barrier_init(summed(), T::kBlocks * kConsumerWarps);
    barrier_init(taken(), T::kBlocks * kConsumerWarps);
    barrier_init_fence();
  }
};

/// Position in the ring: the stage, and the parity of its current round.
template <class T>
struct RingAt {
  int stage = 0;
  std::uint32_t round = 0;
  __device__ void next() {
    if (++stage == T::kStages) {
      stage = 0;
      round ^= 1;
    }
  }
};

// ---- the order of tiles ----

struct TileAt {
  int row;     // first row of x
  int column;  // first row of W
};

/// Clusters take tiles round robin. Neighbours in the order share rows of x and of W in the cache: groups of kGroupRows
/// rows of x go over all of W, every other one backwards.
template <class T>
struct TileOrder {
  static constexpr int kUnitRows = kTileM * T::kMTiles;
  static constexpr int kGroup = 2048 / kUnitRows;  // units of rows that pass over W together
  int m_units;
  int n_tiles;

  __device__ TileOrder(int tokens, int n)
      : m_units((tokens + kUnitRows - 1) / kUnitRows), n_tiles((n + T::kN - 1) / T::kN) {}
  __device__ int count() const { return m_units * n_tiles; }
  __device__ TileAt at(int index, int rank) const {
    const int group = index / (kGroup * n_tiles);
    const int in_group = index - group * kGroup * n_tiles;
    const int units = min(kGroup, m_units - group * kGroup);
    const int n_tile = in_group / units;
    const int unit = group * kGroup + in_group - n_tile * units;
    const int m_tile = unit * T::kMTiles + (T::kShare == Share::kPair ? rank : 0);
    return {m_tile * kTileM, (group % 2 != 0 ? n_tiles - 1 - n_tile : n_tile) * T::kN};
  }
};

/// Blocks of k, each kRowBytes wide, that this block multiplies.
struct KRange {
  int begin;
  int end;
};

template <class T>
__device__ KRange k_range(int k_bytes, int rank) {
  const int blocks = (k_bytes + kRowBytes - 1) / kRowBytes;
  if (T::kSplits == 1) return {0, blocks};
  return {blocks * rank / T::kSplits, blocks * (rank + 1) / T::kSplits};
}

// ---- filling the ring ----

/// One thread. `values` of k lie in kRowBytes.
template <class T>
__device__ void load_stage(const GemmArgs& args, const Shared<T>& shared, int stage, TileAt tile, int k,
                           int rank) {
  const std::uint32_t full = shared.full(stage);
  barrier_expect(full, T::kStageBytes);
#pragma unroll
  for (int box = 0; box < kTileM / kXBoxRows; ++box)
    load_box(shared.x(stage) + box * kXBoxBytes, args.x, k, tile.row + box * kXBoxRows, full);
  constexpr int kWeightBoxes = T::kN / kWBoxRows;
  if constexpr (T::kShare == Share::kPair) {
    constexpr int kHalf = kWeightBoxes / 2;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int box = rank * kHalf + i;
      load_box_multicast(shared.weights(stage) + box * kWBoxBytes, args.weights, k,
                         tile.column + box * kWBoxRows, full, 0b11);
    }
  } else {
#pragma unroll
    for (int box = 0; box < kWeightBoxes; ++box)
      load_box(shared.weights(stage) + box * kWBoxBytes, args.weights, k, tile.column + box * kWBoxRows,
               full);
  }
}

/// Keeps the ring full for all tiles of this cluster. One thread.
template <class T, int KValues>
__device__ void produce(const GemmArgs& args, const Shared<T>& shared, int rank) {
  prefetch_map(args.weights);
  prefetch_map(args.x);
  wait_for_producers();
  const TileOrder<T> order(args.counts->tokens, args.n);
  const KRange range = k_range<T>(args.k * (kRowBytes / KValues), rank);
  RingAt<T> at;
  for (int index = blockIdx.x / T::kBlocks; index < order.count(); index += gridDim.x / T::kBlocks) {
    const TileAt tile = order.at(index, rank);
    for (int block = range.begin; block < range.end; ++block, at.next()) {
      barrier_wait_cluster(shared.empty(at.stage), at.round ^ 1);
      load_stage(args, shared, at.stage, tile, block * KValues, rank);
    }
  }
}

/// A consumer warp has read a stage: whoever fills it may.
template <class T>
__device__ void release_stage(const Shared<T>& shared, int stage, int lane) {
  if constexpr (T::kShare == Share::kPair) {
    if (lane < T::kBlocks) peer_arrive_after_reads(peer_address(shared.empty(stage), lane));
  } else {
    if (lane == 0) barrier_arrive(shared.empty(stage));
  }
}

// ---- the sum over a cluster that split k ----

/// Gives each block of the cluster its columns of the tile and adds them in the order of ranks.
template <class T>
__device__ void sum_splits(const Shared<T>& shared, const float (&part)[T::kN / 2],
                           float (&sum)[T::kOwnColumns / 2], int rank, std::uint32_t round) {
  constexpr int kOwnGroups = T::kOwnColumns / 8;
  const int lane = threadIdx.x % kWarpThreads;
  barrier_wait_cluster(shared.taken(), round ^ 1);
#pragma unroll
  for (int owner = 0; owner < T::kSplits; ++owner) {
    const std::uint32_t slot =
        peer_address(shared.sums, owner) + (rank * kOwnGroups * kConsumers + threadIdx.x) * 16;
#pragma unroll
    for (int j = 0; j < kOwnGroups; ++j) {
      const float* d = part + 4 * (owner * kOwnGroups + j);
      peer_store(slot + j * kConsumers * 16, make_float4(d[0], d[1], d[2], d[3]));
    }
  }
  __syncwarp();
  if (lane < T::kSplits) peer_arrive(peer_address(shared.summed(), lane));
  barrier_wait_cluster(shared.summed(), round);
#pragma unroll
  for (int i = 0; i < T::kOwnColumns / 2; ++i) sum[i] = 0.0F;
  for (int from = 0; from < T::kSplits; ++from) {
    const std::uint32_t slot = shared.sums + (from * kOwnGroups * kConsumers + threadIdx.x) * 16;
#pragma unroll
    for (int j = 0; j < kOwnGroups; ++j) {
      const float4 v = shared_load(slot + j * kConsumers * 16);
      sum[4 * j] += v.x;
      sum[4 * j + 1] += v.y;
      sum[4 * j + 2] += v.z;
      sum[4 * j + 3] += v.w;
    }
  }
  __syncwarp();
  if (lane < T::kSplits) peer_arrive(peer_address(shared.taken(), lane));
}

}  // namespace
