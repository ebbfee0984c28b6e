// From accumulators to rows of y. A warp owns 16 rows; it passes 64 results of each at a time through its 2 KB of
// staging, so that global memory is read and written in 16-byte vectors, 128 bytes of a row together.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "activation.cuh"
#include "async.cuh"
#include "met/cuda_ops.h"

namespace {

constexpr int kNextColumns = 128;  // of a tile that has registers to write for the next norm too
constexpr int kChunkGroups = 8;    // of 8 columns: 64 results a row, one 128-byte row of staging

__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline float low_bf16(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_bf16(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000U); }

__device__ inline uint4 load_where(bool exists, const met::Bf16Bits* at) {
  uint4 v;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
      "mov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
      : "l"(at), "r"(static_cast<int>(exists))
      : "memory");
  return v;
}

__device__ inline void store_where(bool exists, met::Bf16Bits* at, uint4 v) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n@p st.global.v4.u32 [%4], {%0, %1, %2, %3};\n}" ::"r"(v.x),
      "r"(v.y), "r"(v.z), "r"(v.w), "l"(at), "r"(static_cast<int>(exists))
      : "memory");
}

/// The 16 rows of a warp in y, and the columns that exist.
struct WarpRows {
  std::uint32_t staging;
  int lane;
  int rows;  // that exist of the 16
  int columns;
  std::int64_t ldy;
  met::Bf16Bits* y;  // of the first row; the residual where that is added to

  /// 16-byte unit `unit` of staging row `row`; units are permuted so that neither rows nor columns collide in banks.
  __device__ std::uint32_t staged(int row, int unit) const {
    return staging + row * 128 + ((unit ^ (row & 7)) << 4);
  }
};

/// Groups of a chunk: as many as fit and divide all of them.
__host__ __device__ constexpr int chunk_units(int groups) {
  int units = kChunkGroups;
  while (groups % units != 0) --units;
  return units;
}

/// Vectors of a chunk that a lane moves: number i is vector `lane + 32 i` of 16 rows of `Units`.
template <int Units>
struct ChunkLane {
  static constexpr int kVectors = (16 * Units + 31) / 32;
  int row;
  int unit;
  bool exists;
  __device__ ChunkLane(const WarpRows& to, int i, int column) {
    const int at = to.lane + 32 * i;
    row = at / Units;
    unit = at % Units;
    exists = at < 16 * Units && row < to.rows && column + 8 * unit < to.columns;
  }
};

// Loads and stores below are predicated, not branched around: those of a chunk are in flight together.

template <int Units>
struct ChunkVectors {
  uint4 v[ChunkLane<Units>::kVectors];

  __device__ void load(const WarpRows& to, const met::Bf16Bits* from, int column) {
#pragma unroll
    for (int i = 0; i < ChunkLane<Units>::kVectors; ++i) {
      const ChunkLane<Units> at(to, i, column);
      v[i] = load_where(at.exists, from + at.row * to.ldy + column + 8 * at.unit);
    }
  }
  __device__ void stage(const WarpRows& to) const {
#pragma unroll
    for (int i = 0; i < ChunkLane<Units>::kVectors; ++i) {
      const ChunkLane<Units> at(to, i, 0);
      if (to.lane + 32 * i < 16 * Units) shared_store(to.staged(at.row, at.unit), v[i]);
    }
  }
  __device__ void unstage(const WarpRows& to) {
#pragma unroll
    for (int i = 0; i < ChunkLane<Units>::kVectors; ++i) {
      const ChunkLane<Units> at(to, i, 0);
      if (to.lane + 32 * i < 16 * Units) v[i] = shared_load_bits(to.staged(at.row, at.unit));
    }
  }
  __device__ void store(const WarpRows& to, int column) const {
#pragma unroll
    for (int i = 0; i < ChunkLane<Units>::kVectors; ++i) {
      const ChunkLane<Units> at(to, i, column);
      store_where(at.exists, to.y + at.row * to.ldy + column + 8 * at.unit, v[i]);
    }
  }
};

