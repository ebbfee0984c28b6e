// Rows of BF16 to E4M3 with a scale for each 512, 128 or 32 of k, RMS-normalised first where asked; arguments and
// formula as QuantiseArgs.
//
// Shapes   x: [tokens, k] BF16, norm: [k] FP32 or null, y: [tokens, k], all 16-byte aligned; k % 16 == 0, k <= 24,576.
//          scales as QuantiseArgs, above zero. tokens = counts->tokens.
// Rounding FP32 throughout, one rounding to E4M3 of v / scale; |v| / scale is at most 448 and saturates.
// Rows     Row t depends on row t alone, bit for bit.
// Launch   one block of 256 threads a row, grid >= tokens; blocks past the count do nothing. Programmatic dependent launch.
//          quantise_e4m3_pairs: 64 threads, k <= 6,144, no norm, rows = `each` for every token.
// Cost     reads 2 k and writes k bytes a row. Bound by memory.
#include <cstdint>

#include "e4m3.cuh"
#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

using namespace met;

constexpr int kThreads = 256;
constexpr int kPairThreads = 64;
constexpr int kPieceValues = 16;  // of a thread at a time
constexpr int kHeld = 6;          // pieces a thread keeps: rows up to 24,576 values are read once
constexpr int kBlockLanesLog2 = 3;
static_assert(kE4m3Block == kPieceValues << kBlockLanesLog2);
constexpr int kWarpLanes = 32;
static_assert(kRowScaleValues <= kWarpLanes * kPieceValues,
              "lanes of a warp see all values that share a scale");

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

/// Largest magnitude over the `lanes` that share a scale.
__device__ float largest(const Piece& piece, int lanes) {
  float most = 0.0F;
#pragma unroll
  for (int i = 0; i < kPieceValues; ++i) most = fmaxf(most, fabsf(at(piece, i)));
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) {
    if (step == lanes) break;
    most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, step));
  }
  return most;
}

__device__ uint4 codes(const Piece& piece, float inverse) {
  std::uint32_t words[kPieceValues / 4];
#pragma unroll
  for (int i = 0; i < kPieceValues / 4; ++i)
    words[i] = e4m3_codes(at(piece, 4 * i) * inverse, at(piece, 4 * i + 1) * inverse,
                          at(piece, 4 * i + 2) * inverse, at(piece, 4 * i + 3) * inverse);
  return make_uint4(words[0], words[1], words[2], words[3]);
}

template <int Threads>
__device__ void quantise_row(const QuantiseArgs& args, int token) {
  const std::int64_t begin = static_cast<std::int64_t>(token) * args.k;
  const auto* row = reinterpret_cast<const uint4*>(args.x + begin);
  const int pieces = args.k / kPieceValues;
  // Powers of two: lanes that share a scale, and scales of a row that lie together.
  const int lanes = args.scale_values / kPieceValues;
  const int lanes_log2 = __ffs(lanes) - 1;
  const int beside_log2 = max(0, kBlockLanesLog2 - lanes_log2);
  Raw held[kHeld] = {};
  float squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int piece = i * Threads + static_cast<int>(threadIdx.x);
    if (piece < pieces) held[i] = {row[2 * piece], row[2 * piece + 1]};
  }
  float scale_row = 1.0F;
  if (args.norm != nullptr) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      squares += sum_of_squares(unpack(held[i].half[0])) + sum_of_squares(unpack(held[i].half[1]));
    scale_row = rsqrtf(block_sum<Threads>(squares) / static_cast<float>(args.k) + args.eps);
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (i * Threads >= pieces) break;  // the same for all threads
    const int piece = i * Threads + static_cast<int>(threadIdx.x);
    Piece values = unpack(held[i]);
    if (args.norm != nullptr && piece < pieces)
      normalise(values, reinterpret_cast<const float4*>(args.norm), piece, scale_row);
    const float most = largest(values, lanes);
    const float scale = e4m3_scale(most);
    const uint4 bytes = codes(values, 1.0F / scale);
    if (piece >= pieces) continue;
    reinterpret_cast<uint4*>(args.y + begin)[piece] = bytes;
    if ((piece & (lanes - 1)) != 0) continue;
    const int number = piece >> lanes_log2;
    const int within = number & ((1 << beside_log2) - 1);
    const std::int64_t place = static_cast<std::int64_t>(number >> beside_log2) * args.scales_ld + token;
    args.scales[(place << beside_log2) + within] = scale;
  }
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void quantise_e4m3(
    const __grid_constant__ QuantiseArgs args) {
  launch_dependents();
  wait_for_producers();
  const int token = static_cast<int>(blockIdx.x);
  if (token < args.counts->tokens) quantise_row<kThreads>(args, token);
}

extern "C" __global__ __launch_bounds__(kPairThreads) void quantise_e4m3_pairs(
    const __grid_constant__ QuantiseArgs args, std::int32_t each) {
  launch_dependents();
  wait_for_producers();
  const int pair = static_cast<int>(blockIdx.x);
  if (pair < args.counts->tokens * each) quantise_row<kPairThreads>(args, pair);
}
