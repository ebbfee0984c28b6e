// Sum over a token's experts, and the norms behind it; every part but the first line is done where its pointer is given:
//   h         = bf16(residual[t] + sum_j weights[t, j] * y[places[t, j]]), stored back
//   normed[t] = h / sqrt(mean(h^2) + eps) * norm
//   scaled[t] = h * next_norm;  squares[t] = sum(h^2)
//
// Shapes   residual, normed, scaled: [tokens, dim] BF16; y: [pairs, dim] BF16; all 16-byte aligned; dim % 8 == 0,
//          dim <= 8192.
// Rounding FP32, j in order; one rounding at each store; the norms see h as stored.
// Rows     row t depends on its own values and the launch's threads alone, bit for bit.
// Launch   one block a token, grid >= tokens; dim / 8 threads, rounded up to a warp. Dependent. Blocks past the tokens do
//          nothing.
// Early    all but y is there before the kernel in front starts, and is read before the wait.
// Cost     reads 2 * dim * (top_k + 1) bytes a token, writes 2 * dim for each output. Bound by memory, by launch for few.
#include <cstdint>

#include "met/moe_ops.h"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

__device__ Floats8 read_floats(const float* at) {
  const float4 low = __ldg(reinterpret_cast<const float4*>(at));
  const float4 high = __ldg(reinterpret_cast<const float4*>(at) + 1);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

__device__ Floats8 times(const Floats8& x, float factor, const Floats8& w) {
  Floats8 y;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) y.v[i] = x.v[i] * factor * w.v[i];
  return y;
}

/// Some of a token's experts, one after another. Loads of all are under way at once.
class Choices {
 public:
  static constexpr int kCount = 8;

  __device__ Choices(const met::MoeCombineArgs& args, std::int64_t token, int first)
      : count_(args.top_k - first) {
    const std::int64_t pair = token * args.top_k + first;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      places_[j] = j < count_ ? __ldcg(args.pairs.places + pair + j) : 0;
      weights_[j] = j < count_ ? __ldcg(args.pairs.weights + pair + j) : 0.0F;
    }
  }

  /// `y`: this thread's values of the first place's row.
  __device__ void add(Floats8& h, const uint4* y, std::int64_t vectors) const {
    uint4 rows[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) rows[j] = j < count_ ? y[places_[j] * vectors] : uint4{};
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (j >= count_) break;
      const Floats8 row = unpack(rows[j]);
#pragma unroll
      for (int i = 0; i < kLanes; ++i) h.v[i] = fmaf(weights_[j], row.v[i], h.v[i]);
    }
  }

 private:
  int count_;
  int places_[kCount];
  float weights_[kCount];
};

}  // namespace

extern "C" __global__ __launch_bounds__(1024) void moe_combine(
    const __grid_constant__ met::MoeCombineArgs args) {
  launch_dependents();
  const std::int64_t vectors = args.dim / kLanes;
  const bool holds = threadIdx.x < vectors;
  const std::int64_t t = blockIdx.x;
  if (t >= args.counts->tokens) return;
  uint4* const residual = reinterpret_cast<uint4*>(args.residual) + t * vectors + threadIdx.x;
  uint4 stored = holds ? __ldcg(residual) : uint4{};
  Choices choices(args, t, 0);
  const float* const norm = args.norm != nullptr ? args.norm : args.next_norm;
  const Floats8 factors = holds && norm != nullptr ? read_floats(norm + threadIdx.x * kLanes) : Floats8{};
  wait_for_producers();
  if (holds) {
    Floats8 h = unpack(stored);
    for (int first = 0;;) {
      choices.add(h, reinterpret_cast<const uint4*>(args.y) + threadIdx.x, vectors);
      first += Choices::kCount;
      if (first >= args.top_k) break;
      choices = Choices(args, t, first);
    }
    stored = pack(h);
    *residual = stored;
  }
  const Floats8 h = unpack(stored);
  __shared__ float partial[kWarpsMax];
  const float squares = sum_of_block(sum_of_squares(h), partial);
  if (args.squares != nullptr && threadIdx.x == 0) args.squares[t] = squares;
  if (!holds) return;
  const std::int64_t at = t * vectors + threadIdx.x;
  const float scale = rsqrtf(squares / static_cast<float>(args.dim) + args.eps);
  if (args.norm != nullptr) reinterpret_cast<uint4*>(args.normed)[at] = pack(times(h, scale, factors));
  if (args.next_norm != nullptr)
    reinterpret_cast<uint4*>(args.scaled)[at] = pack(
        times(h, 1.0F, args.norm == nullptr ? factors : read_floats(args.next_norm + threadIdx.x * kLanes)));
}
