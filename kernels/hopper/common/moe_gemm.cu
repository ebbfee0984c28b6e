// Products of a mixture-of-experts layer: for each place p of expert e, begin[e] <= p < begin[e + 1],
//   s[n] = sum_k W[e, n, k] x[row, k], row = tokens[p] where `gathers`, else p; then the epilogue of MoeGemmArgs.
//
// Shapes   W: [experts * n, k] row-major, as boxes of 64 k and the entry's rows, swizzled; x: [rows, k] BF16; y: [pairs,
//          ldy] BF16. n, k multiples of 8; gated: n a multiple of 16; experts <= 512.
// Rounding products and sums FP32, one rounding at the store. A place's bits depend on its own row and expert alone.
// Launch   moe_gemm_n<N>: tiles of 64 rows of W (N <= 32) or 128 by N places; 128 threads for each 64 rows and 128 more, one
//          block a multiprocessor; any grid serves any step. Shared memory as Memory counts it. Dependent.
// Roles    Consumer warpgroups: W as the A side of WGMMA, places as B. One producer warp: W by tensor copies. Three gather
//          warps: x by 16-byte copies into the swizzled form, some stages ahead.
// Early    Where rows are not gathered, pairs are older than the kernel in front, and weights wait for nothing. Where they
//          are and the router leaves the order to this kernel, the first weights are those of a guess (MoeTiles).
// Cost     reads the weights of every expert that has a place once for each N of its places (again from the L2 cache:
//          tiles of the same weights are neighbours), x once for each tile of W. Bound by the bytes of W while an expert
//          has few places.
#include "async.cuh"
#include "met/moe_ops.h"
#include "moe_tiles.cuh"
#include "pdl.cuh"
#include "projection_epilogue.cuh"
#include "wgmma.cuh"

namespace {

constexpr int kGatherWarps = 3;
constexpr int kGatherThreads = kGatherWarps * kWarp;
constexpr int kChunkK = kChunkBytes / 2;          // values of a row of a chunk
constexpr int kUnit = 16;                         // bytes of a gathered copy
constexpr int kUnitValues = 8;                    // BF16 of it
constexpr int kChunkUnits = kChunkBytes / kUnit;  // of a row of a chunk

template <int N, int Groups, int Chunks, int Stages>
struct MoeConfig {
  static constexpr int kN = N;  // places of a tile
  static constexpr int kGroups = Groups;
  static constexpr int kRows = Groups * kGroupRows;  // of W in a tile
  static constexpr int kChunks = Chunks;             // of 64 k in a stage
  static constexpr int kStages = Stages;
  static constexpr int kWeightBytes = Chunks * kRows * kChunkBytes;
  static constexpr int kStageBytes = Chunks * (kRows + N) * kChunkBytes;
  static constexpr int kLag = 3;  // stages whose gathered copies are under way
  static_assert(kLag < Stages);
  static_assert(Stages * kStageBytes + 16 * Stages + kMoeTilesBytes + 1024 <= 227 * 1024);
};

/// Shared memory from a multiple of 1024: the ring, its barriers, and what MoeTiles keeps.
template <class C>
struct MoeMemory {
  std::uint32_t base;

  __device__ std::uint32_t weights(int slot) const { return base + slot * C::kStageBytes; }
  __device__ std::uint32_t x(int slot) const { return weights(slot) + C::kWeightBytes; }
  __device__ std::uint32_t full(int slot) const { return base + C::kStages * C::kStageBytes + 8 * slot; }
  __device__ std::uint32_t empty(int slot) const { return full(C::kStages + slot); }
  __device__ MoeTilesMemory tiles() const { return {full(2 * C::kStages)}; }
};

template <class C>
using TilesOf = MoeTiles<C::kRows, C::kN>;

template <class C>
__device__ int stages_of(const met::MoeGemmArgs& args) {
  return (args.k + C::kChunks * kChunkK - 1) / (C::kChunks * kChunkK);
}

/// One thread: a stage's weights into a free slot.
template <class C>
__device__ void fetch_stage(const met::MoeGemmArgs& args, const MoeMemory<C>& memory, const MoeTile& tile,
                            int stage, int slot) {
  const std::uint32_t full = memory.full(slot);
  barrier_expect(full, C::kWeightBytes);
  for (int c = 0; c < C::kChunks; ++c)
    load_box(memory.weights(slot) + c * C::kRows * kChunkBytes, args.weights,
             (stage * C::kChunks + c) * kChunkK, tile.expert * args.n + tile.row, full);
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

  __device__ int row(int i) const { return thread_ / kChunkUnits + i * kTogether; }
  __device__ int unit() const { return thread_ % kChunkUnits; }

  /// Finds this thread's rows of x for a tile.
  __device__ void aim(const MoeTile& tile, const TilesOf<C>& tiles) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int place = tile.place + row(i);
      from_[i] = nullptr;
      if (row(i) >= C::kN || place >= tile.end) continue;
      const std::int64_t source = args_.gathers != 0 ? tiles.token(place) : place;
      from_[i] = args_.x + source * args_.k + unit() * kUnitValues;
    }
  }

  __device__ void fetch(int stage, std::uint32_t to) const {
#pragma unroll
    for (int c = 0; c < C::kChunks; ++c) {
      const int k = (stage * C::kChunks + c) * kChunkK;
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
  const met::Bf16Bits* from_[kEach];  // this thread's unit of its rows; null: zeros
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
  const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
  const bool releases = threadIdx.x % kWarp == 0;
  const int stages = stages_of<C>(args);
  RingCursor cursor;
  for (int index = blockIdx.x; index < tiles.total(); index += gridDim.x) {
    const MoeTile tile = tiles.at(index);
    float sums[C::kN / 2];
#pragma unroll
    for (int i = 0; i < C::kN / 2; ++i) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(sums[i]));
    std::uint32_t before = 0;
    for (int stage = 0; stage < stages; ++stage, cursor.advance(C::kStages)) {
      barrier_wait(memory.full(cursor.slot), cursor.phase);
      const std::uint64_t a =
          wgmma_descriptor(memory.weights(cursor.slot) + group * kGroupRows * kChunkBytes);
      const std::uint64_t b = wgmma_descriptor(memory.x(cursor.slot));
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < C::kChunks * kChunkSteps; ++step) {
        const int chunk = step / kChunkSteps;
        const int unit = step % kChunkSteps * kStepUnits;
        Wgmma<C::kN>::bf16(sums, a + chunk * (C::kRows * kChunkBytes / kUnit) + unit,
                           b + chunk * (C::kN * kChunkBytes / kUnit) + unit, 1);
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (releases && stage > 0) barrier_arrive(before);
      before = memory.empty(cursor.slot);
    }
    wgmma_wait<0>();
    wgmma_pin(sums);
    if (releases) barrier_arrive(before);
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

#define MET_MOE_GEMM(n, groups, chunks, stages)                                                            \
  extern "C" __global__ __launch_bounds__(                                                                 \
      (groups + 1) * kGroupThreads, 1) void moe_gemm_n##n(const __grid_constant__ met::MoeGemmArgs args) { \
    moe_gemm<MoeConfig<n, groups, chunks, stages>>(args);                                                  \
  }

MET_MOE_GEMM(8, 1, 4, 5)
MET_MOE_GEMM(16, 1, 4, 5)
MET_MOE_GEMM(32, 1, 4, 4)
MET_MOE_GEMM(64, 2, 2, 4)
MET_MOE_GEMM(128, 2, 1, 6)
MET_MOE_GEMM(256, 2, 1, 4)
