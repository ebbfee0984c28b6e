// The norm in front of a GEMM: 1 / rms of each row of x, which its sums are multiplied by.
#pragma once

#include "gemm_tile.cuh"

namespace {

/// Sum of `count` parts over eight lanes, each of which gets it: lane `part` adds every eighth group of four, in order.
__device__ inline float sum_parts(const float* parts, int count, int part) {
  constexpr int kLanesEach = 8;
  constexpr int kDepth = 2;  // groups that are in flight together
  float sum = 0.0F;
  if (count % (4 * kLanesEach * kDepth) == 0) {
    for (int i = 4 * part; i < count; i += 4 * kLanesEach * kDepth) {
      float4 v[kDepth];
#pragma unroll
      for (int d = 0; d < kDepth; ++d)
        v[d] = __ldcg(reinterpret_cast<const float4*>(parts + i + 4 * kLanesEach * d));
#pragma unroll
      for (int d = 0; d < kDepth; ++d) sum += (v[d].x + v[d].y) + (v[d].z + v[d].w);
    }
  } else {
    for (int i = part; i < count; i += kLanesEach) sum += __ldcg(parts + i);
  }
#pragma unroll
  for (int step = kLanesEach / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  return sum;
}

/// Helper warps, while the others multiply: four rows at a time each.
template <class T>
__device__ void find_norms(const GemmArgs& args, const Shared<T>& shared, int helper) {
  constexpr int kLanesEach = 8;
  constexpr int kRowsAtOnce = kWarpThreads / kLanesEach;
  if (args.norm.parts == nullptr) return;
  wait_for_producers();
  const int lane = threadIdx.x % kWarpThreads;
  const int rows = min(args.counts->tokens, kGemmNormRows);
#pragma unroll 2
  for (int first = helper * kRowsAtOnce; first < rows; first += kHelperWarps * kRowsAtOnce) {
    const int row = first + lane / kLanesEach;
    const float sum =
        sum_parts(args.norm.parts + min(row, rows - 1) * args.norm.count, args.norm.count, lane % kLanesEach);
    if (lane % kLanesEach == 0 && row < rows)
      shared_store_word(shared.norms + 4 * row,
                        __float_as_uint(rsqrtf(sum / static_cast<float>(args.k) + args.norm.eps)));
  }
  __syncwarp();
  if (lane == 0) barrier_arrive(shared.normed());
}

/// Multiplies a consumer warp's sums, of rows of x from `row` on, by what the helpers found.
template <class T, int Count>
__device__ void scale_rows(const GemmArgs& args, const Shared<T>& shared, int row, float (&d)[Count]) {
  if (args.norm.parts == nullptr) return;
  barrier_wait(shared.normed(), 0);
  const int low = min(row + static_cast<int>(threadIdx.x) % kWarpThreads / 4, kGemmNormRows - 8);
  const float factors[2] = {shared_load_float(shared.norms + 4 * low),
                            shared_load_float(shared.norms + 4 * (low + 8))};
#pragma unroll
  for (int i = 0; i < Count; ++i) d[i] *= factors[i / 2 % 2];
}

}  // namespace
