// The products of moe_gemm.cu for rows and weights of any type: a type P says how they are multiplied.
#pragma once

#include <cstdint>

#include "async.cuh"
#include "met/moe_ops.h"
#include "moe_tiles.cuh"
#include "pdl.cuh"
#include "projection_epilogue.cuh"
#include "wgmma.cuh"

namespace {

constexpr int kGatherWarps = 3;
constexpr int kGatherThreads = kGatherWarps * kWarp;
constexpr int kUnit = 16;                         // bytes of a gathered copy
constexpr int kChunkUnits = kChunkBytes / kUnit;  // of a row of a chunk

/// Products: Element, of W and x; kScaled, x has a scale for each chunk of a row; run(), the sums of a tile.
template <class P, int N, int Groups, int Chunks, int Stages>
struct MoeConfig {
  using Products = P;
  using Element = typename P::Element;
  static constexpr int kChunkValues = kChunkBytes / static_cast<int>(sizeof(Element));
  static constexpr int kN = N;  // places of a tile
  static constexpr int kGroups = Groups;
  static constexpr int kRows = Groups * kGroupRows;  // of W in a tile
  static constexpr int kChunks = Chunks;             // of k in a stage
  static constexpr int kStages = Stages;
  static constexpr int kWeightBytes = Chunks * kRows * kChunkBytes;
  static constexpr int kStageBytes = Chunks * (kRows + N) * kChunkBytes;
  static constexpr int kLag = 3;  // stages whose gathered copies are under way
  static_assert(kLag < Stages);
  static constexpr int kScaleBytes = P::kScaled ? Chunks * N * 4 : 0;  // of x, of a stage
  static_assert(Stages * (kStageBytes + kScaleBytes + 16) + kMoeTilesBytes + 1024 <= 227 * 1024);
};

/// Shared memory from a multiple of 1024: the ring, its barriers and scales, and what MoeTiles keeps.
template <class C>
struct MoeMemory {
  std::uint32_t base;

  __device__ std::uint32_t weights(int slot) const { return base + slot * C::kStageBytes; }
  __device__ std::uint32_t x(int slot) const { return weights(slot) + C::kWeightBytes; }
  __device__ std::uint32_t full(int slot) const { return base + C::kStages * C::kStageBytes + 8 * slot; }
  __device__ std::uint32_t empty(int slot) const { return full(C::kStages + slot); }
  /// [chunks, places]
  __device__ std::uint32_t scales(int slot) const { return full(2 * C::kStages) + slot * C::kScaleBytes; }
  __device__ MoeTilesMemory tiles() const { return {scales(C::kStages)}; }
};

template <class C>
using TilesOf = MoeTiles<C::kRows, C::kN>;

template <class C>
__device__ int stages_of(const met::MoeGemmArgs& args) {
  return (args.k + C::kChunks * C::kChunkValues - 1) / (C::kChunks * C::kChunkValues);
}

/// One thread: a stage's weights into a free slot.
template <class C>
__device__ void fetch_stage(const met::MoeGemmArgs& args, const MoeMemory<C>& memory, const MoeTile& tile,
                            int stage, int slot) {
  const std::uint32_t full = memory.full(slot);
  barrier_expect(full, C::kWeightBytes);
  for (int c = 0; c < C::kChunks; ++c)
    load_box(memory.weights(slot) + c * C::kRows * kChunkBytes, args.weights,
             (stage * C::kChunks + c) * C::kChunkValues, tile.expert * args.n + tile.row, full);
}

/// One thread: the first stages of the tile that the block is guessed to have; returns how many.
template <class C>
__device__ int fetch_early(const met::MoeGemmArgs& args, const MoeMemory<C>& memory,
                           const TilesOf<C>& tiles) {
  if (static_cast<int>(blockIdx.x) >= tiles.guessed()) return 0;
  const MoeTile tile = tiles.guess(static_cast<int>(blockIdx.x));
  const int early = min(stages_of<C>(args), C::kStages);
  for (int stage = 0; stage < early; ++stage) fetch_stage<C>(args, memory, tile, stage, stage);
  return early;
}

/// One thread: the weights of all tiles of the block but the first `early` stages.
template <class C>
__device__ void fetch_weights(const met::MoeGemmArgs& args, const MoeMemory<C>& memory,
                              const TilesOf<C>& tiles, int early) {
  const int stages = stages_of<C>(args);
  RingCursor cursor;
  for (int index = blockIdx.x; index < tiles.total(); index += gridDim.x) {
    const MoeTile tile = tiles.at(index);
    for (int stage = 0; stage < stages; ++stage, cursor.advance(C::kStages)) {
      if (early > 0) {
        --early;
        continue;
      }
      barrier_wait(memory.empty(cursor.slot), cursor.phase ^ 1);
      fetch_stage<C>(args, memory, tile, stage, cursor.slot);
    }
  }
}

/// 16 bytes into shared memory, zeros where not `wanted`.
__device__ inline void copy_unit(std::uint32_t to, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(wanted ? kUnit : 0)
               : "memory");
}

