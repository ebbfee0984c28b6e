// Products of a mixture-of-experts layer for few tokens: formulas at MoeFewArgs. The touched experts' weights are read once,
// at the speed of memory; tokens are columns of every product, whether they chose the expert or not.
//
// Shapes   MoeFewArgs; tokens <= the entry's columns, tokens_max * top_k <= 256, experts <= 256, top_k <= 32; k % 32 == 0,
//          n % 16 == 0; gate_up: k <= 512 * the entry's blocks.
// Rounding products of BF16 in FP32 (mma.sync); y, residual and scaled are rounded once. A token's sums are of a fixed
//          order: its bits depend on its own row and choice alone.
// Launch   dependent. gate_up: 512 threads, any grid. down: grid n / 16, a warp for each 32 of k up to 16. Shared memory: a
//          ring for each warp (gate_up: and its sums).
// Roles    All warps of a block share a tile of 16 rows of W and divide k. Each lane copies what it multiplies itself
//          (cp.async), some steps ahead, so no warp waits for another but to add their sums up.
// Order    gate_up lets the next kernel start behind its own wait. So the logits are complete when `down` starts, and its
//          weights are under way before it waits for gate_up.
#include <cstdint>

#include "met/moe_ops.h"
#include "moe_choice.cuh"
#include "moe_tile.cuh"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

using met::Bf16Bits;
using met::MoeFewArgs;

constexpr int kRows = 16;       // of W in a tile
constexpr int kUnitBytes = 16;  // of a copy
constexpr int kWarpBytes = kUnitBytes * kWarp;
constexpr int kGateUpWarps = 16;