/// Rounds a chunk of results into staging; Residual: adds what lies there.
template <int Units, bool Residual>
__device__ void stage_results(const WarpRows& to, const float* d) {
  const int row = to.lane / 4;
  const int word = 4 * (to.lane % 4);
  std::uint32_t before[2 * Units];
  if constexpr (Residual) {
#pragma unroll
    for (int i = 0; i < 2 * Units; ++i)
      before[i] = shared_load_word(to.staged(row + 8 * (i % 2), i / 2) + word);
  }
#pragma unroll
  for (int i = 0; i < 2 * Units; ++i) {
    float low = d[2 * i];
    float high = d[2 * i + 1];
    if constexpr (Residual) {
      low += low_bf16(before[i]);
      high += high_bf16(before[i]);
    }
    shared_store_word(to.staged(row + 8 * (i % 2), i / 2) + word, pack_bf16(low, high));
  }
}

/// What is written beside a residual for the norm that reads it next: h * weights, and the sum of h^2 over this warp's
/// columns of each row.
template <int Units>
class NextNorm {
 public:
  static constexpr int kVectors = ChunkLane<Units>::kVectors;
  static_assert((Units & (Units - 1)) == 0, "lanes of a row are neighbours in a power of two");

  __device__ NextNorm(const met::GemmArgs& args, int row, int column, int own_columns)
      : weights_(args.next_norm),
        scaled_(args.scaled + row * args.ldy),
        squares_(args.squares + static_cast<std::int64_t>(row) * args.squares_count + column / own_columns),
        count_(args.squares_count) {}

  /// Of a chunk of rows of h, rounded.
  __device__ void add(const WarpRows& to, const ChunkVectors<Units>& rows, int column) {
    const int at = min(column + 8 * (to.lane % Units), to.columns - 8);
    float w[8];
    *reinterpret_cast<float4*>(w) = __ldg(reinterpret_cast<const float4*>(weights_ + at));
    *reinterpret_cast<float4*>(w + 4) = __ldg(reinterpret_cast<const float4*>(weights_ + at + 4));
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const ChunkLane<Units> lane(to, i, column);
      const std::uint32_t pairs[4] = {rows.v[i].x, rows.v[i].y, rows.v[i].z, rows.v[i].w};
      std::uint32_t out[4];
      float sum = 0.0F;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float low = low_bf16(pairs[p]);
        const float high = high_bf16(pairs[p]);
        sum = fmaf(low, low, sum);
        sum = fmaf(high, high, sum);
        out[p] = pack_bf16(low * w[2 * p], high * w[2 * p + 1]);
      }
      if (lane.exists) sums_[i] += sum;
      store_where(lane.exists, scaled_ + lane.row * to.ldy + column + 8 * lane.unit,
                  make_uint4(out[0], out[1], out[2], out[3]));
    }
  }
  __device__ void finish(const WarpRows& to) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      float sum = sums_[i];
#pragma unroll
      for (int step = Units / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
      const ChunkLane<Units> lane(to, i, 0);
      if (lane.unit == 0 && to.lane + 32 * i < 16 * Units && lane.row < to.rows)
        squares_[static_cast<std::int64_t>(lane.row) * count_] = sum;
    }
  }

 private:
  const float* weights_;
  met::Bf16Bits* scaled_;
  float* squares_;
  int count_;
  float sums_[kVectors] = {};
};

/// Takes no part in a store.
struct NoNorm {
  template <class Rows>
  __device__ void add(const WarpRows&, const Rows&, int) {}
  __device__ void finish(const WarpRows&) {}
};

/// y = d, or y += d where Residual, in BF16. `column`: of the first accumulator. `next` sees what is stored.
template <int Groups, bool Residual, class Next = NoNorm>
__device__ void store_rows(const WarpRows& to, const float (&d)[4 * Groups], int column, Next next = {}) {
  constexpr int kUnits = chunk_units(Groups);
  constexpr int kChunks = Groups / kUnits;
  constexpr int kAhead = 2;  // chunks of the residual that a thread holds
  ChunkVectors<kUnits> residual[kAhead];
  if constexpr (Residual) {
#pragma unroll
    for (int c = 0; c < kAhead && c < kChunks; ++c) residual[c].load(to, to.y, column + 8 * c * kUnits);
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if constexpr (Residual) {
      residual[c % kAhead].stage(to);
      if (c + kAhead < kChunks) residual[c % kAhead].load(to, to.y, column + 8 * (c + kAhead) * kUnits);
      __syncwarp();
    }
    stage_results<kUnits, Residual>(to, d + 4 * c * kUnits);
    __syncwarp();
    ChunkVectors<kUnits> rows;
    rows.unstage(to);
    rows.store(to, column + 8 * c * kUnits);
    next.add(to, rows, column + 8 * c * kUnits);
    __syncwarp();
  }
  next.finish(to);
}

