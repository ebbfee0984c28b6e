// How E4M3 operands of the step's products lie in memory: k is permuted within 64 values, alike in weights and
// activations, so sums over k are what they were. C++20 and CUDA, no dependencies.
#pragma once

#if defined(__CUDACC__)
#define MET_HOST_DEVICE __host__ __device__
#else
#define MET_HOST_DEVICE
#endif

namespace met {

/// Values of k that are permuted among themselves; k is a multiple of it.
inline constexpr int kE4m3Order = 64;

/// Where value k (0 … 63) of a run of 64 lies. The 64 are four products of 16; lane q of four holds k = 2 q, 2 q + 1,
/// 2 q + 8, 2 q + 9 of each in a tensor core's fragment. Its values of all four lie together: bytes 16 q … 16 q + 15.
MET_HOST_DEVICE constexpr int e4m3_position(int k) {
  const int product = k / 16;
  const int in_product = k % 16;
  const int lane = in_product % 8 / 2;
  const int in_lane = in_product % 2 + in_product / 8 * 2;
  return 16 * lane + 4 * product + in_lane;
}

}  // namespace met
