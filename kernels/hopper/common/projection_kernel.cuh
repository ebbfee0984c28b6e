// The decode projection, for weights of any type: what each warp does. Contract: projection.cu.
#pragma once

#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "projection_epilogue.cuh"
#include "projection_ring.cuh"
#include "wgmma.cuh"

namespace {

using met::ProjectionArgs;

__device__ Work work_of(const ProjectionArgs& args, int x_chunks) {
  const ProjectionTile& tile = args.tile;
  const int stage_k = tile.chunks * x_chunks * kChunkK;
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

/// Accumulators of a thread. With few columns a product takes longer to come back than to issue: steps of k then take
/// turns among several sets, which are added at the end.
template <int N>
struct Accumulators {
  static constexpr int kSets = N <= 16 ? 4 : N <= 32 ? 2 : 1;
  float sums[kSets][N / 2];

  __device__ void clear() {
#pragma unroll
    for (int s = 0; s < kSets; ++s) ::clear(sums[s]);
  }
  __device__ float (&joined())[N / 2] {
#pragma unroll
    for (int s = 0; s < kSets; ++s) wgmma_pin(sums[s]);
#pragma unroll
    for (int s = 1; s < kSets; ++s)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) sums[0][i] += sums[s][i];
    return sums[0];
  }
};

/// BF16 weights: both operands from shared memory, 64 of k a chunk.
struct Bf16Weights {
  static constexpr int kXChunks = 1;  // chunks of x, 64 of k, to one of weights

  template <int N>
  __device__ static void multiply(Accumulators<N>& to, std::uint32_t weights, std::uint32_t x, bool) {
    const std::uint64_t a = wgmma_descriptor(weights);
    const std::uint64_t b = wgmma_descriptor(x);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kChunkSteps; ++step)
      Wgmma<N>::bf16(to.sums[step % Accumulators<N>::kSets], a + step * kStepUnits, b + step * kStepUnits, 1);
    wgmma_commit();
    wgmma_wait<1>();
  }
};

template <int N, class Weights>
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
  TileEpilogue<N> epilogue(args, memory, work);
  Accumulators<N> to;
  for (int t = work.first; t < work.tiles; t += work.step) {
    if (team == 0) epilogue.begin(t);
    to.clear();
    RingCursor cursor = tile_begins;
    cursor.advance(tile.stages, team);
    std::uint32_t weights = 0, x = 0, before = 0;
    for (int i = 0, left = 0; i < chunks; ++i) {
      if (left == 0) {
        barrier_wait(memory.x_full(cursor.slot), cursor.phase);
        barrier_wait(memory.weights_full(cursor.slot), cursor.phase);
        weights = memory.weights(cursor.slot) + first_row * kChunkBytes;
        x = memory.x(cursor.slot);
      }
      Weights::template multiply<N>(to, weights, x, warp_row < tile.rows);
      if (left == 0) {
        if (releases && i > 0) barrier_arrive(before);
        before = memory.empty(cursor.slot);
        cursor.advance(tile.stages, tile.teams);
        left = tile.chunks;
      }
      --left;
      weights += chunk_bytes;
      x += Weights::kXChunks * N * kChunkBytes;
    }
    wgmma_wait<0>();
    float(&sums)[N / 2] = to.joined();
    if (releases && chunks > 0) barrier_arrive(before);
    if (epilogue.join_teams(sums)) epilogue.finish(t, sums);
    tile_begins.advance(tile.stages, work.stages);
  }
}

/// Registers of a thread once the roles part: three consumer warpgroups, or two for 256 columns, and the producers share
/// all there are.
constexpr int kProducerRegisters = 56;
template <int N>
constexpr int kConsumerRegisters = N <= 128 ? 152 : 224;
template <int N>
constexpr int kThreadsMax = N <= 128 ? 512 : 384;

template <int N, class Weights>
__device__ void projection(const ProjectionArgs& args) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int groups = static_cast<int>(blockDim.x) / kGroupThreads - 1;
  const ProjectionMemory memory(args.tile, shared_address(shared), groups, N, Weights::kXChunks);
  const Work work = work_of(args, Weights::kXChunks);
  const int warp = static_cast<int>(threadIdx.x) / kWarp - groups * kGroupThreads / kWarp;
  const bool leads = threadIdx.x % kWarp == 0;
  launch_dependents();
  WeightsProducer producer(args, memory, work);
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
    registers_increase<kConsumerRegisters<N>>();
    consume<N, Weights>(args, memory, work);
  } else {
    registers_decrease<kProducerRegisters>();
    if (warp == 0 && leads) producer.run();
    if (warp == 1 && leads) produce_x(args, memory, work, N);
    if (warp > 1) scale_rows(args, memory, warp - 2, N);
  }
}

}  // namespace
