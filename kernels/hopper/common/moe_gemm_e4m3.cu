// moe_gemm.cu for E4M3 weights and rows of E4M3 that `quantise` made:
//   s[n] = sum_b xs[row, b] ws(n, b) (sum_k W[e, n, k] x[row, k], k in block b of 128).
//
// Shapes   as moe_gemm.cu, with boxes of 128 k; k % 16 == 0; x: [rows, k] E4M3, x_scales and weight_scales as MoeGemmArgs.
// Rounding products of 128 of k are summed by the tensor core, which keeps some 13 bits, and added up in FP32.
// Launch   as moe_gemm.cu.
// Roles    as moe_gemm.cu; the gather warps bring the scales of x too.
// Cost     as moe_gemm.cu with half the bytes, and one FP32 multiply-add an output for each 128 of k.
#include "expert_scales.cuh"
#include "moe_gemm_kernel.cuh"

namespace {

__device__ inline float2 shared_load_pair(std::uint32_t at) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
  return v;
}

struct E4m3Products {
  using Element = std::uint8_t;
  static constexpr bool kScaled = true;

  template <class C>
  __device__ static void run(const met::MoeGemmArgs& args, const MoeMemory<C>& memory, const MoeTile& tile,
                             int stages, RingCursor& cursor, float (&sums)[C::kN / 2]) {
    static_assert(C::kChunkValues == kE4m3Block);
    const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const ExpertScales weight_scales(args, args.epilogue != met::Epilogue::kStore, tile.expert,
                                     tile.row + static_cast<int>(threadIdx.x) / kWarp * 16, lane / 4);
    const int last_block = (args.k - 1) / kE4m3Block;
    for (int stage = 0; stage < stages; ++stage, cursor.advance(C::kStages)) {
      barrier_wait(memory.full(cursor.slot), cursor.phase);
      const std::uint64_t a =
          wgmma_descriptor(memory.weights(cursor.slot) + group * kGroupRows * kChunkBytes);
      const std::uint64_t b = wgmma_descriptor(memory.x(cursor.slot));
#pragma unroll
      for (int chunk = 0; chunk < C::kChunks; ++chunk) {
        float part[C::kN / 2];
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kChunkSteps; ++step)
          Wgmma<C::kN>::e4m3(part, a + chunk * (C::kRows * kChunkBytes / kUnit) + step * kStepUnits,
                             b + chunk * (C::kN * kChunkBytes / kUnit) + step * kStepUnits, step > 0);
        wgmma_commit();
        const float2 of_rows = weight_scales.at(min(stage * C::kChunks + chunk, last_block));
        const std::uint32_t of_places = memory.scales(cursor.slot) + (chunk * C::kN + 2 * (lane % 4)) * 4;
        wgmma_wait<0>();
        wgmma_pin(part);
#pragma unroll
        for (int j = 0; j < C::kN / 8; ++j) {
          const float2 of_x = shared_load_pair(of_places + 8 * j * 4);
          sums[4 * j] = fmaf(part[4 * j], of_rows.x * of_x.x, sums[4 * j]);
          sums[4 * j + 1] = fmaf(part[4 * j + 1], of_rows.x * of_x.y, sums[4 * j + 1]);
          sums[4 * j + 2] = fmaf(part[4 * j + 2], of_rows.y * of_x.x, sums[4 * j + 2]);
          sums[4 * j + 3] = fmaf(part[4 * j + 3], of_rows.y * of_x.y, sums[4 * j + 3]);
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(memory.empty(cursor.slot));
    }
  }
};

}  // namespace

MET_MOE_GEMM(moe_gemm_e4m3_n8, E4m3Products, 8, 1, 2, 11)
MET_MOE_GEMM(moe_gemm_e4m3_n16, E4m3Products, 16, 1, 2, 10)
MET_MOE_GEMM(moe_gemm_e4m3_n32, E4m3Products, 32, 1, 2, 8)
MET_MOE_GEMM(moe_gemm_e4m3_n64, E4m3Products, 64, 2, 1, 8)
MET_MOE_GEMM(moe_gemm_e4m3_n128, E4m3Products, 128, 2, 1, 6)
