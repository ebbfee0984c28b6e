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
constexpr int kHelperWarps = 3;                       // beside the one that feeds the ring
constexpr int kThreads = kConsumers + kGroupThreads;  // the last warpgroup feeds the ring
constexpr int kGroupRows = 64;                        // of those a warpgroup multiplies
constexpr int kTileM = 128;                           // rows of x in a tile, 64 a warpgroup
constexpr int kRowBytes = 128;                        // of a stage: 64 BF16 or 128 E4M3 values of k
constexpr int kGroupBytes = kGroupRows * kRowBytes;   // of a warpgroup's rows of x in a stage
constexpr int kWBoxRows = 64;                         // of a tensor copy of W; one of x takes the tile's rows
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

/// ScaleBytes: of a stage, for the scales of its rows of x.
template <int N, Share Mode, int Blocks, int Stages, int ScaleBytes = 0>
struct Tile {
  static constexpr int kN = N;  // rows of W in a tile
  static constexpr Share kShare = Mode;
  static constexpr int kBlocks = Blocks;  // of a cluster
  static constexpr int kStages = Stages;
  static constexpr int kSplits = Mode == Share::kSplit ? Blocks : 1;
  static constexpr int kMTiles = Mode == Share::kPair ? 2 : 1;  // of a cluster
  static_assert(N % (kWBoxRows * kMTiles) == 0, "each block loads whole boxes");
  static constexpr int kXBytes = kTileM * kRowBytes;
  static constexpr int kStageBytes = kXBytes + N * kRowBytes;
  static constexpr int kScaleBytes = ScaleBytes;
  static constexpr bool kBlockScales = kBlockScaleValues % N == 0;  // a tile lies in one row of blocks of W
  static constexpr int kOwnColumns = N / kSplits;                   // that a block adds up and stores
  static constexpr int kSumBytes = (kSplits - 1) * kOwnColumns * kTileM * 4;
  static constexpr int kBarriers = 2 * Stages + 3;
  static constexpr int kSharedBytes = 1024 + Stages * (kStageBytes + ScaleBytes) +
                                      kConsumerWarps * kStagingBytes + kSumBytes + kGemmNormRows * 4 +
                                      kBarriers * 8;
  static_assert(kSharedBytes <= 232448, "more shared memory than a block can have");
  static_assert(kOwnColumns % 16 == 0);
};

// ---- shared memory ----

template <class T>
struct Shared {
  std::uint32_t ring;
  std::uint32_t staging;
  std::uint32_t sums;
  std::uint32_t x_scales;
  std::uint32_t norms;  // 1 / rms of each row
  std::uint32_t barriers;

  __device__ static Shared at(const void* memory) {
    Shared s;
    s.ring = (shared_address(memory) + 1023) & ~1023U;
    s.staging = s.ring + T::kStages * T::kStageBytes;
    s.sums = s.staging + kConsumerWarps * kStagingBytes;
    s.x_scales = s.sums + T::kSumBytes;
    s.norms = s.x_scales + T::kStages * T::kScaleBytes;
    s.barriers = s.norms + kGemmNormRows * 4;
    return s;
  }
  __device__ std::uint32_t x(int stage) const { return ring + stage * T::kStageBytes; }
  __device__ std::uint32_t weights(int stage) const { return x(stage) + T::kXBytes; }
  __device__ std::uint32_t scales(int stage) const { return x_scales + stage * T::kScaleBytes; }
  __device__ std::uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ std::uint32_t empty(int stage) const { return barriers + 8 * (T::kStages + stage); }
  __device__ std::uint32_t summed() const { return barriers + 8 * (2 * T::kStages); }  // all parts are here
  __device__ std::uint32_t taken() const {
    return barriers + 8 * (2 * T::kStages + 1);
  }  // all peers read theirs
  __device__ std::uint32_t normed() const { return barriers + 8 * (2 * T::kStages + 2); }  // norms are there

