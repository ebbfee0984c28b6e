// Products of a mixture-of-experts layer for few tokens: formulas at MoeFewArgs. The touched experts' weights are read once,
// at the speed of memory; for gate and up all tokens are columns of every product,
// whether they chose the expert or not; for down the pairs of an expert, 8 at a time.
//
// Shapes   MoeFewArgs; tokens <= the entry's columns, tokens_max * top_k <= 256, experts <= 128, top_k <= 32; k % 32 == 0,
//          n % 16 == 0; gate_up: k <= 512 * the entry's blocks.
// Rounding products of BF16 in FP32 (mma.sync); y, residual and scaled are rounded once. A token's sums are of a fixed
//          order: its bits depend on its own row and choice alone.
// Launch   dependent. gate_up: 512 threads, any grid. down: grid n / 16, a warp for as many blocks of 32 k as its entry tells.
//          Shared memory: a ring for each warp, then gate_up's sums of two tiles, or down's of each warp and token.
// Roles    All warps of a block share a tile of 16 rows of W and divide k. Each lane copies what it multiplies itself
//          (cp.async), some steps ahead, so no warp waits for another but to add their sums up.
// Order    gate_up lets the next kernel start behind its own wait. So the logits are complete when `down` starts, and its
//          weights are under way before it waits for gate_up.
#include <cstdint>

#include "activation.cuh"
#include "met/moe_ops.h"
#include "moe_choice.cuh"
#include "moe_tile.cuh"
#include "pdl.cuh"
#include "shared.cuh"
#include "vector.cuh"

namespace {

using met::Bf16Bits;
using met::MoeFewArgs;

constexpr int kRows = 16;       // of W in a tile
constexpr int kUnitBytes = 16;  // of a copy
constexpr int kWarpBytes = kUnitBytes * kWarp;
constexpr int kGateUpWarps = 16;
constexpr int kTokensMax = 32;

/// 16 bytes into shared memory, zeros where not `wanted`.
__device__ inline void copy_unit(std::uint32_t to, const void* from, bool wanted = true) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(wanted ? kUnitBytes : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

__device__ inline Bf16Bits rounded(float v) { return __bfloat16_as_ushort(__float2bfloat16_rn(v)); }
__device__ inline float widened(Bf16Bits bits) { return __uint_as_float(std::uint32_t{bits} << 16); }

/// Adds the warps' shares of a tile in order; `from` is this lane's in the first warp's.
__device__ inline Tile add_shares(const float4* from, int stride, int warps) {
  Tile sum;
#pragma unroll 4
  for (int w = 0; w < warps; ++w) {
    const float4 part = from[w * stride];
    sum.v[0] += part.x;
    sum.v[1] += part.y;
    sum.v[2] += part.z;
    sum.v[3] += part.w;
  }
  return sum;
}

/// The next slot of a ring of `Slots`.
template <int Slots>
__device__ inline int after(int slot) {
  return slot + 1 == Slots ? 0 : slot + 1;
}

// ---- gate and up ----

/// Columns: tokens; Blocks: of 32 k that a warp takes; Slots: of a warp's ring, one a block of k.
template <int Columns, int Blocks, int Slots>
struct GateUp {
  static constexpr int kGroups = Columns / 8;
  static constexpr int kSlotBytes = 2 * kWarpBytes;
  static constexpr int kShare = kGroups * kWarp;  // float4 of a warp's sums

  const MoeFewArgs& args;
  const Choice& choice;
  std::uint32_t ring;  // this lane's part
  float4* sums;        // [2, warps, groups, lanes]
  int tokens;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int warp = static_cast<int>(threadIdx.x) / kWarp;
  int g = lane / 4;
  int q = lane % 4;
  int tiles_each = args.n / kRows;
  int tiles = choice.expert_count * tiles_each;
  int blocks = max(0, min(Blocks, args.k / kStep - warp * Blocks));  // of this warp

  float inverse_tiles = __frcp_rn(static_cast<float>(tiles_each));

  /// What is fetched next.
  int tile = static_cast<int>(blockIdx.x);
  const Bf16Bits* from = nullptr;

  /// Which of the chosen experts a tile belongs to; exact, for quotients lie half a tile off whole numbers at least.
  __device__ int place_of(int at) const {
    return static_cast<int>((static_cast<float>(at) + 0.5F) * inverse_tiles);
  }
  __device__ void aim() {
    const int place = place_of(tile);
    const std::int64_t row =
        static_cast<std::int64_t>(choice.experts[place]) * args.n + (tile - place * tiles_each) * kRows + g;
    from = args.weights + row * args.k + warp * Blocks * kStep + q * kLanes;
  }
  /// Block `block` of the tile; the last one moves on to the next tile.
  __device__ void fetch(int slot, int block) {
    if (block == 0 && tile < tiles) aim();
    if (tile < tiles && block < blocks) {
      const std::uint32_t to = ring + slot * kSlotBytes;
      const Bf16Bits* low = from + block * kStep;
      copy_unit(to, low);
      copy_unit(to + kWarpBytes, low + std::int64_t{8} * args.k);
    }
    commit_copies();
    if (block == Blocks - 1) tile += static_cast<int>(gridDim.x);
  }

  /// This lane's values of the tokens: column g of each group of 8.
  __device__ void load_x(uint4 (&x)[kGroups][Blocks]) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const int t = i * 8 + g;
      const Bf16Bits* row =
          args.x + static_cast<std::int64_t>(t) * args.k + warp * Blocks * kStep + q * kLanes;
#pragma unroll
      for (int b = 0; b < Blocks; ++b)
        x[i][b] = t < tokens && b < blocks ? *reinterpret_cast<const uint4*>(row + b * kStep) : uint4{};
    }
  }

