// Router of a mixture-of-experts layer: logits of all experts, the top_k of each token, and the step's pairs
// (token, expert) in order of experts.
//
// Formula  l[t, e] = sum_k x[t, k] * router[e, k] (/ rms(x[t]) where norm.parts is given); p = softmax_e(l); the top_k
//          largest l are chosen, of equals the lower e; weights[t, j] = p, divided by the sum of the chosen p where
//          `renormalise`. normed[t, k] = bf16(x[t, k] / rms(x[t])) where norm.parts is given.
// Pairs    places of an expert are neighbours; in one, tokens ascend. All integers: the same in every run.
// Shapes   MoeRouterArgs; hidden % 32 == 0, experts <= 512, top_k <= 32 and <= experts. counts->tokens rows; rows
//          beyond are neither read nor written.
// Rounding products of BF16 in FP32 (mma.sync), eight parts of k in a fixed order; softmax in FP32.
// Launch   256 threads, dependent, grid {ceil(tokens_max / 16), groups}. moe_router: groups = ceil(experts / 8), a block
//          takes 16 tokens and 8 experts, its warps share k. moe_router_wide: one group, a warp takes 8 experts after
//          8 experts. The last block of 16 tokens to finish chooses their experts, the last of all orders the pairs.
//          moe_logits: groups = ceil(experts / 8); only logits and normed are written, `moe_few` chooses.
// Cost     reads the router's weights once for each 16 tokens (from L2), x once a group.
#include <cstdint>

#include "met/moe_ops.h"
#include "moe_tile.cuh"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTokens = 16;  // of a block: the m side of the product
constexpr int kGroup = 8;    // experts of a product: the n side
constexpr int kExpertsMax = 512;
constexpr unsigned kAll = 0xffffffffU;

/// Sums x[tokens] . router[experts of the group at `first`] over k = kStep * (begin, begin + by, …).
__device__ inline Tile products(const met::MoeRouterArgs& args, int token, int tokens, int first, int begin,
                                int by) {
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4;
  const int at = static_cast<int>(threadIdx.x) % 4 * kLanes;
  const bool has_low = token + g < tokens;
  const bool has_high = token + g + 8 < tokens;
  const bool has_expert = first + g < args.experts;
  const auto* low = args.x + static_cast<std::int64_t>(token + g) * args.hidden + at;
  const auto* high = low + std::int64_t{8} * args.hidden;
  const auto* weight = args.router + static_cast<std::int64_t>(first + g) * args.hidden + at;
  Tile c;
#pragma unroll 4
  for (int k = begin * kStep; k < args.hidden; k += by * kStep) {
    const uint4 a = has_low ? *reinterpret_cast<const uint4*>(low + k) : uint4{};
    const uint4 b = has_high ? *reinterpret_cast<const uint4*>(high + k) : uint4{};
    const uint4 w = has_expert ? __ldg(reinterpret_cast<const uint4*>(weight + k)) : uint4{};
    multiply(c, a, b, w);
  }
  return c;
}

/// 1 / rms of the block's tokens; 1 where rows are normalised already. A warp takes a token after another.
__device__ inline void inverse_rms(const met::MoeRouterArgs& args, int token, int tokens, float* inverse) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int row = static_cast<int>(threadIdx.x) / kWarp; row < kTokens; row += kWarps) {
    const int t = token + row;
    float value = 1;
    if (args.norm.parts != nullptr && t < tokens) {
      float sum = 0;
      for (int i = lane; i < args.norm.count; i += kWarp) sum += args.norm.parts[t * args.norm.count + i];
      value = rsqrtf(warp_sum(sum) / static_cast<float>(args.hidden) + args.norm.eps);
    }
    if (lane == 0) inverse[row] = value;
  }
}

/// Stores the group's share of the normalised rows.
__device__ inline void store_normed(const met::MoeRouterArgs& args, int token, int tokens,
                                    const float* inverse) {
  if (args.norm.parts == nullptr) return;
  const int vectors = args.hidden / kLanes;
  const int all = min(kTokens, tokens - token) * vectors;
  for (int i = static_cast<int>(blockIdx.y * kThreads + threadIdx.x); i < all;
       i += static_cast<int>(gridDim.y) * kThreads) {
    const std::int64_t at = static_cast<std::int64_t>(token) * vectors + i;
    Floats8 f = unpack(reinterpret_cast<const uint4*>(args.x)[at]);
#pragma unroll
    for (float& v : f.v) v *= inverse[i / vectors];
    reinterpret_cast<uint4*>(args.normed)[at] = pack(f);
  }
}

