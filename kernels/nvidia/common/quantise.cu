// Rows of BF16 to E4M3 with a scale for each 128 of k, RMS-normalised first where asked; arguments and formula as
// QuantiseArgs.
//
// Shapes   x: [tokens, k] BF16, norm: [k] FP32 or null, y: [tokens, k], all 16-byte aligned; k % 64 == 0, k <= 24,576.
//          scales: [ceil(k / 128), scales_ld], above zero. tokens = counts->tokens.
// Rounding FP32 throughout, one rounding to E4M3 of v / scale; |v| / scale is at most 448 and saturates.
// Rows     Row t depends on row t alone, bit for bit.
// Launch   one block of 256 threads a row, grid >= tokens; blocks past the count do nothing. Programmatic dependent launch.
// Cost     reads 2 k and writes k bytes a row. Bound by memory.
#include <cuda_fp8.h>

#include <cstdint>

#include "met/cuda_ops.h"
#include "met/e4m3_order.h"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

using namespace met;

constexpr int kThreads = 256;
constexpr int kPieceValues = 16;  // of a thread at a time: a quarter of what is permuted together
constexpr int kHeld = 6;          // pieces a thread keeps: rows up to 24,576 values are read once
constexpr int kPieceLanes = kE4m3Order / kPieceValues;
constexpr int kScaleLanes = 128 / kPieceValues;
constexpr float kE4m3Max = 448.0F;
constexpr float kLeast = 1e-20F;  // below it a block counts as zero

struct Piece {
  Floats8 half[2];
};

__device__ float at(const Piece& piece, int i) { return piece.half[i / kLanes].v[i % kLanes]; }

struct Raw {
  uint4 half[2];
};

__device__ Piece unpack(const Raw& raw) { return {unpack(raw.half[0]), unpack(raw.half[1])}; }

__device__ void normalise(Piece& piece, const float4* norm, int number, float scale) {
#pragma unroll
  for (int i = 0; i < kPieceValues / 4; ++i) {
    const float4 w = __ldg(norm + number * (kPieceValues / 4) + i);
    float* v = piece.half[i / 2].v + i % 2 * 4;
    v[0] *= scale * w.x;
    v[1] *= scale * w.y;
    v[2] *= scale * w.z;
    v[3] *= scale * w.w;
  }
}

/// Largest magnitude over the lanes of a block of 128.
__device__ float largest(const Piece& piece) {
  float most = 0.0F;
#pragma unroll
  for (int i = 0; i < kPieceValues; ++i) most = fmaxf(most, fabsf(at(piece, i)));
#pragma unroll
  for (int step = kScaleLanes / 2; step > 0; step /= 2)
    most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, step));
  return most;
}

__device__ std::uint32_t e4m3_pair(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}

/// A thread holds one product of 16 of k: four bytes for each lane of a fragment. The four threads of a run of 64 exchange
/// them, so that each stores the 16 bytes of one lane (met/e4m3_order.h).
__device__ uint4 ordered(const Piece& piece, float inverse) {
  static_assert(e4m3_position(1) == 1 && e4m3_position(8) == 2 && e4m3_position(16) == 4 &&
                e4m3_position(2) == 16);
  std::uint32_t mine[kPieceLanes];
#pragma unroll
  for (int q = 0; q < kPieceLanes; ++q)
    mine[q] = e4m3_pair(at(piece, 2 * q) * inverse, at(piece, 2 * q + 1) * inverse) |
              e4m3_pair(at(piece, 2 * q + 8) * inverse, at(piece, 2 * q + 9) * inverse) << 16;
  const int lane = threadIdx.x % kPieceLanes;
  std::uint32_t got[kPieceLanes];
#pragma unroll
  for (int from = 0; from < kPieceLanes; ++from) {
    // Round `from`: lane l gives what lane l ^ from stores.
    const int to = lane ^ from;
    const std::uint32_t given = to == 0 ? mine[0] : to == 1 ? mine[1] : to == 2 ? mine[2] : mine[3];
    got[from] = __shfl_xor_sync(0xffffffffU, given, from);
  }
  const auto of = [&](int product) {  // came in round lane ^ product
    const int round = lane ^ product;
    return round == 0 ? got[0] : round == 1 ? got[1] : round == 2 ? got[2] : got[3];
  };
  return make_uint4(of(0), of(1), of(2), of(3));
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void quantise_e4m3(
    const __grid_constant__ QuantiseArgs args) {
  launch_dependents();
  wait_for_producers();
  const int token = static_cast<int>(blockIdx.x);
  if (token >= args.counts->tokens) return;
  const std::int64_t begin = static_cast<std::int64_t>(token) * args.k;
  const auto* row = reinterpret_cast<const uint4*>(args.x + begin);
  const int pieces = args.k / kPieceValues;
  Raw held[kHeld] = {};
  float squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int piece = i * kThreads + static_cast<int>(threadIdx.x);
    if (piece < pieces) held[i] = {row[2 * piece], row[2 * piece + 1]};
  }
  float scale_row = 1.0F;
  if (args.norm != nullptr) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      squares += sum_of_squares(unpack(held[i].half[0])) + sum_of_squares(unpack(held[i].half[1]));
    scale_row = rsqrtf(block_sum<kThreads>(squares) / static_cast<float>(args.k) + args.eps);
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (i * kThreads >= pieces) break;  // the same for all threads
    const int piece = i * kThreads + static_cast<int>(threadIdx.x);
    Piece values = unpack(held[i]);
    if (args.norm != nullptr && piece < pieces)
      normalise(values, reinterpret_cast<const float4*>(args.norm), piece, scale_row);
    const float most = largest(values);
    const float scale = fmaxf(most, kLeast) / kE4m3Max;
    const uint4 bytes = ordered(values, 1.0F / scale);
    if (piece >= pieces) continue;
    reinterpret_cast<uint4*>(args.y + begin)[piece] = bytes;
    if (piece % kScaleLanes == 0)
      args.scales[static_cast<std::int64_t>(piece / kScaleLanes) * args.scales_ld + token] = scale;
  }
}
