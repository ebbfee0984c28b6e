// The decode projection, for weights of any type: what each warp does. Contract: projection.cu.
#pragma once

#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "projection_epilogue.cuh"
#include "projection_ring.cuh"
#include "wgmma.cuh"

namespace {

using met::ProjectionArgs;

__device__ Work work_of(const ProjectionArgs& args, int chunk_k) {
  const ProjectionTile& tile = args.tile;
  const int stage_k = tile.chunks * chunk_k;
  const int stages = (args.k + stage_k - 1) / stage_k;
  const int share = (stages + tile.split - 1) / tile.split;
  const int rank = tile.split > 1 ? static_cast<int>(cluster_rank()) : 0;
  Work work;
  work.tiles = (args.n + tile.rows - 1) / tile.rows;
  work.first = static_cast<int>(blockIdx.x) / tile.split;
  work.step = static_cast<int>(gridDim.x) / tile.split;
  work.begin = min(rank * share, stages);
  work.stages = min(work.begin + share, stages) - work.begin;
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

/// Sums of a warpgroup over BF16 weights, 64 of k a chunk: both operands from shared memory. With few columns a product
/// takes longer to come back than to issue: steps of k then take turns among several sets, which are added at the end.
template <int N>
class Bf16Products {
 public:
  static constexpr int kChunkK = 64;
  static constexpr int kXScaleBytes = 0;  // of a row of x and a chunk
  static constexpr bool kCodes = false;   // whether rows may be written as codes
  static constexpr int kPending = 1;      // chunks whose products may still run
  static constexpr int kThreadsMax = N <= 128 ? 512 : 384;
  static constexpr int kConsumerRegisters = N <= 128 ? 152 : 224;  // once the roles part
  static constexpr int kOtherRegisters = 56;

  __device__ void begin(const ProjectionArgs&, int) {
#pragma unroll
    for (int s = 0; s < kSets; ++s) clear(sums_[s]);
  }
  __device__ void multiply(std::uint32_t weights, std::uint32_t x, std::uint32_t, int) {
    const std::uint64_t a = wgmma_descriptor(weights);
    const std::uint64_t b = wgmma_descriptor(x);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kChunkSteps; ++step)
      Wgmma<N>::bf16(sums_[step % kSets], a + step * kStepUnits, b + step * kStepUnits, 1);
    wgmma_commit();
    wgmma_wait<kPending>();
  }
  __device__ float (&joined())[N / 2] {
    wgmma_wait<0>();
#pragma unroll
    for (int s = 0; s < kSets; ++s) wgmma_pin(sums_[s]);
#pragma unroll
    for (int s = 1; s < kSets; ++s)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) sums_[0][i] += sums_[s][i];
    return sums_[0];
  }

 private:
  static constexpr int kSets = N <= 16 ? 4 : N <= 32 ? 2 : 1;
  float sums_[kSets][N / 2];
};

template <int N, class Products>
__device__ void consume(const ProjectionArgs& args, const ProjectionMemory& memory, const Work& work) {
  const ProjectionTile& tile = args.tile;
  const int warpgroup = static_cast<int>(threadIdx.x) / kGroupThreads;
  const int team = tile.teams > 1 ? warpgroup : 0;
  const int first_row = (tile.teams > 1 ? 0 : warpgroup) * kGroupRows;
  const int warp_row = first_row + static_cast<int>(threadIdx.x) % kGroupThreads / kWarp * kWarpRows;
  const std::uint32_t chunk_bytes = tile.rows * kChunkBytes;
  const bool releases = threadIdx.x % kWarp == 0;
  const int chunks = max(work.stages - team + tile.teams - 1, 0) / tile.teams * tile.chunks;
  RingCursor tile_begins;
  TileEpilogue<N, Products::kCodes> epilogue(args, memory, work);
  Products products;
  for (int t = work.first; t < work.tiles; t += work.step) {
    if (team == 0) epilogue.begin(t);
    products.begin(args, min(t * tile.rows + warp_row, args.n - 1));
    RingCursor cursor = tile_begins;
    cursor.advance(tile.stages, team);
    std::uint32_t weights = 0, x = 0, x_scales = 0;
    std::uint32_t current = 0, before = 0;          // barriers of stages to give back
    int chunk = (work.begin + team) * tile.chunks;  // of the row
    for (int i = 0, left = 0; i < chunks; ++i) {
      if (left == 0) {
        const int slot = cursor.slot;
        barrier_wait(memory.x_full(slot), cursor.phase);
        barrier_wait(memory.weights_full(slot), cursor.phase);
        weights = memory.weights(slot) + first_row * kChunkBytes;
        x = memory.x(slot);
        x_scales = memory.x_scales(slot);
        before = current;
        current = memory.empty(slot);
        cursor.advance(tile.stages, tile.teams);
        left = tile.chunks;
        if (i > 0) chunk += (tile.teams - 1) * tile.chunks;
      }
      products.multiply(weights, x, x_scales, chunk);
      if (releases && Products::kPending > 0 && left == tile.chunks && i > 0) barrier_arrive(before);
      --left;
      if (releases && Products::kPending == 0 && left == 0) barrier_arrive(current);
      ++chunk;
      weights += chunk_bytes;
      x += N * kChunkBytes;
      x_scales += N * Products::kXScaleBytes;
    }
    float(&sums)[N / 2] = products.joined();
    if (releases && Products::kPending > 0 && chunks > 0) barrier_arrive(current);
    if (epilogue.join_teams(sums)) epilogue.finish(t, sums);
    tile_begins.advance(tile.stages, work.stages);
  }
}

/// Roles by warp: consumers, in `groups` warpgroups; one warp brings weights, one x, two find 1 / rms.
template <int N, class Products>
__device__ void projection(const ProjectionArgs& args) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int groups = static_cast<int>(blockDim.x) / kGroupThreads - 1;
  const ProjectionMemory memory(args.tile, shared_address(shared), groups, N, Products::kXScaleBytes);
  const Work work = work_of(args, Products::kChunkK);
  const int warp = static_cast<int>(threadIdx.x) / kWarp - groups * kGroupThreads / kWarp;
  const bool leads = threadIdx.x % kWarp == 0;
  launch_dependents();
  WeightsProducer producer(args, memory, work, Products::kChunkK);
  if (warp == 0 && leads) {
    prefetch_map(args.weights);
    memory.init_barriers();
    producer.begin();
  }
  __syncthreads();
  if (args.tile.split > 1) {
    // The other block's barriers exist before its sums are sent there.
    cluster_arrive_relaxed();
    cluster_wait();
  }
  if (warp < 0) {
    registers_increase<Products::kConsumerRegisters>();
    consume<N, Products>(args, memory, work);
  } else {
    registers_decrease<Products::kOtherRegisters>();
    if (warp == 0 && leads) producer.run();
    if (warp == 1 && leads) produce_x(args, memory, work, N, Products::kChunkK, Products::kXScaleBytes);
    if (warp > 1) scale_rows(args, memory, warp - 2, N);
  }
}

}  // namespace
