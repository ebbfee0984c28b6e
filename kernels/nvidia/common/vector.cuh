// Eight BF16 values as one 16-byte load, and sums over a warp and a block in a fixed order.
#pragma once

#include <cuda_bf16.h>

namespace {

constexpr int kWarp = 32;
constexpr int kLanes = 8;  // BF16 values of one vector

struct Floats8 {
  float v[kLanes];
};

__device__ inline Floats8 unpack(uint4 packed) {
  const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
  Floats8 out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out.v[2 * i] = __uint_as_float(words[i] << 16);
    out.v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
  return out;
}

/// Rounds to nearest even, as every BF16 store does.
__device__ inline uint4 pack(const Floats8& f) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(f.v[2 * i], f.v[2 * i + 1]);
    words[i] = *reinterpret_cast<const unsigned*>(&pair);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline float sum_of_squares(const Floats8& f) {
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) sum = fmaf(f.v[i], f.v[i], sum);
  return sum;
}

/// Butterfly: every lane gets the same bits.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

constexpr int kWarpsMax = 32;  // of a block

/// Sum over a block of any size; every thread gets the same bits. `partial` [kWarpsMax] serves one call.
__device__ inline float sum_of_block(float value, float* partial) {
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  float total = 0.0F;
  for (unsigned i = 0; i < blockDim.x / kWarp; ++i) total += partial[i];
  return total;
}

/// Sum over a block of `Threads`; every thread gets the same bits. Called once a kernel.
template <int Threads>
__device__ float block_sum(float value) {
  static_assert(Threads % kWarp == 0 && Threads <= kWarp * kWarp);
  __shared__ float partial[Threads / kWarp];
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < Threads / kWarp; ++i) total += partial[i];
  return total;
}

}  // namespace
