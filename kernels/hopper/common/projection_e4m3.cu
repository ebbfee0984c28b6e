// The decode projection with E4M3 weights: projection.cu with x as E4M3 codes, which the kernel in front of it made, one
// scale for each row and 32 of k. The scale of a row of W multiplies its sum, that of a block of W its part of it.
//
// Shapes   as projection.cu; at most 32 tokens, W: [n, k] E4M3, x: [tokens_max, k] E4M3, k a multiple of 16; x_scales:
//          [ceil(k / 128), N, 4], finite; weight_scales as gemm_e4m3.cu. With `coded` rows of W a tile are a multiple of 32,
//          with a gated epilogue of 64.
// Rounding products of 32 of k are summed by the tensor core, which keeps some 13 bits, and added up in FP32. Coded rows:
//          one rounding to E4M3 of v / scale, scale = max |v| / 448 of 32 neighbours.
// Launch   projection_e4m3_n<N>, as projection_bf16_n<N>.
// Cost     as projection.cu with half the bytes of W and of x.
#include "projection_kernel.cuh"

namespace {

/// Sums of a warpgroup, 128 of k a chunk; a product of 32 of k has a set of its own, whose scale it gets.
template <int N>
class E4m3Products {
 public:
  static constexpr int kChunkK = 128;
  static constexpr int kXScaleBytes = kChunkSteps * 4;
  static constexpr bool kCodes = true;
  static constexpr int kPending = 0;
  static constexpr int kThreadsMax = 512;
  static constexpr int kConsumerRegisters = 152;
  static constexpr int kOtherRegisters = 56;

  __device__ void begin(const ProjectionArgs& args, int row) {
    clear(sums_);
    w_scales_ = BlockScales(args, row);
    last_block_ = (args.k - 1) / kE4m3Block;
  }

  __device__ void multiply(std::uint32_t weights, std::uint32_t x, std::uint32_t x_scales, int chunk) {
    if (chunk > last_block_) return;  // the rest of a stage, which has no scales
    const float2 of_weights = w_scales_.at(chunk);
    const std::uint64_t a = wgmma_descriptor(weights);
    const std::uint64_t b = wgmma_descriptor(x);
    float parts[kChunkSteps][N / 2];
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kChunkSteps; ++step)
      Wgmma<N>::e4m3(parts[step], a + step * kStepUnits, b + step * kStepUnits, 0);
    wgmma_commit();
    const std::uint32_t scales = x_scales + static_cast<int>(threadIdx.x) % 4 * 2 * kXScaleBytes;
    float4 early[kScalesEarly ? N / 4 : 1];
    if constexpr (kScalesEarly) {
#pragma unroll
      for (int i = 0; i < N / 4; ++i) early[i] = shared_load(scale_at(scales, i));
    }
    wgmma_wait<0>();
#pragma unroll
    for (int step = 0; step < kChunkSteps; ++step) wgmma_pin(parts[step]);
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      const float4 of_x = kScalesEarly ? early[kScalesEarly ? i : 0] : shared_load(scale_at(scales, i));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = i / 2 * 4 + half * 2 + i % 2;
        float sum = parts[0][at] * of_x.x;
        sum = fmaf(parts[1][at], of_x.y, sum);
        sum = fmaf(parts[2][at], of_x.z, sum);
        sum = fmaf(parts[3][at], of_x.w, sum);
        sums_[at] = fmaf(sum, half == 0 ? of_weights.x : of_weights.y, sums_[at]);
      }
    }
  }

  __device__ float (&joined())[N / 2] { return sums_; }

 private:
  static constexpr bool kScalesEarly = N < 32;  // while products run; else there are no registers for them
  /// Scales of row 8 (i / 2) + i % 2 behind the lane's first.
  __device__ static std::uint32_t scale_at(std::uint32_t scales, int i) {
    return scales + (i / 2 * 8 + i % 2) * kXScaleBytes;
  }
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
