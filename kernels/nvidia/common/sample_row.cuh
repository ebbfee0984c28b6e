// One row of logits: loading, and what changes single logits before a token is chosen. Formulas: docs/sampling.md.
#pragma once

#include "barrier.cuh"
#include "met/cuda_ops.h"
#include "sample_team.cuh"

namespace {

constexpr float kInfinity = __builtin_inff();
constexpr float kLargestFloat = 3.402823466e38F;
constexpr int kVector = 4;  // logits that a thread takes at a time

constexpr int kPiece = 2 * kThreads * kVector;  // tokens of one copy: two vectors a thread

/// The part of a row that a block has: ids [first, first + size), `first` a multiple of kVector. Its logits come to
/// `values` in shared memory, in pieces, so that work on the first begins while the last is under way.
struct Part {
  float* logits;
  float* values;  // room for a multiple of kVector; -infinity behind the last token
  int first;
  int size;
  bool aligned;  // the copy engine can fetch it
  float scale;
  float softcap;
  std::uint32_t barriers;  // of its pieces, 8 bytes each
  unsigned parity;         // of their phase that brings the logits in

  /// Begins to bring the logits in; nobody uses `values` any more, and all threads have passed async_proxy_fence and a
  /// block barrier since.
  __device__ void fetch() const {
    if (!aligned || threadIdx.x != 0) return;
    for (int begin = 0, n = 0; begin < size; begin += kPiece, ++n) {
      const auto bytes = static_cast<std::uint32_t>(min(kPiece, size - begin)) * 4U;
      const std::uint32_t barrier = barriers + static_cast<std::uint32_t>(n) * 8;
      barrier_expect(barrier, bytes);
      bulk_copy(shared_address(values + begin), logits + begin, bytes, barrier);
    }
  }
  /// The same for a second time.
  __device__ void fetch_again() {
    async_proxy_fence();
    __syncthreads();
    parity ^= 1U;
    fetch();
  }

  __device__ float finish(float l) const {
    if (scale != 1.0F) l = __fmul_rn(l, scale);
    if (softcap != 0.0F) l = __fmul_rn(softcap, tanhf(__fdiv_rn(l, softcap)));
    return l;
  }
  /// Logits i … i + 3 as the model means them.
  __device__ float4 load(int i) const {
    float4 v = make_float4(-kInfinity, -kInfinity, -kInfinity, -kInfinity);
    if (aligned) {
      v = *reinterpret_cast<const float4*>(values + i);
    } else {
      v.x = logits[i];
      if (i + 1 < size) v.y = logits[i + 1];
      if (i + 2 < size) v.z = logits[i + 2];
      if (i + 3 < size) v.w = logits[i + 3];
    }
    if (scale == 1.0F && softcap == 0.0F) return v;
    v.x = finish(v.x);
    if (i + 1 < size) v.y = finish(v.y);
    if (i + 2 < size) v.z = finish(v.z);
    if (i + 3 < size) v.w = finish(v.w);
    return v;
  }
  /// Calls f(i, logits i … i + 3 as the model means them) for this thread's tokens as they come in.
  template <class F>
  __device__ void each(F f) const {
    std::uint32_t barrier = barriers;
    for (int begin = 0; begin < size; begin += kPiece, barrier += 8) {
      if (aligned) barrier_wait(barrier, parity);
#pragma unroll
      for (int n = 0; n < kPiece; n += kThreads * kVector) {
        const int i = begin + n + static_cast<int>(threadIdx.x) * kVector;
        if (i < size) f(i, load(i));
      }
    }
  }
};

/// Tokens of a block's part of a row.
__device__ inline int part_size(const met::SampleArgs& args) {
  return (static_cast<int>(args.vocabulary) + kBlocks * kVector - 1) / (kBlocks * kVector) * kVector;
}

/// The best token of a thread: ids come in ascending order, so a later one must be larger.
struct Best {
  float value = -kInfinity;
  int id = -1;
  unsigned non_finite = 0;
  unsigned smallest_key = kAll;  // of the tokens that store_keys saw

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

/// Over the row.
__device__ inline Extent extent_of(Team team, const Best& best) {
  const Order mine = best.order();
  const unsigned key = __reduce_max_sync(kAll, key_in(mine));
  const unsigned low = __reduce_max_sync(kAll, key_in(mine) == key ? static_cast<unsigned>(mine) : 0U);
  const unsigned smallest = __reduce_min_sync(kAll, best.smallest_key);
  const unsigned non_finite = __reduce_or_sync(kAll, best.non_finite);
  if (threadIdx.x % 32 == 0) {
    Word* partial = team.shared.partial[threadIdx.x / 32];
    partial[0] = static_cast<Order>(key) << 32 | low;
    partial[1] = ~smallest;
    partial[2] = non_finite;
  }
  team.exchange<3>(Largest{});
  const Word* totals = team.shared.totals;
  return {totals[0], ~static_cast<unsigned>(totals[1]), totals[2] != 0};
}

/// The largest logit as the model gives it; its smallest is not looked for.
__device__ inline Extent largest_logit(Team team, const Part& part) {
  Best best;
  part.each([&](int i, float4 v) { best.see(v, part.first + i); });
  return extent_of(team, best);
}

/// Penalties, in the reference's arithmetic. `count` as SampleArgs::counts.
__device__ inline float penalize(float l, const met::SampleParams& params, std::uint32_t count) {
  if (count == 0) return l;
  if (params.repetition != 1.0)
    l = static_cast<float>(l > 0.0F ? __ddiv_rn(l, params.repetition) : __dmul_rn(l, params.repetition));
  const std::uint32_t in_output = count & ~met::kSampleInPrompt;
  if (in_output == 0) return l;
  return static_cast<float>(
      __dsub_rn(__dsub_rn(l, __dmul_rn(params.frequency, static_cast<double>(in_output))), params.presence));
}

/// What a row's request removes from and adds to its logits.
struct Processors {
  const met::SampleParams& params;
  const std::uint32_t* mask;     // or null
  const std::uint32_t* allowed;  // or null
  const std::int32_t* end_ids;
  const met::SampleBias* biases;
  const std::uint32_t* counts;  // or null
  int end_count;                // removed now

