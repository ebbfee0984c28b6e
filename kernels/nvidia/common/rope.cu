// Rotates the first rotary_dim values of each query and key head in place by the angle position *
// inv_freq[i]:
//   (a, b) -> (a cos - b sin, b cos + a sin) * rope_scale,
// where pair i is (i, i + rotary_dim / 2), or (2i, 2i + 1) where interleaved.
//
// Shapes   qkv: [*tokens, (heads + 2 * kv_heads) * head_dim] BF16, 16-byte aligned, q then k then v;
//          inv_freq: [rotary_dim / 2] FP32; positions: [*tokens]. head_dim % 8 == 0, rotary_dim % 16 == 0,
//          rotary_dim <= min(head_dim, 512).
// Rounding FP32, one at the store. The angle is position * inv_freq rounded to FP32, as checkpoints were
// trained. Launch   one block of 256 threads a token, grid >= tokens; tokens past *tokens do nothing. Cost
// reads and writes 2 * (heads + kv_heads) * rotary_dim * tokens bytes. Bound by memory.
#include <cstdint>

#include "vector.cuh"

namespace {

constexpr int kThreads = 256;
constexpr int kPairsMax = 256;

struct Turn {
  float cos;
  float sin;
};

__device__ Turn turn_of(float position, float frequency, float scale) {
  float sine, cosine;
  sincosf(__fmul_rn(position, frequency), &sine, &cosine);
  return {cosine * scale, sine * scale};
}

__device__ void turn(float& a, float& b, Turn by) {
  const float was = a;
  a = fmaf(was, by.cos, -b * by.sin);
  b = fmaf(b, by.cos, was * by.sin);
}

/// Eight pairs whose halves lie `half` values apart.
__device__ void turn_halves(uint4* head, int at, int half, const Turn* turns) {
  Floats8 a = unpack(head[at]);
  Floats8 b = unpack(head[at + half / kLanes]);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) turn(a.v[i], b.v[i], turns[at * kLanes + i]);
  head[at] = pack(a);
  head[at + half / kLanes] = pack(b);
}

/// Four pairs of neighbours in each of two vectors.
__device__ void turn_neighbours(uint4* head, int at, const Turn* turns) {
#pragma unroll
  for (int j = 2 * at; j < 2 * at + 2; ++j) {
    Floats8 f = unpack(head[j]);
#pragma unroll
    for (int i = 0; i < kLanes; i += 2) turn(f.v[i], f.v[i + 1], turns[(j * kLanes + i) / 2]);
    head[j] = pack(f);
  }
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void rope_bf16(
    uint4* qkv, const float* inv_freq, const std::int32_t* positions, const std::int32_t* tokens,
    std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim, std::int32_t rotary_dim,
    std::int32_t interleaved, float rope_scale) {
  if (static_cast<std::int64_t>(blockIdx.x) >= *tokens) return;
  __shared__ Turn turns[kPairsMax];
  const int half = rotary_dim / 2;
  const float position = static_cast<float>(positions[blockIdx.x]);
  for (int i = threadIdx.x; i < half; i += kThreads) turns[i] = turn_of(position, inv_freq[i], rope_scale);
  __syncthreads();
  const std::int64_t row_vectors = static_cast<std::int64_t>(heads + 2 * kv_heads) * head_dim / kLanes;
  uint4* row = qkv + blockIdx.x * row_vectors;
  const int per_head = half / kLanes;
  for (int item = threadIdx.x; item < (heads + kv_heads) * per_head; item += kThreads) {
    uint4* head = row + static_cast<std::int64_t>(item / per_head) * (head_dim / kLanes);
    if (interleaved != 0)
      turn_neighbours(head, item % per_head, turns);
    else
      turn_halves(head, item % per_head, half, turns);
  }
}
