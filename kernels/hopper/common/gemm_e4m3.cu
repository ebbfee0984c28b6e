// y[t, n] = epilogue(sum_b xs[t, b] ws(n, b) (sum_k x[t, k] W[n, k], k in block b) (+ bias[n])): gemm.cu for E4M3.
//
// Shapes   as gemm.cu, with E4M3 x and W and k % 16 == 0; blocks of 512 of k, or of 128 where block_scales. x_scales:
//          [ceil(k / block), x_scales_ld] FP32, x_scales_ld % 128 == 0. weight_scales: [n], or where block_scales
//          [ceil(n / 128), ceil(k / 128)], of W's rows as they lie; where gate and up alternate, blocks of 128 rows of
//          gate and of up alternate too, gate first. block_scales: entries whose columns divide 128.
// Rounding products of a block of k are summed by the tensor core, which keeps some 13 bits, and added up in FP32.
// Launch   as gemm.cu.
// Cost     2 tokens n k operations, and one FP32 multiply-add an output for each block of k.
//
// The sums of a block of k go through registers of their own, so a tile has 192 columns at most; while one warpgroup adds
// up its block, the other one's products run. Where they add up at once the tensor cores idle, so blocks are as long as
// their 13 bits allow: the 16 products of 512 of k lose some 2^-10 of a sum, less than its rounding to BF16.
#include "e4m3.cuh"
#include "gemm_kernel.cuh"

namespace {

constexpr int kXScaleBytes = kTileM * 4;

struct E4m3Products {
  static constexpr int kStageValues = kRowBytes;
  static constexpr int kSteps = kStageValues / 32;  // products of 32 of k
  static_assert(kStageValues == kE4m3Block);

  template <class T>
  __device__ static void multiply(const GemmArgs& args, const Shared<T>& shared, RingAt<T>& at, KRange range,
                                  TileAt tile, float (&d)[T::kN / 2]) {
    const int lane = threadIdx.x % kWarpThreads;
    const int warp = warp_index();
    const int group = warp / kGroupWarps;
    const std::uint32_t row = 4 * (16 * warp + lane / 4);  // bytes to the scale of this thread's lower row
    BlockScales scales;
    if constexpr (T::kBlockScales) scales = BlockScales(args, tile.column);
    float part[T::kN / 2];
#pragma unroll
    for (int i = 0; i < T::kN / 2; ++i)
      d[i] = part[i] = 0.0F;  // part too: else its registers outlive the tile
    for (int block = range.begin; block < range.end;) {
      const int first = block;
      const int end = min(range.end, ScaleStages<T>(args, first).end);
      int before = -1;
#pragma unroll 1
      for (; block < end; ++block) {
        barrier_wait(shared.full(at.stage), at.round);
        const std::uint64_t x = wgmma_descriptor(shared.x(at.stage) + group * kGroupBytes);
        const std::uint64_t weights = wgmma_descriptor(shared.weights(at.stage));
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kSteps; ++step)  // 32 bytes of a row each
          Wgmma<T::kN>::e4m3(part, x + 2 * step, weights + 2 * step, step > 0 || block > first);
        wgmma_commit();
        wgmma_wait<1>();
        if (before >= 0) release_stage(shared, before, lane);
        before = at.stage;
        at.next();
      }
      const float2 of_weights = scales.at(first);
      const float low = shared_load_float(shared.scales(before) + row);
      const float high = shared_load_float(shared.scales(before) + row + 8 * 4);
      wgmma_wait<0>();
      wgmma_pin(part);
      __syncwarp();
      release_stage(shared, before, lane);
      const float factors[2][2] = {{low * of_weights.x, low * of_weights.y},
                                   {high * of_weights.x, high * of_weights.y}};
#pragma unroll
      for (int i = 0; i < T::kN / 2; ++i) d[i] = fmaf(part[i], factors[i / 2 % 2][i / 4 % 2], d[i]);
    }
  }
};

}  // namespace

#define MET_GEMM(name, ...)                                                                               \
  extern "C" __global__ __launch_bounds__(kThreads, 1) void name(const __grid_constant__ GemmArgs args) { \
    gemm<Tile<__VA_ARGS__>, E4m3Products>(args);                                                          \
  }

MET_GEMM(gemm_e4m3_128_pair, 128, Share::kPair, 2, 6, kXScaleBytes)
MET_GEMM(gemm_e4m3_128, 128, Share::kNone, 1, 6, kXScaleBytes)
MET_GEMM(gemm_e4m3_192, 192, Share::kNone, 1, 5, kXScaleBytes)
MET_GEMM(gemm_e4m3_64, 64, Share::kNone, 1, 8, kXScaleBytes)
MET_GEMM(gemm_e4m3_64_split2, 64, Share::kSplit, 2, 7, kXScaleBytes)
MET_GEMM(gemm_e4m3_128_split2, 128, Share::kSplit, 2, 5, kXScaleBytes)