  __device__ bool none() const {
    return !mask && !allowed && !counts && end_count == 0 && params.biases == 0;
  }
};

__device__ inline Processors processors_of(const met::SampleArgs& args, const met::SampleRow& work,
                                           const met::SampleParams& params) {
  const std::int64_t words = (args.vocabulary + 31) / 32;
  const std::int64_t row = work.device_row;
  return {.params = params,
          .mask = work.mask >= 0 ? args.masks + work.mask * words : nullptr,
          .allowed = params.modes & met::kSampleAllowed ? args.allowed + row * words : nullptr,
          .end_ids = args.end_ids + row * met::kSampleEndMax,
          .biases = args.biases + row * met::kSampleBiasMax,
          .counts = params.modes & met::kSampleCounts ? args.counts + row * args.vocabulary : nullptr,
          .end_count = work.position < params.end_position ? params.end_ids : 0};
}

/// Keeps those of four logits, the first of which is token `id`, whose bits are set.
__device__ inline float4 masked(float4 v, const std::uint32_t* words, int id) {
  const std::uint32_t bits = words[id / 32] >> (id % 32);
  return make_float4(bits & 1U ? v.x : -kInfinity, bits & 2U ? v.y : -kInfinity, bits & 4U ? v.z : -kInfinity,
                     bits & 8U ? v.w : -kInfinity);
}

/// Applies masks, end ids and biases to the part's values.
__device__ inline void remove_and_bias(const Part& part, const Processors& by) {
  float* values = part.values;
  part.each([&](int i, float4 v) {
    if (by.mask) v = masked(v, by.mask, part.first + i);
    if (by.allowed) v = masked(v, by.allowed, part.first + i);
    *reinterpret_cast<float4*>(values + i) = v;
  });
  __syncthreads();
  const auto mine = [&](int id) { return id >= part.first && id < part.first + part.size; };
  for (int i = static_cast<int>(threadIdx.x); i < by.end_count; i += kThreads)
    if (mine(by.end_ids[i])) values[by.end_ids[i] - part.first] = -kInfinity;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < by.params.biases; i += kThreads) {
    const met::SampleBias bias = by.biases[i];
    if (mine(bias.id)) values[bias.id - part.first] = __fadd_rn(values[bias.id - part.first], bias.bias);
  }
  __syncthreads();
}

/// Four logits of a part, from token i on, become keys; NaN that of a removed token, +infinity the largest float's.
__device__ inline void store_keys(const Part& part, int i, const float (&v)[kVector], Best& best) {
  unsigned keys[kVector];
#pragma unroll
  for (int lane = 0; lane < kVector; ++lane) {
    best.see(v[lane], part.first + i + lane);
    keys[lane] = v[lane] != v[lane] ? kRemovedKey : key_of(fminf(v[lane], kLargestFloat));
    if (keys[lane] != kRemovedKey) best.smallest_key = min(best.smallest_key, keys[lane]);
  }
  *reinterpret_cast<uint4*>(part.values + i) = make_uint4(keys[0], keys[1], keys[2], keys[3]);
}

/// Penalties, repair, and the largest: values become keys.
__device__ inline Best penalized_keys(const Part& part, const Processors& by) {
  Best best;
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < part.size; i += kThreads * kVector) {
    const float4 four = *reinterpret_cast<const float4*>(part.values + i);
    float v[kVector] = {four.x, four.y, four.z, four.w};
    if (by.counts) {
#pragma unroll
      for (int lane = 0; lane < kVector; ++lane)
        if (i + lane < part.size) v[lane] = penalize(v[lane], by.params, by.counts[part.first + i + lane]);
    }
    store_keys(part, i, v, best);
  }
  return best;
}

/// The logits as the model gives them become keys.
__device__ inline Best raw_keys(const Part& part) {
  Best best;
  part.each([&](int i, float4 four) {
    const float v[kVector] = {four.x, four.y, four.z, four.w};
    store_keys(part, i, v, best);
  });
  return best;
}

}  // namespace
