// y[t, n] = epilogue(sum_b xs[t, b] ws(n, b) (sum_k x[t, k] W[n, k], k in block b of 128) (+ bias[n])): gemm.cu for E4M3.
//
// Shapes   as gemm.cu, with E4M3 x and W whose k is ordered alike (kernels/hopper/common/e4m3_order.cuh) and k % 16 == 0;
//          x_scales: [ceil(k / 128), x_scales_ld] FP32, x_scales_ld % 128 == 0. weight_scales: [n], or where block_scales [ceil(n / 128),
//          ceil(k / 128)], of W's rows as they lie; where gate and up alternate, blocks of 128 rows of gate and of up
//          alternate too, gate first.
// Rounding products of 128 of k are summed by the tensor core, which keeps some 14 bits, and added up in FP32.
// Launch   as gemm.cu.
// Cost     2 tokens n k operations, and one FP32 multiply-add an output for each 128 of k.
//
// The sums of a block of k go through registers of their own, two sets in turn, so a tile has 128 columns at most.
#include "gemm_kernel.cuh"

namespace {

constexpr int kScaleBlock = 128;  // values of k, and rows of W, that share a scale
constexpr int kXScaleBytes = kTileM * 4;

/// The scales of W for a tile of at most 128 columns: of its even and of its odd groups of 8 columns. 1 without blocks.
struct BlockScales {
  const float* even = nullptr;
  const float* odd = nullptr;

  __device__ BlockScales(const GemmArgs& args, int column) {
    if (args.block_scales == 0) return;
    const int k_blocks = (args.k + kScaleBlock - 1) / kScaleBlock;
    const bool gated = args.epilogue == Epilogue::kSiluMul || args.epilogue == Epilogue::kGeluMul;
    const int row = gated ? column / (2 * kScaleBlock) * 2 : column / kScaleBlock;
    even = args.weight_scales + static_cast<std::int64_t>(row) * k_blocks;
    odd = even + (gated ? k_blocks : 0);
  }
  __device__ float2 at(int block) const {
    return even != nullptr ? make_float2(__ldg(even + block), __ldg(odd + block)) : make_float2(1.0F, 1.0F);
  }
};

struct E4m3Products {
  static constexpr int kStageValues = kRowBytes;
  static constexpr int kSteps = kStageValues / 32;  // products of 32 of k
  static_assert(kStageValues == kScaleBlock);

  /// This warpgroup's state in the loop over k.
  template <class T>
  struct Loop {
    const Shared<T>& shared;
    RingAt<T>& at;
    BlockScales scales;
    int group;
    int lane;
    int row;  // of the tile, the lower of this thread's two

    /// Starts the products of the next stage.
    __device__ void start(float (&part)[T::kN / 2]) {
      barrier_wait(shared.full(at.stage), at.round);
      const std::uint64_t x = wgmma_descriptor(shared.x(at.stage) + group * kXBoxBytes);
      const std::uint64_t weights = wgmma_descriptor(shared.weights(at.stage));
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSteps; ++step)  // 32 bytes of a row each
        Wgmma<T::kN>::e4m3(part, x + 2 * step, weights + 2 * step, step > 0);
      wgmma_commit();
      at.next();
    }

    /// Adds a stage's sums, which are ready, to d.
    __device__ void add(int stage, float2 of_weights, float (&part)[T::kN / 2], float (&d)[T::kN / 2]) {
      wgmma_pin(part);
      const float low = shared_load_float(shared.scales(stage) + 4 * row);
      const float high = shared_load_float(shared.scales(stage) + 4 * (row + 8));
      __syncwarp();
      release_stage(shared, stage, lane);
      const float factors[2][2] = {{low * of_weights.x, low * of_weights.y},
                                   {high * of_weights.x, high * of_weights.y}};
#pragma unroll
      for (int i = 0; i < T::kN / 2; ++i) d[i] = fmaf(part[i], factors[i / 2 % 2][i / 4 % 2], d[i]);
    }
  };

  /// Two sets of sums take turns: one is added up while the products of the other run.
  template <class T>
  __device__ static void multiply(const GemmArgs& args, const Shared<T>& shared, RingAt<T>& at, KRange range,
                                  TileAt tile, float (&d)[T::kN / 2]) {
    const int lane = threadIdx.x % kWarpThreads;
    const int warp = warp_index();
    Loop<T> loop{shared, at, BlockScales(args, tile.column), warp / kGroupWarps, lane, 16 * warp + lane / 4};
#pragma unroll
    for (float& sum : d) sum = 0.0F;
    if (range.begin == range.end) return;
    float even[T::kN / 2];
    float odd[T::kN / 2];
    int block = range.begin;
    int stage = at.stage;
    float2 now = loop.scales.at(block);
    loop.start(even);
    for (; block + 2 < range.end; block += 2) {
      const int stage_odd = at.stage;
      const float2 then = loop.scales.at(block + 1);
      loop.start(odd);
      wgmma_wait<1>();
      loop.add(stage, now, even, d);
      stage = at.stage;
      now = loop.scales.at(block + 2);
      loop.start(even);
      wgmma_wait<1>();
      loop.add(stage_odd, then, odd, d);
    }
    if (block + 1 < range.end) {
      const int stage_odd = at.stage;
      const float2 then = loop.scales.at(block + 1);
      loop.start(odd);
      wgmma_wait<1>();
      loop.add(stage, now, even, d);
      wgmma_wait<0>();
      loop.add(stage_odd, then, odd, d);
    } else {
      wgmma_wait<0>();
      loop.add(stage, now, even, d);
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
MET_GEMM(gemm_e4m3_96, 96, Share::kNone, 1, 7, kXScaleBytes)
MET_GEMM(gemm_e4m3_96_split2, 96, Share::kSplit, 2, 5, kXScaleBytes)
MET_GEMM(gemm_e4m3_128_split2, 128, Share::kSplit, 2, 4, kXScaleBytes)