__device__ inline std::uint32_t shared_address_of(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
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
__device__ inline uint4 unit_at(std::uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

__device__ inline float activate(float gate, bool gelu) {
  if (!gelu) return gate / (1.0F + __expf(-gate));
  constexpr float kRootTwoOverPi = 0.7978845608028654F;
  constexpr float kCubic = 0.044715F;
  return 0.5F * gate * (1.0F + tanhf(kRootTwoOverPi * (gate + kCubic * gate * gate * gate)));
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
  const Choice<Columns>& choice;
  std::uint32_t ring;  // this lane's part
  float4* sums;        // [2, warps, groups, lanes]
  int tokens;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int warp = static_cast<int>(threadIdx.x) / kWarp;
  int g = lane / 4;
  int q = lane % 4;
  int tiles_each = args.n / kRows;
  int tiles = choice.count() * tiles_each;
  int blocks = max(0, min(Blocks, args.k / kStep - warp * Blocks));  // of this warp

  /// What is fetched next.
  int tile = static_cast<int>(blockIdx.x);
  int block = 0;
  const Bf16Bits* from = nullptr;

  __device__ void aim() {
    if (tile >= tiles) return;
    const int place = tile / tiles_each;
    const std::int64_t row =
        static_cast<std::int64_t>(choice.experts[place]) * args.n + (tile - place * tiles_each) * kRows + g;
    from = args.weights + row * args.k + warp * Blocks * kStep + q * kLanes;
  }
  __device__ void fetch(int slot) {
    if (tile < tiles && block < blocks) {
      const std::uint32_t to = ring + slot * kSlotBytes;
      const Bf16Bits* low = from + block * kStep;
      copy_unit(to, low);
      copy_unit(to + kWarpBytes, low + std::int64_t{8} * args.k);
    }
    commit_copies();
    if (++block < Blocks) return;
    block = 0;
    tile += static_cast<int>(gridDim.x);
    aim();
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
    const int place = done / tiles_each;
    const int column = (done - place * tiles_each) * (kRows / 2) + g;
    const bool gelu = args.epilogue == met::Epilogue::kGeluMul;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int t = group * 8 + 2 * q + i;
      const int slot = choice.slots[place * Columns + t];
      if (slot < 0) continue;
      const std::int64_t row = static_cast<std::int64_t>(t) * args.top_k + slot;
      args.y[row * (args.n / 2) + column] = rounded(activate(sum.v[i], gelu) * sum.v[i + 2]);
    }
  }

  __device__ void run() {
    aim();
    for (int i = 0; i < Slots; ++i) fetch(i);
    uint4 x[kGroups][Blocks];
    load_x(x);
    int slot = 0;
    int number = 0;
    for (int at = static_cast<int>(blockIdx.x); at < tiles; at += static_cast<int>(gridDim.x), ++number) {
      Tile c[kGroups];
#pragma unroll
      for (int b = 0; b < Blocks; ++b, slot = after<Slots>(slot)) {
        wait_for_copies<Slots - 1>();
        if (b < blocks) {
          const uint4 low = unit_at(ring + slot * kSlotBytes);
          const uint4 high = unit_at(ring + slot * kSlotBytes + kWarpBytes);
#pragma unroll
          for (int i = 0; i < kGroups; ++i) multiply(c[i], low, high, x[i][b]);
        }
        fetch(slot);
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
  __shared__ Choice<Columns> choice;
  wait_for_producers();
  launch_dependents();
  const int tokens = min(args.counts->tokens, Columns);
  choose_all(args, tokens, choice);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int ring_bytes = kGateUpWarps * Slots * Work::kSlotBytes;
  Work work{args, choice, shared_address_of(shared) + warp * Slots * Work::kSlotBytes + lane * kUnitBytes,
            reinterpret_cast<float4*>(shared + ring_bytes), tokens};
  work.run();
}

// ---- down ----

template <int Columns, int Slots>
struct Down {
  static constexpr int kGroups = Columns / 8;
  static constexpr int kSlotBytes = (2 + kGroups) * kWarpBytes;

  const MoeFewArgs& args;
  const Choice<Columns>& choice;
  std::uint32_t ring;  // this lane's part
  float4* shares;      // the first warp's part of the ring
  int tokens;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int warp = static_cast<int>(threadIdx.x) / kWarp;
  int warps = static_cast<int>(blockDim.x) / kWarp;
  int g = lane / 4;
  int q = lane % 4;
  int places = choice.count();
  int blocks = args.k / kStep;

  /// A step of this warp: 32 of k of an expert.
  struct Cursor {
    int place;
    int block;
  };
  __device__ Cursor begin() const { return {warp < blocks ? 0 : places, warp}; }
  __device__ void advance(Cursor& at) const {
    at.block += warps;
    if (at.block < blocks) return;
    at.block = warp;
    ++at.place;
  }

  __device__ void fetch_weights(const Cursor& at, int slot) const {
    if (at.place >= places) return;
    const std::int64_t row = static_cast<std::int64_t>(choice.experts[at.place]) * args.n +
                             static_cast<int>(blockIdx.x) * kRows + g;
    const Bf16Bits* low = args.weights + row * args.k + at.block * kStep + q * kLanes;
    copy_unit(ring + slot * kSlotBytes, low);
    copy_unit(ring + slot * kSlotBytes + kWarpBytes, low + std::int64_t{8} * args.k);
  }
  /// This lane's token of a group: its choice of the expert, or -1.
  __device__ int slot_of(int place, int group) const { return choice.slots[place * Columns + group * 8 + g]; }
  __device__ void fetch_x(const Cursor& at, int slot) const {
    if (at.place < places) {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const int own = slot_of(at.place, i);
        if (!__any_sync(kAllLanes, own >= 0)) continue;
        const std::int64_t row = static_cast<std::int64_t>(i * 8 + g) * args.top_k + max(own, 0);
        const Bf16Bits* from = own >= 0 ? args.x + row * args.k + at.block * kStep + q * kLanes : args.x;
        copy_unit(ring + slot * kSlotBytes + (2 + i) * kWarpBytes, from, own >= 0);
      }
    }
    commit_copies();
  }

  /// Adds a step's products, weighted, to the sums of the tokens.
  __device__ void multiply_step(const Cursor& at, int slot, Tile (&sums)[kGroups]) const {
    const uint4 low = unit_at(ring + slot * kSlotBytes);
    const uint4 high = unit_at(ring + slot * kSlotBytes + kWarpBytes);
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      if (!__any_sync(kAllLanes, slot_of(at.place, i) >= 0)) continue;
      Tile c;
      multiply(c, low, high, unit_at(ring + slot * kSlotBytes + (2 + i) * kWarpBytes));
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int t = i * 8 + 2 * q + j;
        const int own = choice.slots[at.place * Columns + t];
        const float weight = own >= 0 ? choice.weights[t * args.top_k + own] : 0.0F;
        sums[i].v[j] = fmaf(weight, c.v[j], sums[i].v[j]);
        sums[i].v[j + 2] = fmaf(weight, c.v[j + 2], sums[i].v[j + 2]);
      }
    }
  }

  /// Value i of a group's fragment: where it lies in the residual, or -1.
  __device__ std::int64_t place_of(int group, int i) const {
    const int t = group * 8 + 2 * q + i % 2;
    if (t >= tokens) return -1;
    return static_cast<std::int64_t>(t) * args.n + static_cast<int>(blockIdx.x) * kRows + g + i / 2 * 8;
  }

  /// One warp: a group of 8 tokens joins the residual stream.
  __device__ void join(int group, const Bf16Bits (&residual)[4], const float (&norm)[2]) const {
    const Tile sum = add_shares(shares + group * kWarp + lane, Slots * kSlotBytes / kUnitBytes, warps);
    float squares[2] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = place_of(group, i);
      const Bf16Bits bits = rounded(widened(residual[i]) + sum.v[i]);
      const float h = widened(bits);
      if (at < 0) continue;
      args.residual[at] = bits;
      args.scaled[at] = rounded(h * norm[i / 2]);
      squares[i % 2] = fmaf(h, h, squares[i % 2]);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) squares[j] += __shfl_xor_sync(kAllLanes, squares[j], step);
      const int t = group * 8 + 2 * q + j;
      if (g == 0 && t < tokens)
        args.squares[static_cast<std::int64_t>(t) * gridDim.x + blockIdx.x] = squares[j];
    }
  }

  __device__ void run() {
    Cursor fetched = begin();
    for (int i = 0; i < Slots; ++i, advance(fetched)) fetch_weights(fetched, i);
    const int row = static_cast<int>(blockIdx.x) * kRows + g;
    const float norm[2] = {args.next_norm[row], args.next_norm[row + 8]};
    wait_for_producers();
    fetched = begin();
    for (int i = 0; i < Slots; ++i, advance(fetched)) fetch_x(fetched, i);
    Bf16Bits residual[4] = {};
    if (warp < kGroups) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (place_of(warp, i) >= 0) residual[i] = args.residual[place_of(warp, i)];
    }
    Tile sums[kGroups];
    int slot = 0;
    for (Cursor at = begin(); at.place < places; advance(at), slot = after<Slots>(slot)) {
      wait_for_copies<Slots - 1>();
      multiply_step(at, slot, sums);
      fetch_weights(fetched, slot);
      fetch_x(fetched, slot);
      advance(fetched);
    }
    wait_for_copies<0>();
    __syncwarp();
    float4* own = shares + warp * (Slots * kSlotBytes / kUnitBytes);
