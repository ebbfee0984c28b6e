// The products of moe_few.cu for weights of any type: a type of moe_weights.cuh says how they meet x.
#pragma once

#include <cstdint>

#include "activation.cuh"
#include "met/moe_ops.h"
#include "moe_choice.cuh"
#include "moe_weights.cuh"
#include "pdl.cuh"
#include "shared.cuh"
#include "vector.cuh"

namespace {

using met::Bf16Bits;
using met::MoeFewArgs;

constexpr int kRows = 16;       // of W in a tile
constexpr int kUnitBytes = 16;  // of a copy
constexpr int kWarpBytes = kUnitBytes * kWarp;
constexpr int kScaleBytes = 8;  // of a lane: scales of its two rows
constexpr int kGateUpWarps = 16;
constexpr int kTokensMax = 32;

/// 16 bytes into shared memory, zeros where not `wanted`.
__device__ inline void copy_unit(std::uint32_t to, const void* from, bool wanted = true) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(wanted ? kUnitBytes : 0)
               : "memory");
}
__device__ inline void copy_float(std::uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

__device__ inline Bf16Bits rounded(float v) { return __bfloat16_as_ushort(__float2bfloat16_rn(v)); }
__device__ inline float widened(Bf16Bits bits) { return __uint_as_float(std::uint32_t{bits} << 16); }

/// How many of a thread's `Blocks` blocks, the first at `column`, lie within k.
template <class W, int Blocks>
__device__ inline int blocks_within(int k, int column) {
  return max(0, min(Blocks, (k - column + W::kBlock - 1) / W::kBlock));
}

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

/// Columns: tokens; Blocks: of k that a warp takes; Slots: of a warp's ring, one a block of k.
template <class W, int Columns, int Blocks, int Slots>
struct GateUp {
  static constexpr int kGroups = Columns / 8;
  /// Blocks of k that share scales: all where there are none.
  static constexpr int kTogether = W::kScaled ? kE4m3Block / W::kBlock : Blocks;
  static constexpr int kScales = Blocks / kTogether;
  static_assert(Blocks % kTogether == 0);
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
  int first = warp * Blocks * W::kBlock;  // of this warp's k
  int column = first + q * W::kUnit;      // of this lane's
  int blocks = blocks_within<W, Blocks>(args.k, first);
  int own_blocks = blocks_within<W, Blocks>(args.k, column);  // with values of this lane

  float inverse_tiles = __frcp_rn(static_cast<float>(tiles_each));

  /// What is fetched next.
  int tile = static_cast<int>(blockIdx.x);
  const typename W::Element* from = nullptr;

  /// Which of the chosen experts a tile belongs to; exact, for quotients lie half a tile off whole numbers at least.
  __device__ int place_of(int at) const {
    return static_cast<int>((static_cast<float>(at) + 0.5F) * inverse_tiles);
  }
  __device__ void aim() {
    const int place = place_of(tile);
    const std::int64_t row =
        static_cast<std::int64_t>(choice.experts[place]) * args.n + (tile - place * tiles_each) * kRows + g;
    from = static_cast<const typename W::Element*>(args.weights) + row * args.k + column;
  }
  /// Block `block` of the tile; the last one moves on to the next tile.
  __device__ void fetch(int slot, int block) {
    if (block == 0 && tile < tiles) aim();
    if (tile < tiles && block < own_blocks) {
      const std::uint32_t to = ring + slot * kSlotBytes;
      const typename W::Element* low = from + block * W::kBlock;
      copy_unit(to, low);
      copy_unit(to + kWarpBytes, low + std::int64_t{8} * args.k);
    }
    commit_copies();
    if (block == Blocks - 1) tile += static_cast<int>(gridDim.x);
  }

  /// This lane's values of the tokens: column g of each group of 8.
  __device__ void load_x(typename W::X (&x)[kGroups][Blocks]) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const int t = i * 8 + g;
      const Bf16Bits* row = args.x + static_cast<std::int64_t>(t) * args.k + column;
#pragma unroll
      for (int b = 0; b < Blocks; ++b)
        if (t < tokens && b < own_blocks)
          x[i][b].set([&](int u) { return reinterpret_cast<const uint4*>(row + b * W::kBlock)[u]; });
    }
  }

  /// This lane's scales of a tile.
  __device__ void load_scales(int at, float2 (&scales)[kScales]) const {
    if constexpr (!W::kScaled) return;
    if (at >= tiles) return;
    const int place = place_of(at);
    const ExpertScales of(args, /*gated=*/true, choice.experts[place], (at - place * tiles_each) * kRows, g);
#pragma unroll
    for (int i = 0; i < kScales; ++i) scales[i] = of.at(min(first + i * kE4m3Block, args.k - 1) / kE4m3Block);
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
    typename W::X x[kGroups][Blocks];
    load_x(x);
    float2 next_scales[kScales] = {};
    load_scales(static_cast<int>(blockIdx.x), next_scales);
    int slot = 0;
    int number = 0;
#pragma unroll 1
    for (int at = static_cast<int>(blockIdx.x); at < tiles; at += static_cast<int>(gridDim.x), ++number) {
      float2 scales[kScales];
#pragma unroll
      for (int i = 0; i < kScales; ++i) scales[i] = next_scales[i];
      load_scales(at + static_cast<int>(gridDim.x), next_scales);
      Sums<W> c[kGroups];
#pragma unroll
      for (int b = 0; b < Blocks; ++b, slot = after<Slots>(slot)) {
        wait_for_copies<Slots - 1>();
        if (b < blocks) {
          const uint4 low = shared_load_bits(ring + slot * kSlotBytes);
          const uint4 high = shared_load_bits(ring + slot * kSlotBytes + kWarpBytes);
          const typename W::Rows rows(low, high);
#pragma unroll
          for (int i = 0; i < kGroups; ++i) rows.multiply(c[i].part, x[i][b]);
        }
        if (b % kTogether == kTogether - 1)
#pragma unroll
          for (int i = 0; i < kGroups; ++i) c[i].fold(scales[b / kTogether]);
        fetch(slot, (b + Slots) % Blocks);
      }
      float4* shares = sums + number % 2 * kGateUpWarps * kShare;
#pragma unroll
      for (int i = 0; i < kGroups; ++i) shares[warp * kShare + i * kWarp + lane] = c[i].all();
      __syncthreads();
      // Warps take turns; who finishes a tile is back before the sums of the one after next are written.
#pragma unroll
      for (int i = 0; i < kGroups; ++i)
        if (warp == (number * kGroups + i) % kGateUpWarps) store(at, shares, i);
    }
    wait_for_copies<0>();
  }
};