  /// One warp finishes a group of 8 tokens of a tile.
  __device__ void store(int done, const float4* shares, int group) const {
    const Tile sum = add_shares(shares + group * kWarp + lane, kShare, kGateUpWarps);
    const int place = place_of(done);
    const int column = (done - place * tiles_each) * (kRows / 2) + g;
    const int expert = choice.experts[place];
    const unsigned chosen = choice.tokens[expert];
    const bool gelu = args.epilogue == met::Epilogue::kGeluMul;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int t = group * 8 + 2 * q + i;
      if ((chosen >> t & 1U) == 0) continue;
      const std::int64_t row = choice.pair_of(expert, t);
      args.y[row * (args.n / 2) + column] = rounded(activate(sum.v[i], gelu) * sum.v[i + 2]);
    }
  }

  __device__ void run() {
#pragma unroll 1
    for (int i = 0; i < Slots; ++i) fetch(i, i % Blocks);
    uint4 x[kGroups][Blocks];
    load_x(x);
    int slot = 0;
    int number = 0;
#pragma unroll 1
    for (int at = static_cast<int>(blockIdx.x); at < tiles; at += static_cast<int>(gridDim.x), ++number) {
      Tile c[kGroups];
#pragma unroll
      for (int b = 0; b < Blocks; ++b, slot = after<Slots>(slot)) {
        wait_for_copies<Slots - 1>();
        if (b < blocks) {
          const uint4 low = shared_load_bits(ring + slot * kSlotBytes);
          const uint4 high = shared_load_bits(ring + slot * kSlotBytes + kWarpBytes);
#pragma unroll
          for (int i = 0; i < kGroups; ++i) multiply(c[i], low, high, x[i][b]);
        }
        fetch(slot, (b + Slots) % Blocks);
      }
      float4* shares = sums + number % 2 * kGateUpWarps * kShare;
#pragma unroll
      for (int i = 0; i < kGroups; ++i)
        shares[warp * kShare + i * kWarp + lane] = make_float4(c[i].v[0], c[i].v[1], c[i].v[2], c[i].v[3]);
      __syncthreads();
      // Warps take turns; who finishes a tile is back before the sums of the one after next are written.
#pragma unroll
      for (int i = 0; i < kGroups; ++i)
        if (warp == (number * kGroups + i) % kGateUpWarps) store(at, shares, i);
    }
    wait_for_copies<0>();
  }
};

