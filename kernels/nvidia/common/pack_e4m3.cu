// Rows of BF16 weights to E4M3 with one scale a row:
//   scales[r] = max |w[r]| / 448 (1 for a row of zeros), q[r, k] = e4m3(w[r, k] / scales[r]).
//
// Shapes   w: [rows, k] BF16, q: [rows, k] E4M3, both 16-byte aligned, k % 16 == 0; scales: [rows] FP32.
// Rounding one, to nearest even; nothing saturates.
// Launch   one block of 256 threads a row, grid == rows.
// Cost     reads 2 k and writes k bytes a row, reads the row twice; run once, while weights are loaded.
#include <cstdint>

#include "e4m3.cuh"
#include "vector.cuh"

namespace {

constexpr int kThreads = 256;

__device__ float block_max(float value) {
  __shared__ float partial[kThreads / kWarp];
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, step));
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  float most = 0.0F;
#pragma unroll
  for (int i = 0; i < kThreads / kWarp; ++i) most = fmaxf(most, partial[i]);
  return most;
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void pack_e4m3(const __nv_bfloat16* w, std::uint8_t* q,
                                                                 float* scales, std::int64_t k) {
  const __nv_bfloat16* row = w + blockIdx.x * k;
  std::uint8_t* out = q + blockIdx.x * k;
  float most = 0.0F;
  for (std::int64_t i = threadIdx.x; i < k; i += kThreads)
    most = fmaxf(most, fabsf(__bfloat162float(row[i])));
  most = block_max(most);
  const float scale = most > 0.0F ? most / kE4m3Max : 1.0F;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  const float inverse = 1.0F / scale;
  for (std::int64_t i = threadIdx.x; i < k; i += kThreads)
    out[i] = __nv_cvt_float_to_fp8(__bfloat162float(row[i]) * inverse, __NV_SATFINITE, __NV_E4M3);
}
