// s[t, n] = scale(t, n) * sum_k W[n, k] x[t, k] (+ bias[n]), then the epilogue of ProjectionArgs: the matrix products of
// a decode step, bound by the bytes of W.
//
// Shapes   W: [n, k] row-major; x: [tokens_max, k] BF16; tokens = counts->tokens or counts->logits, at most the entry's
//          N. k a multiple of 8, n any; kSiluMul and kGeluMul: n a multiple of 16, kResidual writes rows of ldy values.
// Rounding products and sums in FP32; stores round once. kResidual: h is rounded to BF16 first, `scaled` and the squares
//          are of the rounded h.
// Rows     A row's sums run over k in an order fixed by the launch's tile: its bits depend on no other row.
// Launch   projection_<type>_n<N>: grid = blocks * tile.split in clusters of tile.split; 128 threads for each 64 rows of
//          a tile, and 128 more. Shared memory as ProjectionMemory counts it. A grid of any size takes all tiles.
// Roles    Consumer warpgroups: one for each 64 rows of a tile, W as the A side of WGMMA, the batch as B. A tile of fewer
//          rows leaves the fragment's other rows unused: what they hold is of the next bytes in shared memory.
//          Producer warp: fills the ring with weights at once, waits for the kernels in front, then fetches x. Three
//          helper warps: 1 / rms of each row from its squares.
// Cost     reads n * k weights once, x from the L2 cache once a tile.
#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "projection_epilogue.cuh"
#include "projection_ring.cuh"
#include "wgmma.cuh"

namespace {

using met::ProjectionArgs;

__device__ Work work_of(const ProjectionArgs& args) {
  const ProjectionTile& tile = args.tile;
  const int stage_k = tile.chunks * kChunkK;
  const int stages = (args.k + stage_k - 1) / stage_k;
  const int share = (stages + tile.split - 1) / tile.split;
  const int rank = tile.split > 1 ? static_cast<int>(cluster_rank()) : 0;
  Work work;
  work.tiles = (args.n + tile.rows - 1) / tile.rows;
  work.first = static_cast<int>(blockIdx.x) / tile.split;
  work.step = static_cast<int>(gridDim.x) / tile.split;
  work.begin = min(rank * share, stages);
  work.stages = min(work.begin + share, stages) - work.begin;
  // Spread over the share by the tile, so that a row's sums depend on the launch alone.
  work.start = work.stages * (work.first % work.step) / work.step;
  work.rank = rank;
  return work;
}

/// Zeros that the compiler cannot see through: it would keep the accumulators as integers otherwise, and copy them
/// between products that run.
template <int Count>
__device__ void clear(float (&sums)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(sums[i]));
}

/// Adds the products of one chunk, 64 values of k, to the accumulators.
template <int N>
__device__ void multiply(float (&sums)[N / 2], std::uint32_t weights, std::uint32_t x) {
  const std::uint64_t a = wgmma_descriptor(weights);
  const std::uint64_t b = wgmma_descriptor(x);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step)
    Wgmma<N>::bf16(sums, a + step * kStepUnits, b + step * kStepUnits, 1);
  wgmma_commit();
}

template <int N>
__device__ void consume(const ProjectionArgs& args, const ProjectionMemory& memory, const Work& work) {
  const int group = threadIdx.x / kGroupThreads;
  const std::uint32_t chunk_bytes = args.tile.rows * kChunkBytes;
  const bool releases = threadIdx.x % kWarp == 0;
  RingCursor cursor;
  TileEpilogue<N> epilogue(args, memory, work);
  for (int tile = work.first; tile < work.tiles; tile += work.step) {
    epilogue.begin(tile);
    float sums[N / 2];
    clear(sums);
    const int chunks = work.stages * args.tile.chunks;
    std::uint32_t weights = 0, x = 0, before = 0;
    for (int i = 0, left = 0; i < chunks; ++i) {
      if (left == 0) {
        barrier_wait(memory.full(cursor.slot), cursor.phase);
        weights = memory.stage(cursor.slot) + group * kGroupRows * kChunkBytes;
        x = memory.stage(cursor.slot) + args.tile.chunks * chunk_bytes;
      }
      multiply<N>(sums, weights, x);
      wgmma_wait<1>();
      if (left == 0) {
        if (releases && i > 0) barrier_arrive(before);
        before = memory.empty(cursor.slot);
        cursor.advance(args.tile.stages);
        left = args.tile.chunks;
      }
      --left;
      weights += chunk_bytes;
      x += N * kChunkBytes;
    }
    wgmma_wait<0>();
    wgmma_pin(sums);
    if (releases && chunks > 0) barrier_arrive(before);
    epilogue.finish(tile, sums);
  }
}

template <int N>
__device__ void projection(const ProjectionArgs& args) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int groups = static_cast<int>(blockDim.x) / kGroupThreads - 1;
  const ProjectionMemory memory(args.tile, shared_address(shared), groups, N);
  launch_dependents();
  if (threadIdx.x == 0) {
    for (int i = 0; i < args.tile.stages; ++i) {
      barrier_init(memory.full(i), 1);
      barrier_init(memory.empty(i), groups * kGroupThreads / kWarp);
    }
    barrier_init(memory.scales_ready(), kHelperWarps);
    barrier_init_fence();
  }
  __syncthreads();
  const Work work = work_of(args);
  const bool exchanges = args.tile.split > 1 && work.first < work.tiles;
  if (exchanges && args.tile.exchange != 0) cluster_arrive();
  const int warp = static_cast<int>(threadIdx.x) / kWarp - groups * kGroupThreads / kWarp;
  if (warp < 0) {
    consume<N>(args, memory, work);
    return;
  }
  if (warp == 0) {
    if (threadIdx.x % kWarp == 0) produce(args, memory, work, N);
    __syncwarp();
  } else {
    scale_rows(args, memory, warp - 1, N);
  }
  if (exchanges) follow_exchange(args.tile);
}

}  // namespace

extern "C" __global__ __launch_bounds__(512, 1) void projection_bf16_n8(
    const __grid_constant__ ProjectionArgs args) {
  projection<8>(args);
}
extern "C" __global__ __launch_bounds__(512, 1) void projection_bf16_n16(
    const __grid_constant__ ProjectionArgs args) {
  projection<16>(args);
}
extern "C" __global__ __launch_bounds__(512, 1) void projection_bf16_n32(
    const __grid_constant__ ProjectionArgs args) {
  projection<32>(args);
}
extern "C" __global__ __launch_bounds__(512, 1) void projection_bf16_n64(
    const __grid_constant__ ProjectionArgs args) {
  projection<64>(args);
}
extern "C" __global__ __launch_bounds__(384, 1) void projection_bf16_n128(
    const __grid_constant__ ProjectionArgs args) {
  projection<128>(args);
}
extern "C" __global__ __launch_bounds__(384, 1) void projection_bf16_n256(
    const __grid_constant__ ProjectionArgs args) {
  projection<256>(args);
}