/// One value, zero where not `wanted`.
__device__ inline void copy_float(std::uint32_t to, const float* from, bool wanted) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(wanted ? 4 : 0)
               : "memory");
}

/// The gather warps: rows of x for all tiles of the block.
template <class C>
class Gatherer {
 public:
  __device__ Gatherer(const met::MoeGemmArgs& args, const MoeMemory<C>& memory, int thread)
      : args_(args), memory_(memory), thread_(thread) {}

  __device__ void run(const TilesOf<C>& tiles) {
    const int stages = stages_of<C>(args_);
    RingCursor cursor;
    for (int index = blockIdx.x; index < tiles.total(); index += gridDim.x) {
      aim(tiles.at(index), tiles);
      for (int stage = 0; stage < stages; ++stage, cursor.advance(C::kStages)) {
        barrier_wait(memory_.empty(cursor.slot), cursor.phase ^ 1);
        fetch(stage, memory_.x(cursor.slot));
        if constexpr (C::Products::kScaled) fetch_scales(stage, memory_.scales(cursor.slot));
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (++under_way_ == C::kLag) {
          asm volatile("cp.async.wait_group %0;" ::"n"(C::kLag - 1) : "memory");
          announce();
        }
      }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    while (under_way_ > 0) announce();
  }

 private:
  static constexpr int kTogether = kGatherThreads / kChunkUnits;     // rows at a time
  static constexpr int kEach = (C::kN + kTogether - 1) / kTogether;  // rows of a thread
  static constexpr int kUnitValues = kUnit / static_cast<int>(sizeof(typename C::Element));
  static constexpr int kScalesEach = C::Products::kScaled ? (C::kN + kGatherThreads - 1) / kGatherThreads : 0;

  __device__ int row(int i) const { return thread_ / kChunkUnits + i * kTogether; }
  __device__ int unit() const { return thread_ % kChunkUnits; }

  /// The row of x that a place of the tile reads; -1: none.
  __device__ std::int64_t source(const MoeTile& tile, const TilesOf<C>& tiles, int row) const {
    const int place = tile.place + row;
    if (row >= C::kN || place >= tile.end) return -1;
    return args_.gathers != 0 ? tiles.token(place) : place;
  }

  /// Finds this thread's rows of x for a tile.
  __device__ void aim(const MoeTile& tile, const TilesOf<C>& tiles) {
    const auto* x = static_cast<const typename C::Element*>(args_.x);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t from = source(tile, tiles, row(i));
      from_[i] = from >= 0 ? x + from * args_.k + unit() * kUnitValues : nullptr;
    }
#pragma unroll
    for (int i = 0; i < kScalesEach; ++i) {
      const std::int64_t from = source(tile, tiles, thread_ + i * kGatherThreads);
      scales_from_[i] = from >= 0 ? args_.x_scales + from : nullptr;
    }
  }

  __device__ void fetch(int stage, std::uint32_t to) const {
#pragma unroll
    for (int c = 0; c < C::kChunks; ++c) {
      const int k = (stage * C::kChunks + c) * C::kChunkValues;
      const bool inside = k + unit() * kUnitValues < args_.k;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (row(i) >= C::kN) continue;
        const bool wanted = inside && from_[i] != nullptr;
        copy_unit(to + (c * C::kN + row(i)) * kChunkBytes + (unit() ^ (row(i) % 8)) * kUnit,
                  wanted ? from_[i] + k : args_.x, wanted);
      }
    }
  }

  __device__ void fetch_scales(int stage, std::uint32_t to) const {
#pragma unroll
    for (int c = 0; c < C::kChunks; ++c) {
      const int chunk = stage * C::kChunks + c;
#pragma unroll
      for (int i = 0; i < kScalesEach; ++i) {
        const int place = thread_ + i * kGatherThreads;
        if (place >= C::kN) continue;
        const bool wanted = chunk * C::kChunkValues < args_.k && scales_from_[i] != nullptr;
        const std::int64_t skipped = static_cast<std::int64_t>(chunk) * args_.x_scales_ld;
        copy_float(to + (c * C::kN + place) * 4, wanted ? scales_from_[i] + skipped : args_.x_scales, wanted);
      }
    }
  }

  /// The oldest stage under way is there.
  __device__ void announce() {
    async_proxy_fence();
    __syncwarp();
    if (thread_ % kWarp == 0) barrier_arrive(memory_.full(oldest_.slot));
    oldest_.advance(C::kStages);
    --under_way_;
  }

  const met::MoeGemmArgs& args_;
  const MoeMemory<C>& memory_;
  int thread_;
  const typename C::Element* from_[kEach];          // this thread's unit of its rows; null: zeros
  const float* scales_from_[kScalesEach + 1] = {};  // of its places
  int under_way_ = 0;
  RingCursor oldest_;
};

