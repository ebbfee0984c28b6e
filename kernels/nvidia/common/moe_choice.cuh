// The experts of few tokens, chosen from the router's logits by every block that needs them: cheaper than to tell it.
#pragma once

#include <cstdint>

#include "met/moe_ops.h"
#include "moe_tile.cuh"

namespace {

constexpr int kChoiceExperts = 256;  // at most
constexpr int kChoicePairs = 256;    // tokens * top_k, at most
constexpr unsigned kAllLanes = 0xffffffffU;

/// What a block knows of the step's pairs. `Columns`: tokens at most, a multiple of 8.
template <int Columns>
struct Choice {
  unsigned touched[kChoiceExperts / kWarp];              // a bit for each expert
  int experts[kChoicePairs];                             // chosen by any token, ascending
  int chosen[kChoicePairs];                              // [tokens, top_k]
  float weights[kChoicePairs];                           // [tokens, top_k]
  alignas(8) std::int8_t slots[kChoicePairs * Columns];  // [experts, Columns]: the token's choice, or -1

  /// How many experts are chosen.
  __device__ int count() const {
    int sum = 0;
#pragma unroll
    for (unsigned word : touched) sum += __popc(word);
    return sum;
  }
  __device__ int place_of(int expert) const {
    int before = __popc(touched[expert / kWarp] & ((1U << expert % kWarp) - 1U));
    for (int w = 0; w < expert / kWarp; ++w) before += __popc(touched[w]);
    return before;
  }
};

/// One token's experts, by a warp.
template <int Columns>
__device__ inline void choose(const met::MoeFewArgs& args, int token, Choice<Columns>& choice) {
  constexpr int kEach = kChoiceExperts / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* logits = args.logits + static_cast<std::int64_t>(token) * args.experts;
  unsigned keys[kEach] = {};  // 0: none, or taken
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (lane + i * kWarp < args.experts) keys[i] = max(key_of(__ldcg(logits + lane + i * kWarp)), 1U);
  unsigned own = 0;  // of this lane's choice
  unsigned greatest = 0;
  float total = 0;
  for (int j = 0; j < args.top_k; ++j) {
    unsigned best = 0;
    int at = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (keys[i] > best) {
        best = keys[i];
        at = i;
      }
    const unsigned key = __reduce_max_sync(kAllLanes, best);
    const auto expert = static_cast<int>(
        __reduce_min_sync(kAllLanes, best == key ? static_cast<unsigned>(lane + at * kWarp) : kAllLanes));
    if (j == 0) {
      greatest = key;
      if (args.renormalise == 0) {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
          if (keys[i] != 0) total += __expf(value_of_key(keys[i]) - value_of_key(greatest));
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (expert == lane + i * kWarp) keys[i] = 0;
    if (lane == j) {
      own = key;
      choice.chosen[token * args.top_k + j] = expert;
      atomicOr(&choice.touched[expert / kWarp], 1U << expert % kWarp);
    }
  }
  const float p = lane < args.top_k ? __expf(value_of_key(own) - value_of_key(greatest)) : 0.0F;
  const float sum = warp_sum(args.renormalise != 0 ? p : total);
  if (lane < args.top_k) choice.weights[token * args.top_k + lane] = p / sum;
}

/// All threads of the block; `tokens` <= Columns. Ends with a barrier.
template <int Columns>
__device__ inline void choose_all(const met::MoeFewArgs& args, int tokens, Choice<Columns>& choice) {
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int pairs = tokens * args.top_k;
  if (thread < kChoiceExperts / kWarp) choice.touched[thread] = 0;
  auto* slots = reinterpret_cast<std::uint64_t*>(choice.slots);
  for (int i = thread; i < pairs * Columns / 8; i += threads) slots[i] = ~std::uint64_t{0};
  __syncthreads();
  for (int t = thread / kWarp; t < tokens; t += threads / kWarp) choose(args, t, choice);
  __syncthreads();
  for (int p = thread; p < pairs; p += threads) {
    const int place = choice.place_of(choice.chosen[p]);
    choice.experts[place] = choice.chosen[p];
    choice.slots[place * Columns + p / args.top_k] = static_cast<std::int8_t>(p % args.top_k);
  }
  __syncthreads();
}

}  // namespace