template <int Columns, int Blocks, int Slots>
__device__ void gate_up(const MoeFewArgs& args) {
  using Work = GateUp<Columns, Blocks, Slots>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Choice choice;
  const int tokens = min(args.counts->tokens, Columns);
  // Once before the wait, on whatever logits there are: the code is then fetched when the real ones come.
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) {
      wait_for_producers();
      launch_dependents();
    }
    choose_all(args, tokens, choice);
  }
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int ring_bytes = kGateUpWarps * Slots * Work::kSlotBytes;
  Work work{args, choice, shared_address(shared) + warp * Slots * Work::kSlotBytes + lane * kUnitBytes,
            reinterpret_cast<float4*>(shared + ring_bytes), tokens};
  work.run();
}

// ---- down ----

/// Blocks: of 32 k that a warp takes; Slots: of a warp's ring, one a unit.
template <int Blocks, int Slots>
struct Down {
  static constexpr int kBlockBytes = 3 * kWarpBytes;  // two of W, one of x
  static constexpr int kSlotBytes = Blocks * kBlockBytes;

  const MoeFewArgs& args;
  const Choice& choice;
  std::uint32_t ring;  // this lane's part
  float2* sums;        // [warps, tokens, 8]: rows g and g + 8
  int tokens;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int warp = static_cast<int>(threadIdx.x) / kWarp;
  int warps = static_cast<int>(blockDim.x) / kWarp;
  int g = lane / 4;
  int q = lane % 4;
  int units = choice.unit_count;
  int blocks = max(0, min(Blocks, args.k / kStep - warp * Blocks));  // of this warp
  int column = warp * Blocks * kStep + q * kLanes;

  __device__ void fetch_weights(int unit, int slot) const {
    if (unit >= units) return;
    const std::int64_t row = static_cast<std::int64_t>(choice.units[unit].expert) * args.n +
                             static_cast<int>(blockIdx.x) * kRows + g;
    const Bf16Bits* low = args.weights + row * args.k + column;
#pragma unroll
    for (int b = 0; b < Blocks; ++b) {
      if (b >= blocks) break;
      const std::uint32_t to = ring + slot * kSlotBytes + b * kBlockBytes;
      copy_unit(to, low + b * kStep);
      copy_unit(to + kWarpBytes, low + b * kStep + std::int64_t{8} * args.k);
    }
  }
  /// Column g of the unit's pairs.
  __device__ void fetch_x(int unit, int slot) const {
    if (unit < units) {
      const Unit own = choice.units[unit];
      const bool there = g < own.count;
      const Bf16Bits* from =
          args.x + static_cast<std::int64_t>(own.first + (there ? g : 0)) * args.k + column;
#pragma unroll
      for (int b = 0; b < Blocks; ++b) {
        if (b >= blocks) break;
        copy_unit(ring + slot * kSlotBytes + b * kBlockBytes + 2 * kWarpBytes, from + b * kStep, there);
      }
    }
    commit_copies();
  }

  /// Adds a unit's products, weighted, to the sums of its tokens.
  __device__ void multiply_unit(int unit, int slot, float2* own_sums) const {
    const Unit own = choice.units[unit];
    Tile c;
#pragma unroll
    for (int b = 0; b < Blocks; ++b) {
      if (b >= blocks) break;
      const std::uint32_t from = ring + slot * kSlotBytes + b * kBlockBytes;
      multiply(c, shared_load_bits(from), shared_load_bits(from + kWarpBytes),
               shared_load_bits(from + 2 * kWarpBytes));
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (2 * q + j >= own.count) continue;
      const Pair pair = choice.pairs[own.first + 2 * q + j];
      float2& sum = own_sums[pair.token * 8 + g];
      sum = {fmaf(pair.weight, c.v[j], sum.x), fmaf(pair.weight, c.v[j + 2], sum.y)};
    }
  }

