// From a row of logits to one token: what top k, min p and top p leave, and the draw. All three leave a prefix of the
// tokens in falling Order, so what is left is a single Order: the last one kept ("cut").
#pragma once

#include "sample_row.cuh"

namespace {

constexpr float kMassUnit = 0x1p44F;  // 2^19 tokens of weight 1 fit in 63 bits

/// e^x for x <= 0 in the reference's arithmetic (src/sampling/vector_math.cpp): the same bits.
__device__ inline float exponential(float x) {
  if (x < -87.0F) return 0.0F;
  const float shifted = __fadd_rn(__fmul_rn(x, 1.44269504088896341F), 12582912.0F);
  const float n = __fadd_rn(shifted, -12582912.0F);
  const float r = __fadd_rn(__fadd_rn(x, -__fmul_rn(n, 0.693359375F)), __fmul_rn(n, 2.12194440054690583e-4F));
  float p = __fadd_rn(__fmul_rn(1.9875691500e-4F, r), 1.3981999507e-3F);
  p = __fadd_rn(__fmul_rn(p, r), 8.3334519073e-3F);
  p = __fadd_rn(__fmul_rn(p, r), 4.1665795894e-2F);
  p = __fadd_rn(__fmul_rn(p, r), 1.6666665459e-1F);
  p = __fadd_rn(__fmul_rn(p, r), 5.0000001201e-1F);
  p = __fadd_rn(__fadd_rn(__fmul_rn(__fmul_rn(p, r), r), r), 1.0F);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
}

/// The part's tokens as keys in shared memory, and how they are weighed.
struct Tokens {
  const unsigned* keys;
  int first;
  int size;
  float max;
  float scale;  // 1 / temperature

  __device__ Word mass(unsigned key) const {
    const float weight = exponential(__fmul_rn(__fadd_rn(value_of(key), -max), scale));
    return __float2ull_rn(weight * kMassUnit);
  }
};

enum class Measure { kCount, kMass };

/// Tokens in [low, high) are still in question; `above` is the measure of those from `high` on.
struct Window {
  Order low;
  Order high;
  Word above;
};

/// Seven orders between low and high, rising: the first time by distance from the maximum, so that far outliers cost
/// one round, then evenly in value, and where that does not get on, evenly in order.
__device__ inline void place_thresholds(const Window& window, int round, float max_value, float unit,
                                        Order (&at)[kSums]) {
  constexpr int kRoundsByValue = 6;
  const float low = value_of(key_in(window.low));
  const float high = min(value_of(key_in(window.high)), max_value);
  const bool by_value = round < kRoundsByValue && low > -kLargestFloat / 2 && high < kLargestFloat / 2;
  at[0] = window.low;
#pragma unroll
  for (int i = 1; i < kSums; ++i) {
    float value = max_value - unit * static_cast<float>(1 << (kSums - 1 - i));
    if (round > 0) value = low + (high - low) * (static_cast<float>(i) / kSums);
    const Order order = round == 0 || by_value ? order_of(key_of(value), kAll)
                                               : window.low + (window.high - window.low) / kSums * i;
    at[i] = min(max(order, at[i - 1]), window.high);
  }
}

/// Calls f(order, key) for this thread's tokens in [low, high).
template <class F>
__device__ inline void each_token(const Tokens& tokens, Order low, Order high, F f) {
  const unsigned low_key = key_in(low);
  const unsigned high_key = key_in(high);
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < tokens.size; i += kThreads * kVector) {
    const uint4 four = *reinterpret_cast<const uint4*>(tokens.keys + i);
    const unsigned keys[kVector] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane) {
      if (keys[lane] < low_key || keys[lane] > high_key) continue;
      const Order order = order_of(keys[lane], static_cast<unsigned>(tokens.first + i + lane));
      if (order >= low && order < high) f(order, keys[lane]);
    }
  }
}

/// Measures of the tokens in [at[i], high) over the row, in shared.totals; behind them the number of those in [at[0], high).
template <Measure kMeasure>
__device__ inline void measure_from(Team& team, const Tokens& tokens, const Order (&at)[kSums], Order high) {
  Word sums[kSums] = {};
  unsigned inside = 0;
  each_token(tokens, at[0], high, [&](Order order, unsigned key) {
    const Word m = kMeasure == Measure::kMass ? tokens.mass(key) : 1;
    ++inside;
    sums[0] += m;
#pragma unroll
    for (int t = 1; t < kSums; ++t) sums[t] += order >= at[t] ? m : 0;
  });
  const Word sum = warp_sums(sums);
  inside = __reduce_add_sync(kAll, inside);
  constexpr unsigned kLanes = 32 / kSums;
  const unsigned lane = threadIdx.x % 32;
  Word* partial = team.shared.partial[threadIdx.x / 32];
  if (lane % kLanes == 0) partial[lane / kLanes] = sum;
  if (lane == 0) partial[kSums] = inside;
  team.exchange<kSlots>(Add{});
}

