// One thread's part of an online softmax over score fragments (layout: wgmma.cuh): rows r and r + 8 of the warp's 16,
// each shared by the four threads of a quad.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr float kLog2E = 1.4426950408889634F;
constexpr float kNoScore = -INFINITY;

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 2));
}

__device__ inline float quad_sum(float v) {
  v += __shfl_xor_sync(0xffffffffU, v, 1);
  return v + __shfl_xor_sync(0xffffffffU, v, 2);
}

/// Which columns of a score tile the thread's two rows see: lowest <= column < end, where column counts from the thread's
/// first one.
struct SeenColumns {
  int end[2];
  int lowest[2];
};

/// tanh without its slow path; the error of the two approximations is some 1e-6.
__device__ inline float tanh_fast(float x) {
  return 1.0F - __fdividef(2.0F, exp2_fast(2.0F * kLog2E * x) + 1.0F);
}

/// Scores to logits: soft cap where there is one, hidden columns to -inf.
template <int Count>
__device__ void restrict_scores(float (&s)[Count], float scale, float softcap, const SeenColumns& seen) {
  if (softcap > 0.0F) {
    const float inner = scale / softcap;
#pragma unroll
    for (int i = 0; i < Count; ++i) s[i] = softcap * tanh_fast(s[i] * inner);
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const int column = i / 4 * 8 + i % 2;
    const int half = i / 2 % 2;
    if (column >= seen.end[half] || column < seen.lowest[half]) s[i] = kNoScore;
  }
}

struct Softmax {
  float scale_log2;                      // of a score to an exponent of 2
  float most[2] = {kNoScore, kNoScore};  // greatest score of the row
  float sum[2] = {0.0F, 0.0F};           // this thread's part of the denominator
  float rescale[2] = {1.0F, 1.0F};       // what the last tile changed earlier weights by

  /// Turns the scores of a tile into weights. `Hidden`: all of a row's scores may be -inf.
  template <bool Hidden, int Count>
  __device__ void weigh(float (&s)[Count]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = most[half];
#pragma unroll
      for (int i = 2 * half; i < Count; i += 4) top = fmaxf(top, fmaxf(s[i], s[i + 1]));
      top = quad_max(top);
      const float base = Hidden && top == kNoScore ? 0.0F : top * scale_log2;
      rescale[half] = exp2_fast(most[half] * scale_log2 - base);
      most[half] = top;
      float total = 0.0F;
#pragma unroll
      for (int i = 2 * half; i < Count; i += 4) {
        s[i] = exp2_fast(fmaf(s[i], scale_log2, -base));
        s[i + 1] = exp2_fast(fmaf(s[i + 1], scale_log2, -base));
        total += s[i] + s[i + 1];
      }
      sum[half] = fmaf(sum[half], rescale[half], total);
    }
  }

  template <int Count>
  __device__ void rescale_output(float (&o)[Count]) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) o[i] *= rescale[i / 2 % 2];
  }

  /// What the output is multiplied by at the end. `sink`: logit in the denominator alone, or -inf.
  __device__ float normaliser(int half, float sink) const {
    const float total = quad_sum(sum[half]);
    const float top = most[half] * scale_log2;
    const float base = fmaxf(top, sink * kLog2E);
    if (base == kNoScore) return 0.0F;
    const float shrink = exp2_fast(top - base);
    return __fdividef(shrink, fmaf(total, shrink, exp2_fast(fmaf(sink, kLog2E, -base))));
  }
};

__device__ inline std::uint32_t pack_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// Weights as A operands of the next product (wgmma_registers.cuh).
template <int Count>
__device__ void pack_weights(const float (&s)[Count], std::uint32_t (&p)[Count / 2]) {
#pragma unroll
  for (int i = 0; i < Count / 2; ++i) p[i] = pack_pair(s[2 * i], s[2 * i + 1]);
}

/// Of words w[k] = columns (2 t, 2 t + 1) of group k, t the thread in its quad, makes w[k] = columns (2 k, 2 k + 1) of
/// group t: eight columns in one thread.
__device__ inline void transpose_quad(std::uint32_t (&w)[4]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if ((k & step) != 0) continue;
      const bool upper = (t & step) != 0;
      const std::uint32_t sent = upper ? w[k] : w[k + step];
      const std::uint32_t received = __shfl_xor_sync(0xffffffffU, sent, step);
      if (upper)
        w[k] = received;
      else
        w[k + step] = received;
    }
  }
}

}  // namespace
