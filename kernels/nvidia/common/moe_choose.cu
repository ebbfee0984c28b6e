// Router of a mixture-of-experts layer for steps of some tokens: as moe_router, but the pairs are left to `moe_gemm` to put in
// order: choices[t, j] and weights[t, j] alone are stored, and normed where norm.parts is given.
//
// Formula  as moe_router.cu.
// Shapes   hidden % 32 == 0, experts <= 128, top_k <= 32 and <= experts.
//          counts->tokens rows; rows beyond are neither read nor written.
// Rounding products of BF16 in FP32 (mma.sync), sixteen parts of k in a fixed order; softmax in FP32.
// Launch   512 threads, clusters of 8, grid {8, ceil(tokens_max / 16)}, dependent. A cluster takes 16 tokens, a block of it 16
//          experts, its warps share k; logits go to the block that chooses two tokens' experts.
// Early    the router's weights, of up to 2048 of k, are in registers before the wait.
// Cost     reads the router's weights once for each 16 tokens, x eight times (from L2). Bound by latencies.
#include <cstdint>

#include "barrier.cuh"
#include "met/moe_ops.h"
#include "moe_tile.cuh"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTokens = 16;  // of a cluster: the m side of the product
constexpr int kBlocks = 8;   // of a cluster
constexpr int kOwnTokens = kTokens / kBlocks;
constexpr int kGroup = 8;   // experts of a product: the n side
constexpr int kGroups = 2;  // of a block
constexpr int kOwnExperts = kGroup * kGroups;
constexpr int kExperts = kOwnExperts * kBlocks;
constexpr int kEarly = 4;                     // steps of k of a warp whose weights load before the wait
constexpr int kPartStride = kOwnExperts + 8;  // so that a warp's stores fall into all banks
constexpr int kHalf = kWarps / 2;
constexpr int kChooser = kWarps - kOwnTokens;  // the first warp that chooses
static_assert(kExperts == met::kMoeOrderExperts);

struct Shared {
  float parts[kHalf][kTokens][kPartStride];
  float logits[kOwnTokens][kExperts];
  float inverse[kTokens];
  unsigned long long arrived;  // barrier: the logits are there
};

/// What a thread multiplies in one step of k.
struct Step {
  uint4 low, high, weights[kGroups];
};

class Logits {
 public:
  __device__ Logits(const met::MoeRouterArgs& args, int token, int first)
      : args_(args), token_(token), first_(first) {}

  __device__ void load_weights(Step& step, int k) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const int expert = first_ + i * kGroup + row();
      step.weights[i] = k < args_.hidden && expert < args_.experts
                            ? __ldg(reinterpret_cast<const uint4*>(args_.router + at(expert, k)))
                            : uint4{};
    }
  }
  __device__ void load_x(Step& step, int k, int tokens) const {
    const int low = token_ + row();
    step.low =
        k < args_.hidden && low < tokens ? *reinterpret_cast<const uint4*>(args_.x + at(low, k)) : uint4{};
    step.high = k < args_.hidden && low + 8 < tokens
                    ? *reinterpret_cast<const uint4*>(args_.x + at(low + 8, k))
                    : uint4{};
  }
  __device__ static void add(Tile (&sums)[kGroups], const Step& step) {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) multiply(sums[i], step.low, step.high, step.weights[i]);
  }
  /// The warp's `i`th step of k.
  __device__ static int k_of(int i) { return (static_cast<int>(threadIdx.x) / kWarp + i * kWarps) * kStep; }

 private:
  __device__ static int row() { return static_cast<int>(threadIdx.x) % kWarp / 4; }
  __device__ std::int64_t at(int row, int k) const {
    return static_cast<std::int64_t>(row) * args_.hidden + k + static_cast<int>(threadIdx.x) % 4 * kLanes;
  }

  const met::MoeRouterArgs& args_;
  int token_, first_;
};

/// 1 / rms of a token of each warp; 1 where rows are normalised already.
__device__ inline void inverse_rms(const met::MoeRouterArgs& args, int token, int tokens, float* inverse) {
  static_assert(kWarps == kTokens);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = static_cast<int>(threadIdx.x) / kWarp;
  float value = 1;
  if (args.norm.parts != nullptr && token + row < tokens) {
    const float* parts = args.norm.parts + static_cast<std::int64_t>(token + row) * args.norm.count;
    float sum = 0;
#pragma unroll 4
    for (int i = lane; i < args.norm.count; i += kWarp) sum += parts[i];
    value = rsqrtf(warp_sum(sum) / static_cast<float>(args.hidden) + args.norm.eps);
  }
  if (lane == 0) inverse[row] = value;
}