/// y = act(gate) * up: accumulator groups alternate 8 columns of gate, 8 of up.
template <int Groups, bool Silu>
__device__ void store_gated(const WarpRows& to, float (&d)[4 * Groups], int column) {
  static_assert(Groups % 2 == 0);
  float gated[2 * Groups];
#pragma unroll
  for (int j = 0; j < Groups / 2; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float gate = d[8 * j + i];
      gated[4 * j + i] = (Silu ? silu(gate) : gelu(gate)) * d[8 * j + 4 + i];
    }
  }
  store_rows<Groups / 2, false>(to, gated, column / 2);
}

/// Two neighbouring values of a vector for each group of columns of this lane; beyond n: any that exist.
template <int Groups>
struct ColumnValues {
  float2 v[Groups];
  __device__ ColumnValues(const float* from, int column, int n, int lane) {
#pragma unroll
    for (int j = 0; j < Groups; ++j)
      v[j] = *reinterpret_cast<const float2*>(from + min(column + 8 * j + 2 * (lane % 4), n - 2));
  }
};

template <int Groups>
__device__ void add_bias(const float* bias, float (&d)[4 * Groups], int column, int n, int lane) {
  const ColumnValues<Groups> b(bias, column, n, lane);
#pragma unroll
  for (int i = 0; i < 4 * Groups; ++i) d[i] += i % 2 == 0 ? b.v[i / 4].x : b.v[i / 4].y;
}

template <int Groups>
__device__ void scale_columns(const float* scale, float (&d)[4 * Groups], int column, int n, int lane) {
  const ColumnValues<Groups> s(scale, column, n, lane);
#pragma unroll
  for (int i = 0; i < 4 * Groups; ++i) d[i] *= i % 2 == 0 ? s.v[i / 4].x : s.v[i / 4].y;
}

/// All of it: `row` is the warp's first row of x, `column` the row of W of the first accumulator. The second half of a split
/// tile may lie behind n: it stores nothing, as its part of the squares is the next row's first.
template <int Groups>
__device__ void epilogue(const met::GemmArgs& args, float (&d)[4 * Groups], std::uint32_t staging, int row,
                         int column, int tokens) {
  using met::Epilogue;
  const bool gated = args.epilogue == Epilogue::kSiluMul || args.epilogue == Epilogue::kGeluMul;
  WarpRows to;
  to.staging = staging;
  to.lane = threadIdx.x % 32;
  to.rows = tokens - row;
  to.columns = gated ? args.n / 2 : args.n;
  to.ldy = args.ldy;
  to.y = (args.epilogue == Epilogue::kResidual ? args.residual : args.y) + row * args.ldy;
  if (to.rows <= 0 || column >= args.n) return;
  if (args.weight_scales != nullptr && args.block_scales == 0)
    scale_columns<Groups>(args.weight_scales, d, column, args.n, to.lane);
  if (args.bias != nullptr) add_bias<Groups>(args.bias, d, column, args.n, to.lane);
  switch (args.epilogue) {
    case Epilogue::kStore:
      return store_rows<Groups, false>(to, d, column);
    case Epilogue::kResidual:
      if constexpr (8 * Groups <= kNextColumns)
        if (args.scaled != nullptr)
          return store_rows<Groups, true>(to, d, column,
                                          NextNorm<chunk_units(Groups)>(args, row, column, 8 * Groups));
      return store_rows<Groups, true>(to, d, column);
    case Epilogue::kSiluMul:
      return store_gated<Groups, true>(to, d, column);
    case Epilogue::kGeluMul:
      return store_gated<Groups, false>(to, d, column);
  }
}

}  // namespace
