// y[r, d] = bf16((add ? y[r, d] : 0) + x[r, d] / sqrt(mean(x[r, :]^2) + eps) * (w[d] + offset))
//
// Shapes   x, y: [*rows, dim]; w: [dim]; all BF16 and 16-byte aligned; dim % 8 == 0. Arguments as
// RmsNormArgs. Rounding FP32 throughout; the store of y is the only one. Alias    y may be x. Row r depends
// on row r alone, bit for bit. Launch   rms_norm_bf16: one block of 256 threads a row, grid >= rows.
// rms_norm_rows_bf16, for many short rows
//          (heads): one warp a row, 8 warps a block, grid >= rows / 8. Rows past *rows do nothing, so a
//          captured launch serves any count.
// Cost     reads 2 * dim * (rows + 1) bytes, and y where it adds; writes 2 * dim * rows. Bound by memory.
#include <cstdint>

#include "vector.cuh"

namespace {

constexpr int kThreads = 256;
constexpr int kHeld = 4;  // vectors a thread keeps in registers: rows up to 8192 values are read once

struct Norm {
  float scale;
  float offset;
  bool add;
};

/// One vector of y. `before` is y's own, used where it is added to.
__device__ uint4 apply(const Norm& norm, uint4 x, uint4 w, uint4 before) {
  Floats8 v = unpack(x);
  const Floats8 g = unpack(w);
  const Floats8 y = unpack(before);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    v.v[i] = v.v[i] * norm.scale * (g.v[i] + norm.offset);
    if (norm.add) v.v[i] += y.v[i];
  }
  return pack(v);
}

__device__ void store(const Norm& norm, uint4 x, const uint4* w, uint4* y) {
  *y = apply(norm, x, *w, norm.add ? *y : uint4{});
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void rms_norm_bf16(const uint4* x, const uint4* w, uint4* y,
                                                                     const std::int32_t* rows,
                                                                     std::int64_t dim, float eps,
                                                                     float offset, std::int32_t add) {
  if (static_cast<std::int64_t>(blockIdx.x) >= *rows) return;
  const std::int64_t vectors = dim / kLanes;
  const uint4* row = x + blockIdx.x * vectors;
  uint4* out = y + blockIdx.x * vectors;
  uint4 held[kHeld] = {};
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const std::int64_t at = i * kThreads + threadIdx.x;
    if (at < vectors) held[i] = row[at];
    sum += sum_of_squares(unpack(held[i]));
  }
  for (std::int64_t at = kHeld * kThreads + threadIdx.x; at < vectors; at += kThreads)
    sum += sum_of_squares(unpack(row[at]));
  const Norm norm{rsqrtf(block_sum<kThreads>(sum) / static_cast<float>(dim) + eps), offset, add != 0};
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const std::int64_t at = i * kThreads + threadIdx.x;
    if (at < vectors) store(norm, held[i], w + at, out + at);
  }
  for (std::int64_t at = kHeld * kThreads + threadIdx.x; at < vectors; at += kThreads)
    store(norm, row[at], w + at, out + at);
}

extern "C" __global__ __launch_bounds__(kThreads) void rms_norm_rows_bf16(const uint4* x, const uint4* w,
                                                                          uint4* y, const std::int32_t* rows,
                                                                          std::int64_t dim, float eps,
                                                                          float offset, std::int32_t add) {
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (r >= *rows) return;
  const std::int64_t vectors = dim / kLanes;
  const int lane = threadIdx.x % kWarp;
  const uint4* row = x + r * vectors;
  uint4 held[kHeld] = {};
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const std::int64_t at = i * kWarp + lane;
    if (at < vectors) held[i] = row[at];
    sum += sum_of_squares(unpack(held[i]));
  }
  for (std::int64_t at = kHeld * kWarp + lane; at < vectors; at += kWarp)
    sum += sum_of_squares(unpack(row[at]));
  const Norm norm{rsqrtf(warp_sum(sum) / static_cast<float>(dim) + eps), offset, add != 0};
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const std::int64_t at = i * kWarp + lane;
    if (at < vectors) store(norm, held[i], w + at, y + r * vectors + at);
  }
  for (std::int64_t at = kHeld * kWarp + lane; at < vectors; at += kWarp)
    store(norm, row[at], w + at, y + r * vectors + at);
}
