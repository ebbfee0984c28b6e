// From accumulators to rows of y. A warp owns 16 rows; it passes 64 results of each at a time through its 2 KB of
// staging, so that global memory is read and written in 16-byte vectors, 128 bytes of a row together.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "async.cuh"
#include "met/cuda_ops.h"

namespace {

constexpr int kChunkGroups = 8;  // of 8 columns: 64 results a row, one 128-byte row of staging

__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline float low_bf16(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_bf16(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000U); }

__device__ inline float silu(float g) { return __fdividef(g, 1.0F + __expf(-g)); }

/// tanh form: g sigmoid(2 sqrt(2 / pi) (g + 0.044715 g^3))
__device__ inline float gelu(float g) {
  const float z = 1.5957691216F * (g + 0.044715F * g * g * g);
  return __fdividef(g, 1.0F + __expf(-z));
}

/// The 16 rows of a warp in y (and residual, which lies alike), and the columns that exist.
struct WarpRows {
  std::uint32_t staging;
  int lane;
  int rows;  // that exist of the 16, may be <= 0
  int columns;
  std::int64_t ldy;
  met::Bf16Bits* y;  // of the first row

  /// 16-byte unit `unit` of staging row `row`; units are permuted so that neither rows nor columns collide in banks.
  __device__ std::uint32_t staged(int row, int unit) const {
    return staging + row * 128 + ((unit ^ (row & 7)) << 4);
  }
};

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

template <int Units>
__device__ void load_residual(const WarpRows& to, const met::Bf16Bits* residual, int column,
                              uint4 (&held)[ChunkLane<Units>::kVectors]) {
#pragma unroll
  for (int i = 0; i < ChunkLane<Units>::kVectors; ++i) {
    const ChunkLane<Units> at(to, i, column);
    held[i] = make_uint4(0, 0, 0, 0);
    if (at.exists)
      held[i] = *reinterpret_cast<const uint4*>(residual + at.row * to.ldy + column + 8 * at.unit);
  }
}

template <int Units>
__device__ void stage_residual(const WarpRows& to, const uint4 (&held)[ChunkLane<Units>::kVectors]) {
#pragma unroll
  for (int i = 0; i < ChunkLane<Units>::kVectors; ++i) {
    const ChunkLane<Units> at(to, i, 0);
    if (to.lane + 32 * i < 16 * Units) shared_store(to.staged(at.row, at.unit), held[i]);
  }
}

template <int Units>
__device__ void store_chunk(const WarpRows& to, int column) {
#pragma unroll
  for (int i = 0; i < ChunkLane<Units>::kVectors; ++i) {
    const ChunkLane<Units> at(to, i, column);
    if (at.exists)
      *reinterpret_cast<uint4*>(to.y + at.row * to.ldy + column + 8 * at.unit) =
          shared_load_bits(to.staged(at.row, at.unit));
  }
}

/// y = d, or residual + d, in BF16. `column`: of the first accumulator.
template <int Groups>
__device__ void store_rows(const WarpRows& to, const float (&d)[4 * Groups], int column,
                           const met::Bf16Bits* residual) {
  constexpr int kUnits = Groups % kChunkGroups == 0 ? kChunkGroups : Groups % 6 == 0 ? 6 : Groups;
  static_assert(kUnits <= kChunkGroups && Groups % kUnits == 0);
  const int row = to.lane / 4;
  const int word = 4 * (to.lane % 4);
  uint4 held[ChunkLane<kUnits>::kVectors];
  if (residual != nullptr) load_residual<kUnits>(to, residual, column, held);
#pragma unroll
  for (int chunk = 0; chunk < Groups; chunk += kUnits) {
    if (residual != nullptr) {
      stage_residual<kUnits>(to, held);
      if (chunk + kUnits < Groups) load_residual<kUnits>(to, residual, column + 8 * (chunk + kUnits), held);
      __syncwarp();
    }
#pragma unroll
    for (int j = 0; j < kUnits; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t at = to.staged(row + 8 * half, j) + word;
        float low = d[4 * (chunk + j) + 2 * half];
        float high = d[4 * (chunk + j) + 2 * half + 1];
        if (residual != nullptr) {
          const std::uint32_t before = shared_load_word(at);
          low += low_bf16(before);
          high += high_bf16(before);
        }
        shared_store_word(at, pack_bf16(low, high));
      }
    }
    __syncwarp();
    store_chunk<kUnits>(to, column + 8 * chunk);
    __syncwarp();
  }
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
  store_rows<Groups / 2>(to, gated, column / 2, nullptr);
}

/// Adds bias[column], FP32.
template <int Groups>
__device__ void add_bias(const float* bias, float (&d)[4 * Groups], int column, int n, int lane) {
#pragma unroll
  for (int j = 0; j < Groups; ++j) {
    const int at = column + 8 * j + 2 * (lane % 4);
    if (at >= n) continue;
    const float2 b = *reinterpret_cast<const float2*>(bias + at);
    d[4 * j] += b.x;
    d[4 * j + 1] += b.y;
    d[4 * j + 2] += b.x;
    d[4 * j + 3] += b.y;
  }
}

/// Multiplies by scale[column], FP32.
template <int Groups>
__device__ void scale_columns(const float* scale, float (&d)[4 * Groups], int column, int n, int lane) {
#pragma unroll
  for (int j = 0; j < Groups; ++j) {
    const int at = column + 8 * j + 2 * (lane % 4);
    if (at >= n) continue;
    const float2 v = *reinterpret_cast<const float2*>(scale + at);
    d[4 * j] *= v.x;
    d[4 * j + 1] *= v.y;
    d[4 * j + 2] *= v.x;
    d[4 * j + 3] *= v.y;
  }
}

/// All of it: `row` is the warp's first row of x, `column` the row of W of the first accumulator.
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
  if (args.weight_scales != nullptr && args.block_scales == 0)
    scale_columns<Groups>(args.weight_scales, d, column, args.n, to.lane);
  if (args.bias != nullptr) add_bias<Groups>(args.bias, d, column, args.n, to.lane);
  switch (args.epilogue) {
    case Epilogue::kStore:
      return store_rows<Groups>(to, d, column, nullptr);
    case Epilogue::kResidual:
      return store_rows<Groups>(to, d, column, to.y);
    case Epilogue::kSiluMul:
      return store_gated<Groups, true>(to, d, column);
    case Epilogue::kGeluMul:
      return store_gated<Groups, false>(to, d, column);
  }
}

}  // namespace