template <class W, int Columns, int Blocks, int Slots>
__device__ void gate_up(const MoeFewArgs& args) {
  using Work = GateUp<W, Columns, Blocks, Slots>;
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

/// Blocks: of k that a warp takes; Slots: of a warp's ring, one a unit.
template <class W, int Blocks, int Slots>
struct Down {
  static constexpr int kBlockBytes = (2 + W::kXUnits) * kWarpBytes;  // two of W, then x
  static constexpr int kScalesAt = Blocks * kBlockBytes;             // of a slot
  static constexpr int kSlotBytes = kScalesAt + (W::kScaled ? kScaleBytes * kWarp : 0);
  // What a warp takes lies in one block of scales.
  static_assert(!W::kScaled || kE4m3Block % (Blocks * W::kBlock) == 0);

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
  int first = warp * Blocks * W::kBlock;  // of this warp's k
  int column = first + q * W::kUnit;      // of this lane's
  int blocks = blocks_within<W, Blocks>(args.k, first);
  int own_blocks = blocks_within<W, Blocks>(args.k, column);  // with values of this lane

  /// Where this lane's scales of a slot are.
  __device__ std::uint32_t scales_at(int slot) const {
    return ring + slot * kSlotBytes + kScalesAt - lane * (kUnitBytes - kScaleBytes);
  }
  __device__ void fetch_weights(int unit, int slot) const {
    if (unit >= units) return;
    const int expert = choice.units[unit].expert;
    const int first_row = static_cast<int>(blockIdx.x) * kRows;
    const std::int64_t row = static_cast<std::int64_t>(expert) * args.n + first_row + g;
    const auto* low = static_cast<const typename W::Element*>(args.weights) + row * args.k + column;
#pragma unroll
    for (int b = 0; b < Blocks; ++b) {
      if (b >= own_blocks) break;
      const std::uint32_t to = ring + slot * kSlotBytes + b * kBlockBytes;
      copy_unit(to, low + b * W::kBlock);
      copy_unit(to + kWarpBytes, low + b * W::kBlock + std::int64_t{8} * args.k);
    }
    if constexpr (W::kScaled) {
      const ExpertScales of(args, /*gated=*/false, expert, first_row, g);
      const int block = min(first, args.k - 1) / kE4m3Block;
      copy_float(scales_at(slot), of.low(block));
      copy_float(scales_at(slot) + kScaleBytes / 2, of.high(block));
    }
  }
  /// Column g of the unit's pairs.
  __device__ void fetch_x(int unit, int slot) const {
    if (unit < units) {
      const Unit own = choice.units[unit];
      const bool there = g < own.count;
      const Bf16Bits* from = args.x + static_cast<std::int64_t>(own.first + (there ? g : 0)) * args.k +
                             min(column, args.k - kLanes);
#pragma unroll
      for (int b = 0; b < Blocks; ++b) {
        if (b >= blocks) break;
#pragma unroll
        for (int u = 0; u < W::kXUnits; ++u)
          copy_unit(ring + slot * kSlotBytes + b * kBlockBytes + (2 + u) * kWarpBytes,
                    from + (b < own_blocks ? b * W::kBlock + u * kLanes : 0), there && b < own_blocks);
      }
    }
    commit_copies();
  }

  /// Adds a unit's products, weighted, to the sums of its tokens.
  __device__ void multiply_unit(int unit, int slot, float2* own_sums) const {
    const Unit own = choice.units[unit];
    Sums<W> sum;
#pragma unroll
    for (int b = 0; b < Blocks; ++b) {
      if (b >= blocks) break;
      const std::uint32_t from = ring + slot * kSlotBytes + b * kBlockBytes;
      typename W::X x;
      x.set([&](int u) { return shared_load_bits(from + (2 + u) * kWarpBytes); });
      typename W::Rows(shared_load_bits(from), shared_load_bits(from + kWarpBytes)).multiply(sum.part, x);
    }
    if constexpr (W::kScaled)
      sum.fold({shared_load_float(scales_at(slot)), shared_load_float(scales_at(slot) + kScaleBytes / 2)});
    const float4 c = sum.all();
    const float products[2][2] = {{c.x, c.z}, {c.y, c.w}};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (2 * q + j >= own.count) continue;
      const Pair pair = choice.pairs[own.first + 2 * q + j];
      float2& own_sum = own_sums[pair.token * 8 + g];
      own_sum = {fmaf(pair.weight, products[j][0], own_sum.x), fmaf(pair.weight, products[j][1], own_sum.y)};
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

template <class W, int Blocks, int Slots>
__device__ void down(const MoeFewArgs& args) {
  using Work = Down<W, Blocks, Slots>;
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

#define MET_MOE_GATE_UP(name, weights, columns, blocks, slots, resident)                                 \
  extern "C" __global__ __launch_bounds__(kGateUpWarps* kWarp,                                           \
                                          resident) void name(const __grid_constant__ MoeFewArgs args) { \
    gate_up<weights, columns, blocks, slots>(args);                                                      \
  }
#define MET_MOE_DOWN(name, weights, blocks, slots)                                                \
  extern "C" __global__ __launch_bounds__(16 * kWarp,                                             \
                                          2) void name(const __grid_constant__ MoeFewArgs args) { \
    down<weights, blocks, slots>(args);                                                           \
  }
