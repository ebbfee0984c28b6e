// w[i] = bf16(amplitude * u), u uniform in [-1, 1) from a hash of (seed, i): weights for measurements, the same
// on every machine.
//
// Shapes   w: [count] BF16, 16-byte aligned; count % 8 == 0.
// Launch   blocks of 256 threads, any grid serves any count.
// Cost     writes 2 * count bytes.
#include <cstdint>

#include "vector.cuh"

namespace {

constexpr int kThreads = 256;

/// SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014).
__device__ std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void dummy_weights_bf16(uint4* w, std::int64_t count,
                                                                          std::uint64_t seed,
                                                                          float amplitude) {
  const std::int64_t vectors = count / kLanes;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; at < vectors;
       at += stride) {
    Floats8 f;
#pragma unroll
    for (int i = 0; i < kLanes; i += 2) {
      const std::uint64_t random =
          mix((seed << 40) + static_cast<std::uint64_t>(at) * kLanes + i + 0x9e3779b97f4a7c15ULL);
      f.v[i] = amplitude * (static_cast<float>(random >> 40) * 0x1p-23F - 1.0F);
      f.v[i + 1] = amplitude * (static_cast<float>(random & 0xffffff) * 0x1p-23F - 1.0F);
    }
    w[at] = pack(f);
  }
}