  __device__ void init() const {
    constexpr int kReaders = T::kShare == Share::kPair ? T::kBlocks : 1;
    for (int s = 0; s < T::kStages; ++s) {
      barrier_init(full(s), 1);
      barrier_init(empty(s), kReaders * kConsumerWarps);
    }
    barrier_init(summed(), 1);
    barrier_init(taken(), (T::kSplits > 1 ? T::kSplits - 1 : 1) * kConsumerWarps);
    barrier_init(normed(), kHelperWarps);
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
  int row;       // first row of x
  int column;    // first row of W
  int unit_row;  // first row of x of the whole cluster
};

/// Clusters take tiles round robin. Neighbours in the order share rows of x and of W in the cache: groups of kGroup
/// units of rows go over all of W, every other one backwards. Where few rows can come at all, the order does not depend on
/// how many do, and the first tile's weights are loaded before that is known.
template <class T>
struct TileOrder {
  static constexpr int kUnitRows = kTileM * T::kMTiles;
  static constexpr int kGroup = 2048 / kUnitRows;  // units of rows that pass over W together
  static constexpr int kEarlyRows = 512;
  int m_units;
  int n_tiles;

  __device__ TileOrder(int rows, int n)
      : m_units((rows + kUnitRows - 1) / kUnitRows), n_tiles((n + T::kN - 1) / T::kN) {}
  __device__ static bool known_early(const GemmArgs& args) { return args.tokens_max <= kEarlyRows; }
  __device__ static TileOrder early(const GemmArgs& args) { return {args.tokens_max, args.n}; }
  __device__ static TileOrder of(const GemmArgs& args) {
    return {known_early(args) ? args.tokens_max : args.counts->tokens, args.n};
  }