__device__ inline void store_logits(const met::MoeRouterArgs& args, const Tile& c, int token, int tokens,
                                    int first, const float* inverse) {
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4;
  const int e = first + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8;
    if (token + row < tokens && e + i % 2 < args.experts)
      args.logits[static_cast<std::int64_t>(token + row) * args.experts + e + i % 2] = c.v[i] * inverse[row];
  }
}

/// One token's experts, by a warp. `places` holds the experts until the pairs are ordered.
__device__ inline void choose_experts(const met::MoeRouterArgs& args, int token) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Chosen own = choose_row<kExpertsMax / kWarp>(
      StoredLogits{args.logits + static_cast<std::int64_t>(token) * args.experts}, args.experts, args.top_k,
      args.renormalise != 0);
  if (lane >= args.top_k) return;
  args.pairs.places[static_cast<std::int64_t>(token) * args.top_k + lane] = own.expert;
  args.pairs.weights[static_cast<std::int64_t>(token) * args.top_k + lane] = own.weight;
}

struct OrderShared {
  int counts[kWarps][kExpertsMax];
};

/// Places of all pairs: a counting sort by one block; a warp takes a stretch of pairs, so that tokens stay in order.
__device__ inline void order_pairs(const met::MoeRouterArgs& args, int tokens, OrderShared& shared) {
  const int pairs = tokens * args.top_k;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int e = lane; e < args.experts; e += kWarp) shared.counts[warp][e] = 0;
  __syncwarp();
  const int stretch = (pairs + kThreads - 1) / kThreads * kWarp;
  const int begin = warp * stretch;
  const int end = min(begin + stretch, pairs);
#pragma unroll 4
  for (int i = begin + lane; i < end; i += kWarp)
    atomicAdd(&shared.counts[warp][__ldcg(args.pairs.places + i)], 1);
  __syncthreads();
  if (warp == 0) {
    int before = 0;
    for (int first = 0; first < args.experts; first += kWarp) {
      const int e = first + lane;
      int count = 0;
      for (int w = 0; e < args.experts && w < kWarps; ++w) count += shared.counts[w][e];
      int upto = count;
#pragma unroll
      for (int step = 1; step < kWarp; step *= 2) {
        const int lower = __shfl_up_sync(kAll, upto, step);
        if (lane >= step) upto += lower;
      }
      int place = before + upto - count;
      if (e < args.experts) args.pairs.begin[e] = place;
      for (int w = 0; e < args.experts && w < kWarps; ++w) {  // counts become the warps' first places
        const int own = shared.counts[w][e];
        shared.counts[w][e] = place;
        place += own;
      }
      before += __shfl_sync(kAll, upto, kWarp - 1);
    }
    if (lane == 0) args.pairs.begin[args.experts] = pairs;
  }
  __syncthreads();
  constexpr int kAhead = 8;  // loads of a lane under way
  for (int first = begin; first < end; first += kAhead * kWarp) {
    int experts[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = first + j * kWarp + lane;
      experts[j] = i < end ? __ldcg(args.pairs.places + i) : kExpertsMax;
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = first + j * kWarp + lane;
      const unsigned same = __match_any_sync(kAll, experts[j]);
      const int rank = __popc(same & ((1U << lane) - 1U));
      const int place = i < end ? shared.counts[warp][experts[j]] + rank : 0;
      __syncwarp();
      if (i < end) {
        if (rank == 0) shared.counts[warp][experts[j]] += __popc(same);
        args.pairs.places[i] = place;
        args.pairs.tokens[place] = i / args.top_k;
      }
      __syncwarp();
    }
  }
}

/// Whether this block is the last of `all` to arrive at the counter, which is zero again then.
__device__ inline bool last_to_arrive(std::int32_t* counter, int all) {
  __threadfence();
  __syncthreads();
  __shared__ int last;
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1) == all - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last != 0;
}

/// What follows the logits of the block's tokens.
__device__ inline void finish(const met::MoeRouterArgs& args, int token, int tokens, OrderShared& shared) {
  const int tiles = (tokens + kTokens - 1) / kTokens;
  if (!last_to_arrive(args.finished + blockIdx.x, static_cast<int>(gridDim.y))) return;
  for (int t = token + static_cast<int>(threadIdx.x) / kWarp; t < min(token + kTokens, tokens); t += kWarps)
    choose_experts(args, t);
  if (!last_to_arrive(args.finished + gridDim.x, tiles)) return;
  order_pairs(args, tokens, shared);
}

/// Adds the warps' shares of k in order and stores the logits.
__device__ inline void join_parts(const met::MoeRouterArgs& args, const Tile& part, int token, int tokens,
                                  int first, const float* inverse, float (*parts)[kTokens][kGroup]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4;
  const int e = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) parts[warp][g + i / 2 * 8][e + i % 2] = part.v[i];
  __syncthreads();
  if (warp != 0) return;
  Tile sum;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum.v[i] += parts[w][g + i / 2 * 8][e + i % 2];
  store_logits(args, sum, token, tokens, first, inverse);
}

