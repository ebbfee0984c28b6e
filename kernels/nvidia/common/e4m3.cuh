// E4M3 operands of the products: activations get one scale for each row and 512 of k (`gemm`), 128 (`moe_gemm`, and `gemm`
// where weights have scales of blocks) or 32 (decode projections), alike in every kernel that makes them; weights one a row,
// or one a block of 128 rows and 128 of k.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "met/cuda_ops.h"

namespace {

constexpr int kE4m3Block = met::kBlockScaleValues;  // values of k, and rows of W, that share a scale
constexpr int kScaleValues = 32;                    // that share a scale in CodedRows
constexpr float kE4m3Max = 448.0F;
constexpr float kE4m3Least = 1e-20F;  // a block whose values are all below counts as zero

/// The scale of a block whose largest magnitude is `most`; codes are of v * (1 / scale), which saturates at 448.
__device__ inline float e4m3_scale(float most) { return fmaxf(most, kE4m3Least) * (1.0F / kE4m3Max); }

/// Values as codes, the first in the lowest byte.
__device__ inline std::uint16_t e4m3_pair(float a, float b) {
  return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
}
__device__ inline std::uint32_t e4m3_codes(float a, float b, float c, float d) {
  return e4m3_pair(a, b) | std::uint32_t{e4m3_pair(c, d)} << 16;
}

__device__ inline std::uint8_t e4m3_code(float v) {
  return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
}

/// Where the scale of row t and the 32 values around `column` stands.
__device__ inline float* scale_place(const met::CodedRows& rows, int t, int column) {
  const int block = column / kE4m3Block;
  return rows.scales + (static_cast<std::int64_t>(block) * rows.rows + t) * (kE4m3Block / kScaleValues) +
         column % kE4m3Block / kScaleValues;
}

/// Scales of blocks of W for rows that lie in one block, from `row` on: of its even and of its odd groups of 8 rows, which
/// are gate and up where those alternate. 1 without block_scales.
struct BlockScales {
  const float* even = nullptr;
  const float* odd = nullptr;

  BlockScales() = default;
  template <class Args>
  __device__ BlockScales(const Args& args, int row) {
    if (args.block_scales == 0) return;
    const int k_blocks = (args.k + kE4m3Block - 1) / kE4m3Block;
    const bool gated = args.epilogue == met::Epilogue::kSiluMul || args.epilogue == met::Epilogue::kGeluMul;
    const int first = gated ? row / (2 * kE4m3Block) * 2 : row / kE4m3Block;
    even = args.weight_scales + static_cast<std::int64_t>(first) * k_blocks;
    odd = even + (gated ? k_blocks : 0);
  }
  __device__ float2 at(int block) const {
    return even != nullptr ? make_float2(__ldg(even + block), __ldg(odd + block)) : make_float2(1.0F, 1.0F);
  }
};

}  // namespace
