// The decode projection with E4M3 weights: projection.cu with x turned into E4M3 in every block, one scale for each row and
// 128 of k, as `quantise` does for `gemm`. The scale of a row of W multiplies its sum, that of a block of W its part of it.
//
// Shapes   as projection.cu; at most 64 tokens, W: [n, k] E4M3, k a multiple of 16; weight_scales as gemm_e4m3.cu.
// Rounding x to E4M3 with the scale max |x| / 448 of its 128 values. Products of 128 of k are summed by the tensor core,
//          which keeps some 13 bits, and added up in FP32.
// Launch   projection_e4m3_n<N>, as projection_bf16_n<N> with 128 or 256 threads more that make codes (tile.coders).
// Cost     as projection.cu with half the bytes of W.
#include "projection_kernel.cuh"

namespace {

/// Sums of a warpgroup, 128 of k a chunk. Few columns: products of a chunk go to several sets, for they return later than
/// they issue.
template <int N>
class E4m3Products {
 public:
  static constexpr int kXChunks = 2;
  static constexpr int kCoderWarps = N <= 16 ? 2 : 4;
  static constexpr int kPending = 0;
  static constexpr int kThreadsMax = 640;
  static constexpr int kConsumerRegisters = N <= 32 ? 120 : 128;
  static constexpr int kOtherRegisters = N == 64 ? 48 : 56;

  __device__ void begin(const ProjectionArgs& args, int row) {
    clear(sums_);
    w_scales_ = BlockScales(args, row);
    last_block_ = (args.k - 1) / kE4m3Block;
  }

  __device__ void multiply(std::uint32_t weights, std::uint32_t x, int chunk) {
    const float2 of_weights = w_scales_.at(min(chunk, last_block_));
    const std::uint64_t a = wgmma_descriptor(weights);
    const std::uint64_t b = wgmma_descriptor(x);
    float parts[kSets][N / 2];
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kChunkSteps; ++step)
      Wgmma<N>::e4m3(parts[step % kSets], a + step * kStepUnits, b + step * kStepUnits, step >= kSets);
    wgmma_commit();
    const XScales<N> scales(x, static_cast<int>(threadIdx.x) % 4 * 2);
    float2 of_x[N / 8];
    if constexpr (kScalesEarly) load(of_x, scales);
    wgmma_wait<0>();
    if constexpr (!kScalesEarly) load(of_x, scales);
#pragma unroll
    for (int s = 0; s < kSets; ++s) wgmma_pin(parts[s]);
#pragma unroll
    for (int s = 1; s < kSets; ++s)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) parts[0][i] += parts[s][i];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float factor =
          (i % 2 == 0 ? of_x[i / 4].x : of_x[i / 4].y) * (i / 2 % 2 == 0 ? of_weights.x : of_weights.y);
      sums_[i] = fmaf(parts[0][i], factor, sums_[i]);
    }
  }

  __device__ float (&joined())[N / 2] { return sums_; }

 private:
  __device__ static void load(float2 (&of_x)[N / 8], const XScales<N>& scales) {
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
      of_x[j] = make_float2(shared_load_float(scales.at(j)), shared_load_float(scales.at(j, 1)));
  }

  static constexpr bool kScalesEarly = N < 64;  // while products run; else there are no registers for them
  static constexpr int kSets = N <= 16 ? 4 : N <= 32 ? 2 : 1;
  float sums_[N / 2];
  BlockScales w_scales_;
  int last_block_ = 0;
};

}  // namespace

#define MET_PROJECTION(N)                                                                             \
  extern "C" __global__ __launch_bounds__(E4m3Products<N>::kThreadsMax, 1) void projection_e4m3_n##N( \
      const __grid_constant__ ProjectionArgs args) {                                                  \
    projection<N, E4m3Products<N>>(args);                                                             \
  }

MET_PROJECTION(8)
MET_PROJECTION(16)
MET_PROJECTION(32)
MET_PROJECTION(64)