#pragma unroll
    for (int i = 0; i < kGroups; ++i)
      own[i * kWarp + lane] = make_float4(sums[i].v[0], sums[i].v[1], sums[i].v[2], sums[i].v[3]);
    __syncthreads();
    if (warp < kGroups) join(warp, residual, norm);
  }
};

template <int Columns, int Slots>
__device__ void down(const MoeFewArgs& args) {
  using Work = Down<Columns, Slots>;
  static_assert(Slots * Work::kSlotBytes >= Work::kGroups * kWarpBytes);
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Choice<Columns> choice;
  launch_dependents();
  const int tokens = min(args.counts->tokens, Columns);
  choose_all(args, tokens, choice);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Work work{args, choice, shared_address_of(shared) + warp * Slots * Work::kSlotBytes + lane * kUnitBytes,
            reinterpret_cast<float4*>(shared), tokens};
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
#define MET_MOE_DOWN(columns, slots, resident)                                                     \
  extern "C" __global__ __launch_bounds__(                                                         \
      16 * kWarp, resident) void moe_few_down_##columns(const __grid_constant__ MoeFewArgs args) { \
    down<columns, slots>(args);                                                                    \
  }

MET_MOE_GATE_UP(8, 4, 6, 2)
MET_MOE_GATE_UP(8, 8, 6, 1)
MET_MOE_GATE_UP(16, 4, 8, 1)
MET_MOE_GATE_UP(16, 8, 8, 1)
MET_MOE_GATE_UP(32, 4, 8, 1)
MET_MOE_DOWN(8, 5, 2)
MET_MOE_DOWN(16, 6, 1)
MET_MOE_DOWN(32, 4, 1)