/// What a filter keeps: the shortest prefix with at least `count` tokens, or with `share` of the mass. Mass fills in `want`.
struct Goal {
  Word want;  // of the measure
  double share;
  bool whole;  // the window shall hold all of the prefix: want <= kListMax / 2
};

/// Narrows the tokens from `floor` on to a window of at most kListMax that holds the last one kept. False: all are kept.
template <Measure kMeasure>
__device__ inline bool narrow(Team& team, const Tokens& tokens, Order floor, Goal& goal, Window& window) {
  window = {floor, order_of(key_of(tokens.max), 0) + 1, 0};
  const float unit = kMeasure == Measure::kMass ? 0.5F / tokens.scale : 0.5F;
  for (int round = 0;; ++round) {
    Order at[kSums];
    place_thresholds(window, round, tokens.max, unit, at);
    measure_from<kMeasure>(team, tokens, at, window.high);
    const Word* totals = team.shared.totals;
    if (kMeasure == Measure::kCount && round == 0 && totals[0] <= goal.want) return false;
    if (kMeasure == Measure::kMass && round == 0)
      goal.want =
          max(min(static_cast<Word>(ceil(goal.share * static_cast<double>(totals[0]))), totals[0]), Word{1});
    // Measures fall with i: the last that suffices is the window's new low, the one behind it its high.
    const Window before = window;
    Word from_low = totals[0];
#pragma unroll
    for (int i = kSums - 1; i > 0; --i) {
      if (before.above + totals[i] >= goal.want) continue;
      window.high = at[i];
      window.above = before.above + totals[i];
    }
#pragma unroll
    for (int i = 1; i < kSums; ++i) {
      if (before.above + totals[i] < goal.want) continue;
      window.low = at[i];
      from_low = totals[i];
    }
    if (kMeasure == Measure::kMass) {
      if (totals[kSums] <= kListMax) return true;
      continue;
    }
    const Word count = before.above + from_low;
    if (goal.whole && count <= kListMax) {
      window = {window.low, ~Order{0}, 0};
      return true;
    }
    if (!goal.whole && count - window.above <= kListMax) return true;
  }
}

/// Brings the window's tokens, at most kListMax, into block 0's list, in any order. Returns how many, there.
__device__ inline unsigned collect(Team& team, const Tokens& tokens, const Window& window) {
  const std::uint32_t size = peer_address(shared_address(&team.shared.list_size), 0);
  const std::uint32_t list = peer_address(shared_address(team.shared.list), 0);
  each_token(tokens, window.low, window.high, [&](Order order, unsigned) {
    const std::uint32_t slot = peer_add(size, 1);
    if (slot < kListMax) peer_store(list + slot * static_cast<std::uint32_t>(sizeof(Order)), order);
  });
  cluster_sync();
  return min(team.shared.list_size, static_cast<unsigned>(kListMax));
}

/// The token of the window with which the measure, from the largest order on, reaches `want`.
template <Measure kMeasure>
__device__ inline Order crossing(Team& team, const Tokens& tokens, const Window& window, Word want) {
  const unsigned n = collect(team, tokens, window);
  Shared& shared = team.shared;
  if (team.rank == 0) {
    const bool has = threadIdx.x < n;
    const Order mine = has ? shared.list[threadIdx.x] : 0;
    const Word mass = !has ? 0 : kMeasure == Measure::kMass ? tokens.mass(key_in(mine)) : 1;
    if (has) shared.masses[threadIdx.x] = mass;
    __syncthreads();
    if (threadIdx.x == 0) shared.list_size = 0;
    Word before = window.above;
    for (unsigned i = 0; has && i < n; ++i)
      if (shared.list[i] > mine) before += shared.masses[i];
    if (has && before < want && before + mass >= want) team.tell(mine);
  }
  cluster_sync();
  return shared.answer;
}

