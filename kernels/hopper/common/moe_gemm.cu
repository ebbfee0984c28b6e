// Products of a mixture-of-experts layer: for each place p of expert e, begin[e] <= p < begin[e + 1],
//   s[n] = sum_k W[e, n, k] x[row, k], row = tokens[p] where `gathers`, else p; then the epilogue of MoeGemmArgs.
//
// Shapes   W: [experts * n, k] row-major, as boxes of 64 k and the entry's rows, swizzled; x: [rows, k] BF16; y: [pairs,
//          ldy] BF16. n, k multiples of 8; gated: n a multiple of 16; experts <= 512.
// Rounding products and sums FP32, one rounding at the store. A place's bits depend on its own row and expert alone.
// Launch   moe_gemm_n<N>: tiles of 64 rows of W (N <= 32) or 128 by N places; 128 threads for each 64 rows and 128 more, one
//          block a multiprocessor; any grid serves any step. Shared memory as Memory counts it. Dependent.
// Roles    Consumer warpgroups: W as the A side of WGMMA, places as B. One producer warp: W by tensor copies. Three gather
//          warps: x by 16-byte copies into the swizzled form, some stages ahead.
// Early    Where rows are not gathered, pairs are older than the kernel in front, and weights wait for nothing. Where they
//          are and the router leaves the order to this kernel, the first weights are those of a guess (MoeTiles).
// Cost     reads the weights of every expert that has a place once for each N of its places (again from the L2 cache:
//          tiles of the same weights are neighbours), x once for each tile of W. Bound by the bytes of W while an expert
//          has few places.
#include "moe_gemm_kernel.cuh"

namespace {

struct Bf16Products {
  using Element = met::Bf16Bits;
  static constexpr bool kScaled = false;

  template <class C>
  __device__ static void run(const met::MoeGemmArgs&, const MoeMemory<C>& memory, const MoeTile&, int stages,
                             RingCursor& cursor, float (&sums)[C::kN / 2]) {
    const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
    const bool releases = threadIdx.x % kWarp == 0;
    std::uint32_t before = 0;
    for (int stage = 0; stage < stages; ++stage, cursor.advance(C::kStages)) {
      barrier_wait(memory.full(cursor.slot), cursor.phase);
      const std::uint64_t a =
          wgmma_descriptor(memory.weights(cursor.slot) + group * kGroupRows * kChunkBytes);
      const std::uint64_t b = wgmma_descriptor(memory.x(cursor.slot));
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < C::kChunks * kChunkSteps; ++step) {
        const int chunk = step / kChunkSteps;
        const int unit = step % kChunkSteps * kStepUnits;
        Wgmma<C::kN>::bf16(sums, a + chunk * (C::kRows * kChunkBytes / kUnit) + unit,
                           b + chunk * (C::kN * kChunkBytes / kUnit) + unit, 1);
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (releases && stage > 0) barrier_arrive(before);
      before = memory.empty(cursor.slot);
    }
    wgmma_wait<0>();
    wgmma_pin(sums);
    if (releases) barrier_arrive(before);
  }
};

}  // namespace

MET_MOE_GEMM(moe_gemm_n8, Bf16Products, 8, 1, 4, 5)
MET_MOE_GEMM(moe_gemm_n16, Bf16Products, 16, 1, 4, 5)
MET_MOE_GEMM(moe_gemm_n32, Bf16Products, 32, 1, 4, 4)
MET_MOE_GEMM(moe_gemm_n64, Bf16Products, 64, 2, 2, 4)
MET_MOE_GEMM(moe_gemm_n128, Bf16Products, 128, 2, 1, 6)
MET_MOE_GEMM(moe_gemm_n256, Bf16Products, 256, 2, 1, 4)
