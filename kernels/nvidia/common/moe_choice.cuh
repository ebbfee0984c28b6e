// The experts of few tokens, chosen from the router's logits by every block that needs them: cheaper than to tell it.
#pragma once

#include <cstdint>

#include "met/moe_ops.h"
#include "moe_tile.cuh"

namespace {

// Loops are not unrolled: this runs once a launch, and its code is fetched cold in every one.

constexpr int kChoiceExperts = 128;  // at most
constexpr int kChoicePairs = 256;    // tokens * top_k, at most
constexpr int kUnitPairs = 8;        // of an expert in a unit, at most

/// Pairs [first, first + count) of an expert.
struct Unit {
  std::int16_t expert, first, count;
};
struct Pair {
  int token;
  float weight;
};

/// What a block knows of the step's pairs (token, expert), which lie in order of experts, then of tokens.
struct Choice {
  unsigned tokens[kChoiceExperts];     // that chose each expert: a bit each
  std::int16_t first[kChoiceExperts];  // pair of each expert
  std::int16_t chosen[kChoicePairs];   // [tokens, top_k]
  float weights[kChoicePairs];         // [tokens, top_k]
  Pair pairs[kChoicePairs];
  Unit units[kChoicePairs];             // ascending
  std::int16_t experts[kChoicePairs];   // that any token chose, ascending
  int sums[3][kChoiceExperts / kWarp];  // pairs, units, experts of each 32 experts
  int unit_count, expert_count;

  /// Place of a token's pair with an expert that it chose.
  __device__ int pair_of(int expert, int token) const {
    return first[expert] + __popc(tokens[expert] & ((1U << token) - 1U));
  }
};

__device__ inline int sum_up_to(int value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int lower = __shfl_up_sync(0xffffffffU, value, step);
    if (lane >= step) value += lower;
  }
  return value;
}

/// One token's experts, by a warp.
__device__ inline void choose(const met::MoeFewArgs& args, int token, Choice& choice) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Chosen own = choose_row<kChoiceExperts / kWarp>(
      StoredLogits{args.logits + static_cast<std::int64_t>(token) * args.experts}, args.experts, args.top_k,
      args.renormalise != 0);
  if (lane >= args.top_k) return;
  choice.chosen[token * args.top_k + lane] = static_cast<std::int16_t>(own.expert);
  choice.weights[token * args.top_k + lane] = own.weight;
  atomicOr(&choice.tokens[own.expert], 1U << token);
}

/// Order of the experts' pairs: a warp takes 32 experts after 32. Ends with a barrier.
__device__ inline void order_experts(int experts, Choice& choice) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int chunks = (experts + kWarp - 1) / kWarp;
#pragma unroll 1
  for (int c = warp; c < chunks; c += warps) {
    const int count = __popc(choice.tokens[c * kWarp + lane]);
    const int pairs = sum_up_to(count);
    const int units = sum_up_to((count + kUnitPairs - 1) / kUnitPairs);
    const int touched = __popc(__ballot_sync(0xffffffffU, count > 0));
    if (lane != kWarp - 1) continue;
    choice.sums[0][c] = pairs;
    choice.sums[1][c] = units;
    choice.sums[2][c] = touched;
  }
  __syncthreads();
#pragma unroll 1
  for (int c = warp; c < chunks; c += warps) {
    int before[3] = {};
#pragma unroll 1
    for (int i = 0; i < c; ++i)
#pragma unroll
      for (int j = 0; j < 3; ++j) before[j] += choice.sums[j][i];
    const int expert = c * kWarp + lane;
    const int count = __popc(choice.tokens[expert]);
    const int units = (count + kUnitPairs - 1) / kUnitPairs;
    const int first = before[0] + sum_up_to(count) - count;
    const int unit = before[1] + sum_up_to(units) - units;
    const unsigned touched = __ballot_sync(0xffffffffU, count > 0);
    choice.first[expert] = static_cast<std::int16_t>(first);
#pragma unroll 1
    for (int i = 0; i < units; ++i)
      choice.units[unit + i] = {static_cast<std::int16_t>(expert),
                                static_cast<std::int16_t>(first + i * kUnitPairs),
                                static_cast<std::int16_t>(min(kUnitPairs, count - i * kUnitPairs))};
    const int place = before[2] + __popc(touched & ((1U << lane) - 1U));
    if (count > 0) choice.experts[place] = static_cast<std::int16_t>(expert);
    if (c != chunks - 1 || lane != kWarp - 1) continue;
    choice.unit_count = unit + units;
    choice.expert_count = place + (count > 0 ? 1 : 0);
  }
  __syncthreads();
}

/// All threads of the block; at most 32 tokens. Ends with a barrier.
__device__ inline void choose_all(const met::MoeFewArgs& args, int tokens, Choice& choice) {
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int i = thread; i < kChoiceExperts; i += threads) choice.tokens[i] = 0;
  __syncthreads();
#pragma unroll 1
  for (int t = thread / kWarp; t < tokens; t += threads / kWarp) choose(args, t, choice);
  __syncthreads();
  order_experts(args.experts, choice);
}

/// Tokens and weights of the pairs, behind choose_all. Ends with a barrier.
__device__ inline void list_pairs(const met::MoeFewArgs& args, int tokens, Choice& choice) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < tokens * args.top_k; i += static_cast<int>(blockDim.x)) {
    const int token = i / args.top_k;
    choice.pairs[choice.pair_of(choice.chosen[i], token)] = {token, choice.weights[i]};
  }
  __syncthreads();
}

}  // namespace
