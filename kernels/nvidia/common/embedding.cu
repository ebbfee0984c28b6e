// hidden[t] = bf16(scale * table[id]), id = ids[t], or fed[device_rows[t]] where ids[t] is -1; another id outside
// [0, vocabulary) gives zeros. Where next_norm is given: scaled[t] = hidden[t] * next_norm and squares[t] =
// sum(hidden[t]^2), of hidden as stored.
//
// Shapes   ids, device_rows: [tokens]; table: [vocabulary, dim]; hidden, scaled: [tokens, dim] BF16, 16-byte aligned;
//          next_norm: [dim] F32; squares: [tokens]; dim % 8 == 0. tokens = counts->tokens.
// Rounding one, at each store; with scale 1 the bits are copied.
// Launch   one block of 256 threads a token, grid >= tokens; tokens past the count do nothing. Dependent: ids, fed ids and
//          the table are older than the step and read before the wait.
// Cost     reads 2 * dim bytes a token, writes 2 * dim, and 2 * dim for `scaled`. Bound by memory, by launch for few
//          tokens.
#include <cstdint>

#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

constexpr int kThreads = 256;
constexpr int kFedByDevice = -1;

__device__ uint4 scaled_by(uint4 value, float scale) {
  if (scale == 1.0F) return value;
  Floats8 f = unpack(value);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) f.v[i] *= scale;
  return pack(f);
}

__device__ uint4 times_weights(uint4 value, const float* weights) {
  const float4 low = __ldg(reinterpret_cast<const float4*>(weights));
  const float4 high = __ldg(reinterpret_cast<const float4*>(weights) + 1);
  const float w[kLanes] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  Floats8 f = unpack(value);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) f.v[i] *= w[i];
  return pack(f);
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void embedding_bf16(
    const __grid_constant__ met::EmbeddingDeviceArgs args) {
  launch_dependents();
  const std::int64_t t = blockIdx.x;
  const std::int64_t vectors = args.dim / kLanes;
  const bool live = t < args.counts->tokens;
  std::int64_t id = live ? args.ids[t] : 0;
  if (live && id == kFedByDevice) id = args.fed[args.device_rows[t]];
  const bool known = live && id >= 0 && id < args.vocabulary;
  const uint4* row = reinterpret_cast<const uint4*>(args.table) + id * vectors;
  std::int64_t at = threadIdx.x;
  uint4 value = known && at < vectors ? __ldg(row + at) : uint4{};
  wait_for_producers();
  if (!live) return;

  float squares = 0.0F;
  while (at < vectors) {
    const uint4 hidden = scaled_by(value, args.scale);
    const std::int64_t following = at + kThreads;
    value = known && following < vectors ? __ldg(row + following) : uint4{};
    reinterpret_cast<uint4*>(args.hidden)[t * vectors + at] = hidden;
    if (args.next_norm != nullptr) {
      reinterpret_cast<uint4*>(args.scaled)[t * vectors + at] =
          times_weights(hidden, args.next_norm + at * kLanes);
      squares += sum_of_squares(unpack(hidden));
    }
    at = following;
  }
  if (args.next_norm == nullptr) return;
  squares = block_sum<kThreads>(squares);
  if (threadIdx.x == 0) args.squares[t] = squares;
}
