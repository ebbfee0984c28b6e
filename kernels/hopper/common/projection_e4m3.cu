// The decode projection with E4M3 weights and BF16 activations: projection.cu with weights widened to BF16, exactly, on
// their way from shared memory to the registers that WGMMA takes A from. The scale of a row of W multiplies its sum.
//
// Shapes   as projection.cu; W: [n, k] E4M3, k a multiple of 64 and its values in the order of met/e4m3_order.h, so that
//          16 bytes are a thread's share of four products; weight_scales: [n] FP32. kXChunks: a row of 128 bytes of W is
//          128 of k, two chunks of x.
// Launch   projection_e4m3_n<N>, as projection_bf16_n<N>.
// Cost     as projection.cu with half the bytes of W. Widening takes 9 instructions for 4 weights: about 40 bytes a cycle
//          and multiprocessor, twice what memory brings.
#include "projection_kernel.cuh"
#include "wgmma_registers.cuh"

namespace {

/// Four E4M3 as BF16 / 2^120: exponent and mantissa moved to where BF16 has them. Values 0, 1 in `low`, 2, 3 in `high`.
__device__ void spread_bytes(std::uint32_t four, std::uint32_t& low, std::uint32_t& high) {
  const std::uint32_t upper = (four >> 4 & 0x07070707U) | (four & 0x80808080U);
  const std::uint32_t lower = four << 4 & 0xf0f0f0f0U;
  low = __byte_perm(lower, upper, 0x5140);
  high = __byte_perm(lower, upper, 0x7362);
}

/// Two BF16 times 2^120, the difference of the exponents' biases; exact, subnormals of E4M3 included.
__device__ std::uint32_t rescale(std::uint32_t pair) {
  constexpr std::uint32_t kFactor = 0x7b807b80U;
  std::uint32_t scaled;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(scaled) : "r"(pair), "r"(kFactor));
  return scaled;
}

struct E4m3Weights {
  static constexpr int kXChunks = 2;

  template <int N>
  __device__ static void multiply(Accumulators<N>& to, std::uint32_t weights, std::uint32_t x,
                                  bool holds_rows) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int row = lane / 4;
    const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / kWarp;
    const std::uint32_t line = weights + (warp * kWarpRows + row) * kChunkBytes;
    std::uint32_t a[2][4 * kChunkSteps];
    Lines lines[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t unit = ((half * 4 + lane % 4) ^ row) * 16;  // as 128-byte swizzle leaves it
      if (holds_rows) lines[half].load(line + unit);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (holds_rows) widen(a[half], lines[half]);
      const std::uint64_t b = wgmma_descriptor(x + half * N * kChunkBytes);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kChunkSteps; ++step)
        WgmmaRegisters<N>::template bf16<Fastest::kK>(to.sums[step % Accumulators<N>::kSets],
                                                      a[half] + 4 * step, b + step * kStepUnits);
      wgmma_commit();
      wgmma_wait<1>();
    }
  }

 private:
  /// 16 bytes of a row and of the row eight below.
  struct Lines {
    uint4 rows[2];
    __device__ void load(std::uint32_t from) {
      rows[0] = shared_load_bits(from);
      rows[1] = shared_load_bits(from + 8 * kChunkBytes);
    }
  };

  /// Fragments of four products.
  __device__ static void widen(std::uint32_t (&a)[4 * kChunkSteps], const Lines& lines) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::uint32_t words[4] = {lines.rows[r].x, lines.rows[r].y, lines.rows[r].z, lines.rows[r].w};
#pragma unroll
      for (int step = 0; step < kChunkSteps; ++step) {
        std::uint32_t low, high;
        spread_bytes(words[step], low, high);
        a[4 * step + r] = rescale(low);
        a[4 * step + 2 + r] = rescale(high);
      }
    }
  }
};

}  // namespace

extern "C" __global__ __launch_bounds__(kThreadsMax<8>, 1) void projection_e4m3_n8(
    const __grid_constant__ ProjectionArgs args) {
  projection<8, E4m3Weights>(args);
}
extern "C" __global__ __launch_bounds__(kThreadsMax<16>, 1) void projection_e4m3_n16(
    const __grid_constant__ ProjectionArgs args) {
  projection<16, E4m3Weights>(args);
}
extern "C" __global__ __launch_bounds__(kThreadsMax<32>, 1) void projection_e4m3_n32(
    const __grid_constant__ ProjectionArgs args) {
  projection<32, E4m3Weights>(args);
}
extern "C" __global__ __launch_bounds__(kThreadsMax<64>, 1) void projection_e4m3_n64(
    const __grid_constant__ ProjectionArgs args) {
  projection<64, E4m3Weights>(args);
}
extern "C" __global__ __launch_bounds__(kThreadsMax<128>, 1) void projection_e4m3_n128(
    const __grid_constant__ ProjectionArgs args) {
  projection<128, E4m3Weights>(args);
}
extern "C" __global__ __launch_bounds__(kThreadsMax<256>, 1) void projection_e4m3_n256(
    const __grid_constant__ ProjectionArgs args) {
  projection<256, E4m3Weights>(args);
}
