// Norms of the residual stream, one row a block; every part but the first line is done where its pointer is given:
//   h         = residual[t], or bf16(residual[t] + branch[t] / rms(branch[t]) * post_norm), which is stored back
//   normed[r] = h / rms(h) * norm
//   scaled[t] = h * next_norm;  squares[t] = sum(h^2)
// with rms(x) = sqrt(mean(x^2) + eps) and t = gather[r], or r without gather.
//
// Shapes   residual, branch, scaled: [tokens, dim]; normed: [rows, dim] BF16; weights [dim] F32; all 16-byte aligned;
//          dim % 8 == 0, at most 8 * threads * vectors. rows = counts->logits with gather, else counts->tokens.
// Rounding FP32, one at each store; everything after the first line sees h as stored.
// Rows     row r depends on its own values and the launch's threads alone, bit for bit.
// Launch   one block a row, grid >= rows; threads: dim / (8 * vectors) rounded up to a warp. residual_norm_1: one
//          vector a thread, weights fetched before the wait; residual_norm_4: four, for many rows; residual_norm_8: eight,
//          for dim > 8192. Dependent. Blocks past the rows do nothing.
// Cost     reads 2 * dim bytes a row (4 with branch), writes 2 * dim for each of residual, normed and scaled; weights
//          come from the cache. Bound by memory, by launch for few rows.
#include <cstdint>

#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

/// What a thread holds of a row: vector i is number i * blockDim.x + threadIdx.x.
template <int Vectors>
struct Row {
  uint4 v[Vectors];

  __device__ static std::int64_t place(int i) { return std::int64_t{i} * blockDim.x + threadIdx.x; }
  __device__ void load(const met::Bf16Bits* row, std::int64_t vectors) {
#pragma unroll
    for (int i = 0; i < Vectors; ++i)
      v[i] = place(i) < vectors ? reinterpret_cast<const uint4*>(row)[place(i)] : uint4{};
  }
  __device__ void store(met::Bf16Bits* row, std::int64_t vectors) const {
#pragma unroll
    for (int i = 0; i < Vectors; ++i)
      if (place(i) < vectors) reinterpret_cast<uint4*>(row)[place(i)] = v[i];
  }
  __device__ float squares() const {
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < Vectors; ++i) sum += sum_of_squares(unpack(v[i]));
    return sum;
  }
};

/// Weights of the thread's vectors: held from before the wait where that is one, else read when used.
template <int Vectors>
struct Weights {
  static constexpr bool kHeld = Vectors == 1;
  const float* from;
  std::int64_t vectors;
  Floats8 held;

  __device__ static Floats8 read(const float* at) {
    const float4 low = __ldg(reinterpret_cast<const float4*>(at));
    const float4 high = __ldg(reinterpret_cast<const float4*>(at) + 1);
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
  __device__ Weights(const float* weights, std::int64_t count) : from(weights), vectors(count), held{} {
    if (kHeld && from != nullptr && threadIdx.x < vectors) held = read(from + threadIdx.x * kLanes);
  }
  /// x * factor * weights of vector i, which exists.
  __device__ Floats8 times(const Floats8& x, float factor, int i) const {
    const Floats8 w = kHeld ? held : read(from + Row<Vectors>::place(i) * kLanes);
    Floats8 y;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) y.v[j] = x.v[j] * factor * w.v[j];
    return y;
  }
};

template <int Vectors>
__device__ void residual_norm(const met::ResidualNormArgs& args) {
  __shared__ float partial[2][kWarpsMax];
  launch_dependents();
  const std::int64_t vectors = args.dim / kLanes;
  const Weights<Vectors> post(args.branch != nullptr ? args.post_norm : nullptr, vectors);
  const Weights<Vectors> norm(args.norm, vectors);
  const Weights<Vectors> next(args.next_norm, vectors);
  const int rows = args.gather != nullptr ? args.counts->logits : args.counts->tokens;
  const int r = static_cast<int>(blockIdx.x);
  const bool live = r < rows;
  const std::int64_t t = live && args.gather != nullptr ? args.gather[r] : r;
  wait_for_producers();
  if (!live) return;

  Row<Vectors> h;
  h.load(args.residual + t * args.dim, vectors);
  const auto rms = [&](float sum) { return rsqrtf(sum / static_cast<float>(args.dim) + args.eps); };
  if (args.branch != nullptr) {
    Row<Vectors> branch;
    branch.load(args.branch + t * args.dim, vectors);
    const float scale = rms(sum_of_block(branch.squares(), partial[0]));
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      if (Row<Vectors>::place(i) >= vectors) continue;
      Floats8 sum = post.times(unpack(branch.v[i]), scale, i);
      const Floats8 before = unpack(h.v[i]);
#pragma unroll
      for (int j = 0; j < kLanes; ++j) sum.v[j] += before.v[j];
      h.v[i] = pack(sum);
    }
    h.store(args.residual + t * args.dim, vectors);
  }
  const float squares = sum_of_block(h.squares(), partial[1]);
  if (args.squares != nullptr && threadIdx.x == 0) args.squares[t] = squares;
  const float scale = rms(squares);
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    const std::int64_t at = Row<Vectors>::place(i);
    if (at >= vectors) continue;
    const Floats8 x = unpack(h.v[i]);
    if (args.norm != nullptr)
      reinterpret_cast<uint4*>(args.normed + std::int64_t{r} * args.dim)[at] = pack(norm.times(x, scale, i));
    if (args.next_norm != nullptr)
      reinterpret_cast<uint4*>(args.scaled + t * args.dim)[at] = pack(next.times(x, 1.0F, i));
  }
}

}  // namespace

extern "C" __global__ __launch_bounds__(1024) void residual_norm_1(
    const __grid_constant__ met::ResidualNormArgs args) {
  residual_norm<1>(args);
}
extern "C" __global__ __launch_bounds__(256) void residual_norm_4(
    const __grid_constant__ met::ResidualNormArgs args) {
  residual_norm<4>(args);
}
extern "C" __global__ __launch_bounds__(512) void residual_norm_8(
    const __grid_constant__ met::ResidualNormArgs args) {
  residual_norm<8>(args);
}