/// Of 8 x 8 values a lane holds two neighbours in row lane / 4; afterwards two neighbours in column lane / 4.
__device__ inline float2 transpose_block(float2 held) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bool odd = lane / 4 % 2 != 0;  // the wanted column is the source lane's second
  float2 out;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int source = (2 * (lane % 4) + i) * 4 + lane / 8;
    const float first = __shfl_sync(0xffffffffU, held.x, source);
    const float second = __shfl_sync(0xffffffffU, held.y, source);
    (i == 0 ? out.x : out.y) = odd ? second : first;
  }
  return out;
}

/// Stores a thread's part of a tile: after transposition, of each group j of 8 places and each half h of the warp's 16 rows
/// of W, place 8 j + lane / 4 and two neighbouring rows.
template <int N>
__device__ void store_tile(const met::MoeGemmArgs& args, const MoeTile& tile, const float (&sums)[N / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = tile.row + static_cast<int>(threadIdx.x) / kWarp * 16;
  const bool gated = args.epilogue != met::Epilogue::kStore;
  const int column = 2 * (lane % 4);
#pragma unroll
  for (int j = 0; j < N / 8; ++j) {
    const float2 low = transpose_block({sums[4 * j], sums[4 * j + 1]});
    const float2 high = transpose_block({sums[4 * j + 2], sums[4 * j + 3]});
    const int place = tile.place + 8 * j + lane / 4;
    if (place >= tile.end || row >= args.n) continue;
    met::Bf16Bits* y = args.y + place * args.ldy;
    if (gated) {
      const bool gelu = args.epilogue == met::Epilogue::kGeluMul;
      const float2 out{activate(low.x, gelu) * high.x, activate(low.y, gelu) * high.y};
      *reinterpret_cast<std::uint32_t*>(y + row / 2 + column) = pack_pair(out.x, out.y);
    } else {
      *reinterpret_cast<std::uint32_t*>(y + row + column) = pack_pair(low.x, low.y);
      if (row + 8 < args.n)
        *reinterpret_cast<std::uint32_t*>(y + row + 8 + column) = pack_pair(high.x, high.y);
    }
  }
}

template <class C>
__device__ void multiply_tiles(const met::MoeGemmArgs& args, const MoeMemory<C>& memory,
                               const TilesOf<C>& tiles) {
  const int stages = stages_of<C>(args);
  RingCursor cursor;
  for (int index = blockIdx.x; index < tiles.total(); index += gridDim.x) {
    const MoeTile tile = tiles.at(index);
    float sums[C::kN / 2];
#pragma unroll
    for (int i = 0; i < C::kN / 2; ++i) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(sums[i]));
    C::Products::template run<C>(args, memory, tile, stages, cursor, sums);
    store_tile<C::kN>(args, tile, sums);
  }
}

template <class C>
__device__ void moe_gemm(const met::MoeGemmArgs& args) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const MoeMemory<C> memory{(shared_address(shared) + 1023) / 1024 * 1024};
  const TilesOf<C> tiles(args, memory.tiles(), args.counts->tokens);
  if (threadIdx.x == 0) {
    prefetch_map(args.weights);
    for (int i = 0; i < C::kStages; ++i) {
      barrier_init(memory.full(i), 1 + kGatherWarps);
      barrier_init(memory.empty(i), C::kGroups * kGroupThreads / kWarp);
    }
    barrier_init_fence();
  }
  tiles.clear();
  __syncthreads();
  const int producer = static_cast<int>(threadIdx.x) - C::kGroups * kGroupThreads;
  const int early = producer == 0 ? fetch_early<C>(args, memory, tiles) : 0;
  if (args.gathers != 0) wait_for_producers();  // else the pairs are older
  tiles.count();
  if (producer < 0) {
    multiply_tiles<C>(args, memory, tiles);
  } else if (producer < kWarp) {
    if (producer == 0) fetch_weights<C>(args, memory, tiles, early);
  } else {
    // Whoever starts now may read what the kernels in front wrote.
    wait_for_producers();
    launch_dependents();
    Gatherer<C>(args, memory, producer - kWarp).run(tiles);
  }
}

}  // namespace

#define MET_MOE_GEMM(name, products, n, groups, chunks, stages)                                         \
  extern "C" __global__ __launch_bounds__((groups + 1) * kGroupThreads,                                 \
                                          1) void name(const __grid_constant__ met::MoeGemmArgs args) { \
    moe_gemm<MoeConfig<products, n, groups, chunks, stages>>(args);                                     \
  }