  __device__ int count() const { return m_units * n_tiles; }
  __device__ int first() const { return blockIdx.x / T::kBlocks; }
  __device__ int step() const { return gridDim.x / T::kBlocks; }
  /// Whether this cluster has a tile with rows behind `index`.
  __device__ bool goes_on(int index, int tokens) const {
    for (index += step(); index < count(); index += step())
      if (at(index, 0).unit_row < tokens) return true;
    return false;
  }
  __device__ TileAt at(int index, int rank) const {
    const int group = index / (kGroup * n_tiles);
    const int in_group = index - group * kGroup * n_tiles;
    const int units = min(kGroup, m_units - group * kGroup);
    const int n_tile = in_group / units;
    const int unit_row = (group * kGroup + in_group - n_tile * units) * kUnitRows;
    return {unit_row + (T::kShare == Share::kPair ? rank * kTileM : 0),
            (group % 2 != 0 ? n_tiles - 1 - n_tile : n_tile) * T::kN, unit_row};
  }
};

/// Stages of k that this block multiplies.
struct KRange {
  int begin;
  int end;
};

template <class T>
__device__ KRange k_range(int k, int stage_values, int rank) {
  const int stages = (k + stage_values - 1) / stage_values;
  if (T::kSplits == 1) return {0, stages};
  return {stages * rank / T::kSplits, stages * (rank + 1) / T::kSplits};
}

/// Stages whose weights are loaded early.
template <class T>
__device__ int stages_early(const GemmArgs& args, KRange range) {
  if (!TileOrder<T>::known_early(args)) return 0;
  return min(T::kStages, range.end - range.begin);
}

// ---- filling the ring ----

// Copies are as large as they can be: each costs the copy engine some time beyond its bytes.

/// One thread; announces all bytes of the stage.
template <class T>
__device__ void load_weights(const GemmArgs& args, const Shared<T>& shared, int stage, int row, int k,
                             int rank) {
  const std::uint32_t full = shared.full(stage);
  barrier_expect(full, T::kStageBytes + T::kScaleBytes);
  constexpr int kBoxes = T::kN / kWBoxRows / T::kMTiles;  // of this block
  const int first = T::kShare == Share::kPair ? rank * kBoxes : 0;
#pragma unroll
  for (int box = first; box < first + kBoxes; ++box) {
    const std::uint32_t to = shared.weights(stage) + box * kWBoxBytes;
    if constexpr (T::kShare == Share::kPair)
      load_box_multicast(to, args.weights, k, row + box * kWBoxRows, full, 0b11);
    else
      load_box(to, args.weights, k, row + box * kWBoxRows, full);
  }
}

/// Of E4M3: the stages whose rows of x share a scale with those of stage `block` of k.
template <class T>
struct ScaleStages {
  static constexpr int kTogether = 2;  // log2 of the stages
  int number;                          // of the scale
  int end;                             // the next one's first stage
  __device__ ScaleStages(const GemmArgs& args, int block) {
    static_assert(kBlockScaleValues == kRowBytes && kRowScaleValues == kRowBytes << kTogether);
    const int together = T::kBlockScales && args.block_scales != 0 ? 0 : kTogether;
    number = block >> together;
    end = (number + 1) << together;
  }
};

/// `block`: number of the stage along k.
template <class T>
__device__ void load_x(const GemmArgs& args, const Shared<T>& shared, int stage, int row, int k, int block) {
  const std::uint32_t full = shared.full(stage);
  load_box(shared.x(stage), args.x, k, row, full);
  if constexpr (T::kScaleBytes > 0) {
    const int scales_row =
        row < args.x_scales_ld ? row : 0;  // the second tile of a pair may lie behind all rows
    const int scale = ScaleStages<T>(args, block).number;
    bulk_copy(shared.scales(stage), args.x_scales + scale * args.x_scales_ld + scales_row, T::kScaleBytes,
              full);
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

/// Adds the parts of all blocks of a cluster, in order of k: each gets its share of the tile's columns. Sums arrive by stores
/// that count at a barrier of the receiver: a release at cluster scope would be a fence of all writes of the chip. `more`:
/// another tile follows, whose sums must not arrive before these are read.
template <class T>
__device__ void sum_splits(const Shared<T>& shared, const float (&part)[T::kN / 2],
                           float (&sum)[T::kOwnColumns / 2], int rank, std::uint32_t round, bool more) {
  constexpr int kOwnGroups = T::kOwnColumns / 8;
  constexpr int kGroupStride = kConsumers * 16;
  constexpr int kPartStride = kOwnGroups * kGroupStride;  // from a peer's part to the next one's
  const int lane = threadIdx.x % kWarpThreads;
  const std::uint32_t own = shared.sums + threadIdx.x * 16;
  // Where block `from` puts its part at any other one: there is no place for one's own.
  const auto place = [](int from, int to) { return (from < to ? from : from - 1) * kPartStride; };
  if (threadIdx.x == 0) barrier_expect(shared.summed(), (T::kSplits - 1) * kPartStride);
  barrier_wait_cluster(shared.taken(), round ^ 1);
#pragma unroll
  for (int to = 0; to < T::kSplits; ++to) {
    if (to == rank) continue;
    const std::uint32_t peer = peer_address(own, to) + place(rank, to);
    const std::uint32_t summed = peer_address(shared.summed(), to);
#pragma unroll
    for (int j = 0; j < kOwnGroups; ++j) {
      const float* v = part + 4 * (j + to * kOwnGroups);
      peer_store_counted(peer + j * kGroupStride, float4{v[0], v[1], v[2], v[3]}, summed);
    }
  }
  float kept[T::kOwnColumns / 2];
#pragma unroll
  for (int i = 0; i < T::kOwnColumns / 2; ++i) {
    kept[i] = part[i];
#pragma unroll
    for (int from = 1; from < T::kSplits; ++from)
      if (from == rank) kept[i] = part[i + from * (T::kOwnColumns / 2)];
  }
  barrier_wait(shared.summed(), round);
#pragma unroll
  for (int j = 0; j < kOwnGroups; ++j) {
#pragma unroll
    for (int from = 0; from < T::kSplits; ++from) {
      float4 v{kept[4 * j], kept[4 * j + 1], kept[4 * j + 2], kept[4 * j + 3]};
      if (from != rank) v = shared_load(own + place(from, rank) + j * kGroupStride);
      sum[4 * j] = from == 0 ? v.x : sum[4 * j] + v.x;
      sum[4 * j + 1] = from == 0 ? v.y : sum[4 * j + 1] + v.y;
      sum[4 * j + 2] = from == 0 ? v.z : sum[4 * j + 2] + v.z;
      sum[4 * j + 3] = from == 0 ? v.w : sum[4 * j + 3] + v.w;
    }
  }
  if (!more) return;
  __syncwarp();
  if (lane < T::kSplits && lane != rank) peer_arrive_after_reads(peer_address(shared.taken(), lane));
}

}  // namespace
