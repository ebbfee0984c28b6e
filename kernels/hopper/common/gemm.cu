// y[t, n] = epilogue(norm(t) sum_k x[t, k] W[n, k] (+ bias[n])): products of many tokens, arguments as GemmArgs.
//
// Shapes   x: [tokens_max, k], W: [n, k] BF16, both through tensor maps with swizzled boxes of 128 bytes by 128 rows of x, 64 of
//          W;
//          n % 8 == 0 (gate and up: n % 16 == 0), k % 8 == 0; what a box reads beyond a matrix is zero. y and residual: rows of
//          ldy values, 16-byte aligned. Rows from counts->tokens on are neither written nor mixed into others.
// Epilogue kStore y = s; kResidual residual += s; kSiluMul, kGeluMul: y[t, n / 2] = act(gate) * up, rows of W
//          alternating 8 of gate, 8 of up. norm(t): 1 / rms of a row whose squares stand in parts, or 1. kResidual with `scaled`:
//          also scaled = h * next_norm and the squares of a block's columns of h, the residual as rounded.
// Rounding FP32 sums in order of k (a split: the parts in order of k), one rounding to BF16 at the store. A row's bits
//          depend on the entry and that row, not on other rows.
// Launch   384 threads, clusters of the entry's blocks, any whole number of clusters, shared memory as the entry's tile
//          (host: src/ops/cuda/gemm.cpp). Programmatic dependent launch.
// Cost     2 tokens n k operations; W is read once each 2,048 rows. Bound by the tensor cores from some 300 rows on.
//
// A block is three warpgroups: the last keeps a ring of stages (64 of k) full by tensor copies, each of the other two
// multiplies 64 rows of the 128-row tile and stores them. Blocks are persistent. Nothing keeps the two in step but the
// ring, so one stores its results while the other multiplies, and the ring fills for the next tile meanwhile.
// Entries by columns of a tile and by what a cluster shares (gemm_tile.cuh): a pair loads W once for two tiles of rows; a
// split divides k between two or four blocks, which add their sums through distributed shared memory.
#include "gemm_kernel.cuh"

namespace {

struct Bf16Products {
  static constexpr int kStageValues = kRowBytes / 2;
  static constexpr int kSteps = kStageValues / 16;  // products of 16 of k

  template <class T>
  __device__ static void multiply(const GemmArgs&, const Shared<T>& shared, RingAt<T>& at, KRange range,
                                  TileAt, float (&d)[T::kN / 2]) {
    const int lane = threadIdx.x % kWarpThreads;
    const int group = warp_index() / kGroupWarps;
    int before = -1;
#pragma unroll
    for (float& sum : d) sum = 0.0F;
    for (int block = range.begin; block < range.end; ++block) {
      barrier_wait(shared.full(at.stage), at.round);
      const std::uint64_t x = wgmma_descriptor(shared.x(at.stage) + group * kGroupBytes);
      const std::uint64_t weights = wgmma_descriptor(shared.weights(at.stage));
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSteps; ++step)  // 32 bytes of a row each
        Wgmma<T::kN>::bf16(d, x + 2 * step, weights + 2 * step, 1);
      wgmma_commit();
      wgmma_wait<1>();
      if (before >= 0) release_stage(shared, before, lane);
      before = at.stage;
      at.next();
    }
    wgmma_wait<0>();
    wgmma_pin(d);
    if (before >= 0) release_stage(shared, before, lane);
  }
};

}  // namespace

#define MET_GEMM(name, ...)                                                                               \
  extern "C" __global__ __launch_bounds__(kThreads, 1) void name(const __grid_constant__ GemmArgs args) { \
    gemm<Tile<__VA_ARGS__>, Bf16Products>(args);                                                          \
  }

MET_GEMM(gemm_bf16_256_pair, 256, Share::kPair, 2, 4)
MET_GEMM(gemm_bf16_192, 192, Share::kNone, 1, 5)
MET_GEMM(gemm_bf16_128_pair, 128, Share::kPair, 2, 6)
MET_GEMM(gemm_bf16_128, 128, Share::kNone, 1, 6)
MET_GEMM(gemm_bf16_128_split2, 128, Share::kSplit, 2, 5)
MET_GEMM(gemm_bf16_64, 64, Share::kNone, 1, 8)
MET_GEMM(gemm_bf16_64_split2, 64, Share::kSplit, 2, 8)
MET_GEMM(gemm_bf16_64_split4, 64, Share::kSplit, 4, 7)