/// Philox 4x32-10 (src/sampling/philox.h): a number in [0, 1) with 53 bits; key = seed, counter = (position, choice,
/// purpose 0, draw 0).
__device__ inline double uniform(std::uint64_t seed, std::uint32_t position, std::uint32_t choice) {
  uint4 c = make_uint4(position, choice, 0, 0);
  auto low = static_cast<std::uint32_t>(seed);
  auto high = static_cast<std::uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c.x;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c.z;
    c = make_uint4(static_cast<std::uint32_t>(b >> 32) ^ c.y ^ low, static_cast<std::uint32_t>(b),
                   static_cast<std::uint32_t>(a >> 32) ^ c.w ^ high, static_cast<std::uint32_t>(a));
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
  const std::uint64_t bits = (static_cast<std::uint64_t>(c.y) << 32 | c.x) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

/// Mass of the tokens from `cut` on over the row; shared.partial[warp][0] holds each warp's share of the part, whose
/// ids are one stretch a warp. Returns each block's sum in the first column.
__device__ inline const Word (*mass_by_stretch(Team& team, const Tokens& tokens, Order cut,
                                               int stretch))[kSlots] {
  const int begin = static_cast<int>(threadIdx.x / 32) * stretch;
  const int end = min(begin + stretch, tokens.size);
  const unsigned cut_key = key_in(cut);
  Word sum = 0;
  for (int i = begin + static_cast<int>(threadIdx.x % 32) * kVector; i < end; i += 32 * kVector) {
    const uint4 four = *reinterpret_cast<const uint4*>(tokens.keys + i);
    const unsigned keys[kVector] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane)
      if (keys[lane] >= cut_key &&
          order_of(keys[lane], static_cast<unsigned>(tokens.first + i + lane)) >= cut)
        sum += tokens.mass(keys[lane]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) team.shared.partial[threadIdx.x / 32][0] = sum;
  return team.exchange<1>(Add{});
}

/// Ids of a warp's stretch: whole rounds of the warp, so that only the last stretch is ragged.
__device__ inline int stretch_of(const Tokens& tokens) {
  constexpr int kRound = 32 * kVector;
  return (tokens.size + kWarps * kRound - 1) / (kWarps * kRound) * kRound;
}

/// The first id, ascending, with which the mass of the tokens from `cut` on exceeds u times all of it. The one lane of
/// the cluster that found it gets it, all others -1.
__device__ inline int draw(Team& team, const Tokens& tokens, Order cut, double u) {
  const int stretch = stretch_of(tokens);
  const Word(*blocks)[kSlots] = mass_by_stretch(team, tokens, cut, stretch);
  const Word total = team.shared.totals[0];
  const Word target = min(static_cast<Word>(u * static_cast<double>(total)), total - 1);
  Word before = 0;
  for (unsigned r = 0; r < team.rank; ++r) before += blocks[r][0];
  const unsigned warp = threadIdx.x / 32;
  for (unsigned w = 0; w < warp; ++w) before += team.shared.partial[w][0];
  if (target < before || target - before >= team.shared.partial[warp][0]) return -1;
  // In this warp's stretch.
  const unsigned lane = threadIdx.x % 32;
  const int end = min(static_cast<int>(warp + 1) * stretch, tokens.size);
  for (int i = static_cast<int>(warp) * stretch + static_cast<int>(lane) * kVector;; i += 32 * kVector) {
    Word masses[kVector];
    Word mine = 0;
#pragma unroll
    for (int n = 0; n < kVector; ++n) {
      const unsigned key = i + n < end ? tokens.keys[i + n] : 0U;
      masses[n] = key != 0 && order_of(key, static_cast<unsigned>(tokens.first + i + n)) >= cut
                      ? tokens.mass(key)
                      : 0;
      mine += masses[n];
    }
    Word upto = mine;  // of the lanes up to this one
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const Word lower = __shfl_up_sync(kAll, upto, step);
      if (lane >= static_cast<unsigned>(step)) upto += lower;
    }
    const unsigned beyond = __ballot_sync(kAll, before + upto > target);
    if (beyond == 0) {
      before += __shfl_sync(kAll, upto, 31);
      continue;
    }
    if (lane != static_cast<unsigned>(__ffs(static_cast<int>(beyond)) - 1)) return -1;
    Word sum = before + upto - mine;
    int found = 0;
#pragma unroll
    for (int n = 0; n < kVector; ++n) {
      if (sum <= target) found = n;
      sum += masses[n];
    }
    return tokens.first + i + found;
  }
}

}  // namespace