/// Without tokens there are no pairs.
__device__ inline void no_pairs(const met::MoeRouterArgs& args) {
  if (blockIdx.x != 0 || blockIdx.y != 0) return;
  for (int e = static_cast<int>(threadIdx.x); e <= args.experts; e += kThreads) args.pairs.begin[e] = 0;
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void moe_router(
    const __grid_constant__ met::MoeRouterArgs args) {
  __shared__ union {
    float parts[kWarps][kTokens][kGroup];
    OrderShared order;
  } shared;
  __shared__ float inverse[kTokens];
  launch_dependents();
  wait_for_producers();
  const int tokens = args.counts->tokens;
  if (tokens == 0) return no_pairs(args);
  const int token = static_cast<int>(blockIdx.x) * kTokens;
  if (token >= tokens) return;
  inverse_rms(args, token, tokens, inverse);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int first = static_cast<int>(blockIdx.y) * kGroup;
  const Tile part = products(args, token, tokens, first, warp, kWarps);
  join_parts(args, part, token, tokens, first, inverse, shared.parts);
  store_normed(args, token, tokens, inverse);
  finish(args, token, tokens, shared.order);
}

extern "C" __global__ __launch_bounds__(kThreads) void moe_router_wide(
    const __grid_constant__ met::MoeRouterArgs args) {
  __shared__ OrderShared order;
  __shared__ float inverse[kTokens];
  launch_dependents();
  wait_for_producers();
  const int tokens = args.counts->tokens;
  if (tokens == 0) return no_pairs(args);
  const int token = static_cast<int>(blockIdx.x) * kTokens;
  if (token >= tokens) return;
  inverse_rms(args, token, tokens, inverse);
  __syncthreads();
  for (int first = static_cast<int>(threadIdx.x) / kWarp * kGroup; first < args.experts;
       first += kWarps * kGroup)
    store_logits(args, products(args, token, tokens, first, 0, 1), token, tokens, first, inverse);
  store_normed(args, token, tokens, inverse);
  finish(args, token, tokens, order);
}

/// Logits alone, for few tokens: the router's weights are on their way before the wait.
extern "C" __global__ __launch_bounds__(kThreads) void moe_logits(
    const __grid_constant__ met::MoeRouterArgs args) {
  constexpr int kEarly = 8;  // loads of a thread
  __shared__ float parts[kWarps][kTokens][kGroup];
  __shared__ float inverse[kTokens];
  launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4;
  const int at = static_cast<int>(threadIdx.x) % 4 * kLanes;
  const int first = static_cast<int>(blockIdx.y) * kGroup;
  const auto k_of = [&](int i) { return (warp + i * kWarps) * kStep; };
  uint4 weights[kEarly] = {};
  if (first + g < args.experts) {
    const auto* row = args.router + static_cast<std::int64_t>(first + g) * args.hidden + at;
#pragma unroll
    for (int i = 0; i < kEarly; ++i)
      if (k_of(i) < args.hidden) weights[i] = __ldg(reinterpret_cast<const uint4*>(row + k_of(i)));
  }
  const int tokens = args.counts->tokens;
  wait_for_producers();
  const int token = static_cast<int>(blockIdx.x) * kTokens;
  if (token >= tokens) return;
  const auto* low = args.x + static_cast<std::int64_t>(token + g) * args.hidden + at;
  const auto* high = low + std::int64_t{8} * args.hidden;
  uint4 lows[kEarly] = {};
  uint4 highs[kEarly] = {};
#pragma unroll
  for (int i = 0; i < kEarly; ++i) {
    if (k_of(i) >= args.hidden) continue;
    if (token + g < tokens) lows[i] = *reinterpret_cast<const uint4*>(low + k_of(i));
    if (token + g + 8 < tokens) highs[i] = *reinterpret_cast<const uint4*>(high + k_of(i));
  }
  inverse_rms(args, token, tokens, inverse);
  Tile part;
#pragma unroll
  for (int i = 0; i < kEarly; ++i)
    if (k_of(i) < args.hidden) multiply(part, lows[i], highs[i], weights[i]);
  const Tile rest = products(args, token, tokens, first, warp + kEarly * kWarps, kWarps);
#pragma unroll
  for (int i = 0; i < 4; ++i) part.v[i] += rest.v[i];
  join_parts(args, part, token, tokens, first, inverse, parts);
  store_normed(args, token, tokens, inverse);
}
