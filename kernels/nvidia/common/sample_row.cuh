// One row of logits: loading, and what changes single logits before a token is chosen. Formulas: docs/sampling.md.
#pragma once

#include "met/cuda_ops.h"
#include "sample_team.cuh"

namespace {

constexpr float kInfinity = __builtin_inff();
constexpr float kLargestFloat = 3.402823466e38F;
constexpr int kVector = 4;  // logits that a thread takes at a time

/// The part of a row that a block has: ids [first, first + size). `first` is a multiple of kVector.
struct Part {
  float* logits;
  int first;
  int size;
  bool aligned;  // 16-byte loads are possible
  float scale;
  float softcap;

  __device__ float finish(float l) const {
    if (scale != 1.0F) l = __fmul_rn(l, scale);
    if (softcap != 0.0F) l = __fmul_rn(softcap, tanhf(__fdiv_rn(l, softcap)));
    return l;
  }
  /// Logits i … i + 3 of the part as the model means them; -infinity beyond the end.
  __device__ float4 load(int i) const {
    float4 v = make_float4(-kInfinity, -kInfinity, -kInfinity, -kInfinity);
    if (i >= size) return v;
    if (aligned) {
      v = *reinterpret_cast<const float4*>(logits + i);
    } else {
      v.x = logits[i];
      if (i + 1 < size) v.y = logits[i + 1];
      if (i + 2 < size) v.z = logits[i + 2];
      if (i + 3 < size) v.w = logits[i + 3];
    }
    if (scale != 1.0F || softcap != 0.0F) v = make_float4(finish(v.x), finish(v.y), finish(v.z), finish(v.w));
    return v;
  }
};

__device__ inline Part part_of(const met::SampleArgs& args, int row, unsigned rank) {
  const auto vocabulary = static_cast<int>(args.vocabulary);
  const int each = (vocabulary + kBlocks * kVector - 1) / (kBlocks * kVector) * kVector;
  const int first = min(each * static_cast<int>(rank), (vocabulary + kVector - 1) / kVector * kVector);
  return Part{.logits = args.logits + row * args.vocabulary + first,
              .first = first,
              .size = max(min(each, vocabulary - first), 0),
              .aligned = vocabulary % kVector == 0,
              .scale = args.scale,
              .softcap = args.softcap};
}

/// The best token of a thread: ids come in ascending order, so a later one must be larger.
struct Best {
  float value = -kInfinity;
  int id = -1;
  unsigned non_finite = 0;

  __device__ void see(float v, int at) {
    if (v > kLargestFloat) {
      non_finite = 1;
      v = kLargestFloat;
    }
    if (v != v) non_finite = 1;
    if (v > value) {
      value = v;
      id = at;
    }
  }
  __device__ void see(float4 v, int at) {
    see(v.x, at);
    see(v.y, at + 1);
    see(v.z, at + 2);
    see(v.w, at + 3);
  }
  __device__ Order order() const { return id < 0 ? 0 : order_of(key_of(value), static_cast<unsigned>(id)); }
};

/// The largest logit as the model gives it; 0: there is none. Reads the row once.
__device__ inline Order largest_logit(Team& team, const Part& part, unsigned& non_finite) {
  constexpr int kLoads = 5;  // in flight a thread
  Best best;
  for (int begin = static_cast<int>(threadIdx.x) * kVector; begin < part.size;
       begin += kLoads * kThreads * kVector) {
    float4 v[kLoads];
#pragma unroll
    for (int n = 0; n < kLoads; ++n) v[n] = part.load(begin + n * kThreads * kVector);
#pragma unroll
    for (int n = 0; n < kLoads; ++n) best.see(v[n], part.first + begin + n * kThreads * kVector);
  }
  non_finite = best.non_finite;
  return team.largest(best.order(), non_finite);
}

}  // namespace
