// y[t, n] = epilogue(sum_k x[t, k] W[n, k] (+ bias[n])): products of many tokens, arguments as GemmArgs.
//
// Shapes   x: [tokens_max, k], W: [n, k] BF16, both through tensor maps with swizzled boxes of 128 bytes by 64 rows of x, 32 of W;
//          n % 8 == 0 (gate and up: n % 16 == 0), k % 8 == 0; what a box reads beyond a matrix is zero. y and residual:
//          rows of ldy values, 16-byte aligned. Rows from counts->tokens on are neither written nor mixed into others.
// Epilogue kStore y = s; kResidual residual += s; kSiluMul, kGeluMul: y[t, n / 2] = act(gate) * up, rows of W
//          alternating 8 of gate, 8 of up.
// Rounding FP32 sums in order of k (a split: the parts in order of k), one rounding to BF16 at the store. A row's bits
//          depend on the entry and that row, not on other rows.
// Launch   384 threads, clusters of the entry's blocks, any whole number of clusters, shared memory as the entry's tile
//          (host: src/ops/cuda/gemm.cpp). Programmatic dependent launch.
// Cost     2 tokens n k operations; W is read once each 2,048 rows. Bound by the tensor cores from some 300 rows on.
//
// A block is three warpgroups: the last keeps a ring of stages (64 of k) full by tensor copies, each of the other two
// multiplies 64 rows of the 128-row tile and stores them. Blocks are persistent. Nothing keeps the two in step but the
// ring, so one stores its results while the other multiplies, and the ring fills for the next tile meanwhile.
// Entries by columns of a tile and by what a cluster shares (gemm_tile.cuh): a pair loads W once for two tiles of rows; a
// split divides k among blocks, which add their sums through distributed shared memory.
#include "gemm_epilogue.cuh"
#include "gemm_tile.cuh"

namespace {

constexpr int kStageValues = kRowBytes / 2;  // BF16 values of k in a stage
constexpr int kSteps = kStageValues / 16;    // products of 16 of k

/// Starts d = the products of one stage, or adds them to d.
template <class T>
__device__ void multiply_stage(const Shared<T>& shared, const RingAt<T>& at, int group, bool first,
                               float (&d)[T::kN / 2]) {
  barrier_wait(shared.full(at.stage), at.round);
  const std::uint64_t x = wgmma_descriptor(shared.x(at.stage) + group * kXBoxBytes);
  const std::uint64_t weights = wgmma_descriptor(shared.weights(at.stage));
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kSteps; ++step)  // 32 bytes of a row each
    Wgmma<T::kN>::bf16(d, x + 2 * step, weights + 2 * step, !first || step > 0);
  wgmma_commit();
}

/// d = the tile's products of this warpgroup over a range that is not empty; leaves the ring behind it.
template <class T>
__device__ void multiply(const Shared<T>& shared, RingAt<T>& at, KRange range, int group, int lane,
                         float (&d)[T::kN / 2]) {
  multiply_stage(shared, at, group, true, d);
  int before = at.stage;
  at.next();
  for (int block = range.begin + 1; block < range.end; ++block) {
    multiply_stage(shared, at, group, false, d);
    wgmma_wait<1>();
    release_stage(shared, before, lane);
    before = at.stage;
    at.next();
  }
  wgmma_wait<0>();
  wgmma_pin(d);
  release_stage(shared, before, lane);
}

/// No row of this warpgroup exists: its share of the stages is given back unread.
template <class T>
__device__ void skip(const Shared<T>& shared, RingAt<T>& at, KRange range, int lane) {
  for (int block = range.begin; block < range.end; ++block, at.next()) {
    barrier_wait(shared.full(at.stage), at.round);
    release_stage(shared, at.stage, lane);
  }
}

template <class T>
__device__ void consume(const GemmArgs& args, const Shared<T>& shared, int rank) {
  const int lane = threadIdx.x % kWarpThreads;
  const int warp = warp_index();
  const int group = warp / kGroupWarps;
  wait_for_producers();
  const int tokens = args.counts->tokens;
  const TileOrder<T> order(tokens, args.n);
  const KRange range = k_range<T>(args.k * 2, rank);
  const std::uint32_t staging = shared.staging + warp * kStagingBytes;
  RingAt<T> at;
  std::uint32_t round = 0;
  for (int index = blockIdx.x / T::kBlocks; index < order.count();
       index += gridDim.x / T::kBlocks, round ^= 1) {
    const TileAt tile = order.at(index, rank);
    const int row = tile.row + 16 * warp;
    float d[T::kN / 2];
    if (tile.row + 64 * group >= tokens) {
      skip(shared, at, range, lane);
      if constexpr (T::kSplits == 1) continue;
    } else if (range.begin < range.end) {
      multiply(shared, at, range, group, lane, d);
    } else {
#pragma unroll
      for (float& part : d) part = 0.0F;
    }
    if constexpr (T::kSplits > 1) {
      float sum[T::kOwnColumns / 2];
      sum_splits(shared, d, sum, rank, round);
      epilogue<T::kOwnColumns / 8>(args, sum, staging, row, tile.column + rank * T::kOwnColumns, tokens);
    } else {
      epilogue<T::kN / 8>(args, d, staging, row, tile.column, tokens);
    }
  }
}

template <class T>
__device__ void gemm(const GemmArgs& args) {
  extern __shared__ char memory[];
  launch_dependents();
  const Shared<T> shared = Shared<T>::at(memory);
  if (threadIdx.x == 0) shared.init();
  const int rank = T::kBlocks > 1 ? static_cast<int>(cluster_rank()) : 0;
  if constexpr (T::kBlocks > 1)
    cluster_sync();
  else
    __syncthreads();
  if (warp_index() >= kConsumerWarps) {
    registers_decrease<kProducerRegisters>();
    if (threadIdx.x == kConsumers) produce<T, kStageValues>(args, shared, rank);
  } else {
    registers_increase<kConsumerRegisters>();
    consume<T>(args, shared, rank);
  }
  // A peer may still write into this block's memory.
  if constexpr (T::kBlocks > 1) cluster_sync();
}

}  // namespace

#define MET_GEMM(name, ...)                                                                               \
  extern "C" __global__ __launch_bounds__(kThreads, 1) void name(const __grid_constant__ GemmArgs args) { \
    gemm<Tile<__VA_ARGS__>>(args);                                                                        \
  }

MET_GEMM(gemm_bf16_256_pair, 256, Share::kPair, 2, 4)
MET_GEMM(gemm_bf16_192, 192, Share::kNone, 1, 5)
MET_GEMM(gemm_bf16_128_pair, 128, Share::kPair, 2, 6)
MET_GEMM(gemm_bf16_128, 128, Share::kNone, 1, 6)
MET_GEMM(gemm_bf16_96, 96, Share::kNone, 1, 7)
MET_GEMM(gemm_bf16_96_split2, 96, Share::kSplit, 2, 5)
MET_GEMM(gemm_bf16_128_split2, 128, Share::kSplit, 2, 4)
MET_GEMM(gemm_bf16_128_split4, 128, Share::kSplit, 4, 4)