/// Adds the warps' parts of k, the later half to the earlier one, then in order; each block gets its tokens' logits.
__device__ inline void join_parts(const Tile (&own)[kGroups], int rank, Shared& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const auto part = [&](int i, int half) -> float2& {
    return reinterpret_cast<float2&>(
        shared.parts[warp % kHalf][thread % kWarp / 4 + half * 8][i * kGroup + thread % 4 * 2]);
  };
  if (warp >= kHalf)
#pragma unroll
    for (int i = 0; i < 2 * kGroups; ++i)
      part(i / 2, i % 2) = {own[i / 2].v[i % 2 * 2], own[i / 2].v[i % 2 * 2 + 1]};
  __syncthreads();
  if (warp < kHalf)
#pragma unroll
    for (int i = 0; i < 2 * kGroups; ++i) {
      float2& sum = part(i / 2, i % 2);
      sum = {own[i / 2].v[i % 2 * 2] + sum.x, own[i / 2].v[i % 2 * 2 + 1] + sum.y};
    }
  __syncthreads();
  constexpr int kTwos = kOwnExperts / 2;
  if (thread >= kTokens * kTwos) return;
  const int token = thread / kTwos;
  const int expert = thread % kTwos * 2;
  float2 sum{};
#pragma unroll
  for (int w = 0; w < kHalf; ++w) {
    const float2 more = *reinterpret_cast<const float2*>(&shared.parts[w][token][expert]);
    sum.x += more.x;
    sum.y += more.y;
  }
  const float inverse = shared.inverse[token];
  const auto to = static_cast<std::uint32_t>(token / kOwnTokens);
  const std::uint32_t logit = shared_address(&shared.logits[token % kOwnTokens][rank * kOwnExperts + expert]);
  const unsigned long long both = static_cast<unsigned long long>(__float_as_uint(sum.y * inverse)) << 32 |
                                  __float_as_uint(sum.x * inverse);
  peer_send(peer_address(logit, to), both, peer_address(shared_address(&shared.arrived), to));
}

/// Stores the normalised rows of this block's tokens, by the warps that do not choose.
__device__ inline void store_normed(const met::MoeRouterArgs& args, int token, int tokens, int rank,
                                    const float* inverse) {
  if (args.norm.parts == nullptr) return;
  const int vectors = args.hidden / kLanes;
  const int row = rank * kOwnTokens;
  const int all = min(kOwnTokens, tokens - token - row) * vectors;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kChooser * kWarp) {
    const std::int64_t at = static_cast<std::int64_t>(token + row) * vectors + i;
    Floats8 f = unpack(reinterpret_cast<const uint4*>(args.x)[at]);
#pragma unroll
    for (float& v : f.v) v *= inverse[row + i / vectors];
    reinterpret_cast<uint4*>(args.normed)[at] = pack(f);
  }
}

/// One token's experts, by a warp.
__device__ inline void choose_experts(const met::MoeRouterArgs& args, int token, const float* logits) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Chosen own = choose_row<kExperts / kWarp>([&](int expert) { return logits[expert]; }, args.experts,
                                                  args.top_k, args.renormalise != 0);
  if (lane >= args.top_k) return;
  args.choices[static_cast<std::int64_t>(token) * args.top_k + lane] = own.expert;
  args.pairs.weights[static_cast<std::int64_t>(token) * args.top_k + lane] = own.weight;
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void moe_choose(
    const __grid_constant__ met::MoeRouterArgs args) {
  __shared__ Shared shared;
  launch_dependents();
  const std::uint32_t arrived = shared_address(&shared.arrived);
  if (threadIdx.x == 0) {
    barrier_init(arrived, 1);
    barrier_init_fence();
    barrier_expect(arrived, sizeof(shared.logits));
  }
  __syncwarp();
  cluster_arrive_relaxed();
  const int rank = static_cast<int>(cluster_rank());
  const int token = static_cast<int>(blockIdx.y) * kTokens;
  const Logits logits(args, token, rank * kOwnExperts);
  Step steps[kEarly];
#pragma unroll
  for (int i = 0; i < kEarly; ++i) logits.load_weights(steps[i], Logits::k_of(i));
  const int tokens = args.counts->tokens;
  cluster_wait();
  wait_for_producers();
  if (token >= tokens) return;  // so do all blocks of the cluster
#pragma unroll
  for (int i = 0; i < kEarly; ++i) logits.load_x(steps[i], Logits::k_of(i), tokens);
  inverse_rms(args, token, tokens, shared.inverse);
  Tile sums[kGroups];
#pragma unroll
  for (int i = 0; i < kEarly; ++i) Logits::add(sums, steps[i]);
  for (int i = kEarly; Logits::k_of(i) < args.hidden; ++i) {
    Step step;
    logits.load_weights(step, Logits::k_of(i));
    logits.load_x(step, Logits::k_of(i), tokens);
    Logits::add(sums, step);
  }
  join_parts(sums, rank, shared);
  const int chosen = static_cast<int>(threadIdx.x) / kWarp - kChooser;
  if (chosen < 0) return store_normed(args, token, tokens, rank, shared.inverse);
  barrier_wait(arrived, 0);
  const int own = rank * kOwnTokens + chosen;
  if (token + own < tokens) choose_experts(args, token + own, shared.logits[chosen]);
}