  /// Rows g and g + 8 of a token join the residual stream.
  __device__ void join(int at, const Bf16Bits (&residual)[2]) const {
    const int t = at / 8;
    const int row = static_cast<int>(blockIdx.x) * kRows + at % 8;
    float2 sum{};
#pragma unroll 4
    for (int w = 0; w < warps; ++w) {
      const float2 part = sums[w * tokens * 8 + at];
      sum.x += part.x;
      sum.y += part.y;
    }
    float squares = 0.0F;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t to = static_cast<std::int64_t>(t) * args.n + row + 8 * i;
      const Bf16Bits bits = rounded(widened(residual[i]) + (i == 0 ? sum.x : sum.y));
      const float h = widened(bits);
      args.residual[to] = bits;
      args.scaled[to] = rounded(h * args.next_norm[row + 8 * i]);
      squares = fmaf(h, h, squares);
    }
    const unsigned group = 0xffU << (lane / 8 * 8);
#pragma unroll
    for (int step = 1; step < 8; step *= 2) squares += __shfl_xor_sync(group, squares, step);
    if (at % 8 == 0) args.squares[static_cast<std::int64_t>(t) * gridDim.x + blockIdx.x] = squares;
  }
  __device__ void load_residual(int at, Bf16Bits (&residual)[2]) const {
    if (at >= tokens * 8) return;
    const Bf16Bits* from = args.residual + static_cast<std::int64_t>(at / 8) * args.n +
                           static_cast<int>(blockIdx.x) * kRows + at % 8;
    residual[0] = from[0];
    residual[1] = from[8];
  }

  __device__ void run() {
#pragma unroll 1
    for (int i = 0; i < Slots; ++i) fetch_weights(i, i);
    float2* own_sums = sums + warp * tokens * 8;
#pragma unroll 1
    for (int i = lane; i < tokens * 8; i += kWarp) own_sums[i] = {};
    wait_for_producers();
#pragma unroll 1
    for (int i = 0; i < Slots; ++i) fetch_x(i, i);
    const int thread = static_cast<int>(threadIdx.x);
    Bf16Bits residual[2] = {};
    load_residual(thread, residual);
    __syncwarp();
    int slot = 0;
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit, slot = after<Slots>(slot)) {
      wait_for_copies<Slots - 1>();
      multiply_unit(unit, slot, own_sums);
      fetch_weights(unit + Slots, slot);
      fetch_x(unit + Slots, slot);
      __syncwarp();  // the next unit's sums may be those of other lanes
    }
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll 1
    for (int at = thread; at < tokens * 8; at += static_cast<int>(blockDim.x)) {
      if (at != thread) load_residual(at, residual);
      join(at, residual);
    }
  }
};

template <int Blocks, int Slots>
__device__ void down(const MoeFewArgs& args) {
  using Work = Down<Blocks, Slots>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Choice choice;
  launch_dependents();
  const int tokens = min(args.counts->tokens, kTokensMax);
  choose_all(args, tokens, choice);
  list_pairs(args, tokens, choice);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int ring_bytes = static_cast<int>(blockDim.x) / kWarp * Slots * Work::kSlotBytes;
  Work work{args, choice, shared_address(shared) + warp * Slots * Work::kSlotBytes + lane * kUnitBytes,
            reinterpret_cast<float2*>(shared + ring_bytes), tokens};
  work.run();
}

}  // namespace

// Two blocks, one of each kernel, are on a multiprocessor at a time where there are 8 columns.
#define MET_MOE_GATE_UP(columns, blocks, slots, resident)                                            \
  extern "C" __global__ __launch_bounds__(                                                           \
      kGateUpWarps* kWarp,                                                                           \
      resident) void moe_few_gate_up_##columns##_##blocks(const __grid_constant__ MoeFewArgs args) { \
    gate_up<columns, blocks, slots>(args);                                                           \
  }
#define MET_MOE_DOWN(blocks, slots)                                                        \
  extern "C" __global__ __launch_bounds__(                                                 \
      16 * kWarp, 2) void moe_few_down_##blocks(const __grid_constant__ MoeFewArgs args) { \
    down<blocks, slots>(args);                                                             \
  }

MET_MOE_GATE_UP(8, 4, 5, 2)
MET_MOE_GATE_UP(8, 8, 6, 1)
MET_MOE_GATE_UP(16, 4, 8, 1)
MET_MOE_GATE_UP(16, 8, 8, 1)
MET_MOE_GATE_UP(32, 4, 8, 1)
MET_MOE_DOWN(1, 5)
MET_MOE_DOWN(2, 3)
MET_MOE_DOWN(3, 2)
