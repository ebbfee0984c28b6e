// From a row of logits to one token: what top k, min p and top p leave, and the draw. All three leave a prefix of the
// tokens in falling Order, so what is left is a single Order: the last one kept ("cut").
#pragma once

#include "sample_row.cuh"

namespace {

constexpr float kMassUnit = 0x1p44F;  // 2^19 tokens of weight 1 fit in 63 bits
constexpr float kLog2E = 1.44269504088896341F;
constexpr float kFarAway = 32;  // e^-32 is no mass any more

/// The part's tokens as keys in shared memory, and how they are weighed.
struct Tokens {
  const unsigned* keys;
  int first;
  int size;
  float max;
  float scale;  // log2(e) / temperature

  /// e^((l - max) / temperature) in units of 2^-44.
  __device__ Word mass(unsigned key) const {
    float weight;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(weight) : "f"((value_of(key) - max) * scale));
    return __float2ull_rn(weight * kMassUnit);
  }
};

__device__ inline Tokens tokens_of(const Part& part, const Extent& extent, float inverse_temperature) {
  return {.keys = reinterpret_cast<const unsigned*>(part.values),
          .first = part.first,
          .size = part.size,
          .max = value_of(key_in(extent.largest)),
          .scale = inverse_temperature * kLog2E};
}

// ---- a row's histogram ----

/// Bins by distance from the largest logit, evenly wide: they rise as logits fall. The last one holds all that is
/// farther away, removed tokens too.
struct BinScale {
  float max;
  float per_unit;  // bins of a unit of distance

  __device__ int bin(unsigned key) const {
    return min(static_cast<int>((max - value_of(key)) * per_unit), kBins - 1);
  }
};

/// Bins as fine as they can be for the row, or for `reach` where it is wider.
__device__ inline BinScale bins_of(const Extent& extent, float reach) {
  const float max = value_of(key_in(extent.largest));
  const float range = fminf(max - value_of(extent.smallest_key), reach);
  constexpr float kUsed = (kBins - 1) * (1 - 0x1p-16F);  // the smallest falls before the last bin
  return {max, range > 0 ? kUsed / range : 0.0F};
}

/// Counts the row's tokens in its bins: shared.row_bins, in every block.
__device__ inline void count_bins(Team team, const Tokens& tokens, const BinScale& scale) {
  constexpr unsigned kShare = kBins / kBlocks / 2;  // words
  static_assert(kShare <= kThreads);
  Shared& shared = team.shared;
  for (int b = static_cast<int>(threadIdx.x); b < kBins; b += kThreads) shared.bins[b] = 0;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < tokens.size; i += kThreads * kVector) {
    const uint4 keys = *reinterpret_cast<const uint4*>(tokens.keys + i);
    atomicAdd(shared.bins + scale.bin(keys.x), 1U);
    atomicAdd(shared.bins + scale.bin(keys.y), 1U);
    atomicAdd(shared.bins + scale.bin(keys.z), 1U);
    atomicAdd(shared.bins + scale.bin(keys.w), 1U);
  }
  __syncthreads();
  // Each block adds up its share of the bins, for all. Counts of a row fit in half a word: two bins at a time.
  for (unsigned w = threadIdx.x; w < kBins / 2; w += kThreads)
    team.send(shared.inbox[team.rank][w % kShare], reinterpret_cast<const Word*>(shared.bins)[w],
              shared.counted, w / kShare);
  team.receive(shared.counted, sizeof shared.inbox);
  if (threadIdx.x < kShare) {
    Word sum = 0;
#pragma unroll
    for (int r = 0; r < kBlocks; ++r) sum += shared.inbox[r][threadIdx.x];
#pragma unroll
    for (unsigned r = 0; r < kBlocks; ++r)
      team.send(shared.row_bins[team.rank * kShare + threadIdx.x], sum, shared.summed, r);
  }
  team.receive(shared.summed, sizeof shared.row_bins);
}

/// A run of bins: what is in them and before them.
struct BinRun {
  int begin;
  int end;  // not in it
  unsigned before;
  unsigned count;
};

/// Neighbouring bins of a thread, so that sums over the threads before are those of the bins before.
struct MyBins {
  static constexpr int kEach = kBins / kThreads;
  static_assert(kEach % 2 == 0);
  unsigned count[kEach];
  unsigned before;  // tokens in the bins before the first

  __device__ explicit MyBins(Shared& shared) {
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; i += 2) {
      const Word both = shared.row_bins[(first() + i) / 2];
      count[i] = static_cast<unsigned>(both);
      count[i + 1] = static_cast<unsigned>(both >> 32);
      sum += count[i] + count[i + 1];
    }
    const unsigned upto = warp_prefix(sum);
    __syncthreads();
    if (threadIdx.x % 32 == 31) shared.partial[threadIdx.x / 32][0] = upto;
    __syncthreads();
    before = upto - sum;
    for (unsigned w = 0; w < threadIdx.x / 32; ++w) before += static_cast<unsigned>(shared.partial[w][0]);
  }
  __device__ static int first() { return kEach * static_cast<int>(threadIdx.x); }
};

/// The bin that holds the k-th token.
__device__ inline BinRun bin_of_rank(Shared& shared, unsigned k) {
  const MyBins mine(shared);
  unsigned before = mine.before;
#pragma unroll
  for (int i = 0; i < MyBins::kEach; ++i) {
    if (before < k && k <= before + mine.count[i])
      shared.local = static_cast<Word>(before) << 32 | static_cast<unsigned>(MyBins::first() + i);
    before += mine.count[i];
  }
  __syncthreads();
  const auto bin = static_cast<int>(static_cast<unsigned>(shared.local));
  const auto count = static_cast<unsigned>(shared.row_bins[bin / 2] >> (bin % 2 * 32));
  const BinRun run{bin, bin + 1, static_cast<unsigned>(shared.local >> 32), count};
  __syncthreads();
  return run;
}

/// The bins around the token at which the mass reaches `share`, as far as the bins' middles tell: as many as hold
/// kListMax tokens, in which the exact search follows. `last`: the bin behind which nothing is kept.
__device__ inline BinRun bins_around_share(Shared& shared, const BinScale& scale, float tokens_scale,
                                           double share, int last) {
  const MyBins mine(shared);
  float mass[MyBins::kEach];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < MyBins::kEach; ++i) {
    const int bin = MyBins::first() + i;
    const float distance = (static_cast<float>(bin) + 0.5F) / fmaxf(scale.per_unit, 1e-30F);
    mass[i] = bin <= last && bin < kBins - 1
                  ? static_cast<float>(mine.count[i]) * exp2f(-distance * tokens_scale)
                  : 0;
    sum += mass[i];
  }
  const float upto = warp_prefix(sum);
  __syncthreads();
  if (threadIdx.x % 32 == 31) shared.partial[threadIdx.x / 32][0] = __float_as_uint(upto);
  if (threadIdx.x == 0) shared.local = 0;
  __syncthreads();
  float total = 0;
  float before = upto - sum;
#pragma unroll
  for (unsigned w = 0; w < kWarps; ++w) {
    const float warp = __uint_as_float(static_cast<unsigned>(shared.partial[w][0]));
    total += warp;
    if (w < threadIdx.x / 32) before += warp;
  }
  const float want = total * static_cast<float>(share);
  unsigned rank = mine.before;
#pragma unroll
  for (int i = 0; i < MyBins::kEach; ++i) {
    if (before < want && want <= before + mass[i])
      shared.local =
          rank + static_cast<unsigned>((want - before) / mass[i] * static_cast<float>(mine.count[i]));
    before += mass[i];
    rank += mine.count[i];
  }
  __syncthreads();
  const auto center = static_cast<int>(shared.local);  // rank of the token
  __syncthreads();
  // The bins that lie within half a list of it.
  unsigned begin = kBins;
  unsigned end = 0;
  auto from = static_cast<int>(mine.before);
#pragma unroll
  for (int i = 0; i < MyBins::kEach; ++i) {
    const int to = from + static_cast<int>(mine.count[i]);
    if (from >= center - kListMax / 2 && to <= center + kListMax / 2) {
      begin = min(begin, static_cast<unsigned>(MyBins::first() + i));
      end = max(end, static_cast<unsigned>(MyBins::first() + i + 1));
    }
    from = to;
  }
  begin = __reduce_min_sync(kAll, begin);
  end = __reduce_max_sync(kAll, end);
  if (threadIdx.x % 32 == 0) shared.partial[threadIdx.x / 32][0] = static_cast<Word>(begin) << 32 | end;
  __syncthreads();
  BinRun run{kBins, 0, 0, 0};
  for (int w = 0; w < kWarps; ++w) {
    run.begin = min(run.begin, static_cast<int>(shared.partial[w][0] >> 32));
    run.end = max(run.end, static_cast<int>(static_cast<unsigned>(shared.partial[w][0])));
  }
  __syncthreads();
  return run;
}

// ---- narrowing by comparison, for rows whose histogram does not tell enough ----

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
__device__ inline void measure_from(Team team, const Tokens& tokens, const Order (&at)[kSums], Order high) {
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

/// What top p asks of the mass.
__device__ inline Word share_of(double share, Word total) {
  return max(min(static_cast<Word>(ceil(share * static_cast<double>(total))), total), Word{1});
}

/// A window of at most kListMax tokens that holds the last one that a filter keeps, and the measure that it asks for.
struct Narrowed {
  Window window;
  Word want;
  bool all;  // everything is kept
};

/// Narrows the tokens from `floor` on: the filter keeps the shortest prefix with `want` tokens, or with `share` of the
/// mass. `whole`: the window shall begin at the likeliest token; want <= kListMax / 2 then.
template <Measure kMeasure>
__device__ __noinline__ Narrowed narrow(Team team, Tokens tokens, Order floor, Word want, double share,
                                        bool whole) {
  Window window{floor, order_of(key_of(tokens.max), 0) + 1, 0};
  const float unit = kMeasure == Measure::kMass ? 0.5F * kLog2E / tokens.scale : 0.5F;
  for (int round = 0;; ++round) {
    Order at[kSums];
    place_thresholds(window, round, tokens.max, unit, at);
    measure_from<kMeasure>(team, tokens, at, window.high);
    const Word* totals = team.shared.totals;
    if (kMeasure == Measure::kCount && round == 0 && totals[0] <= want) return {window, want, true};
    if (kMeasure == Measure::kMass && round == 0) want = share_of(share, totals[0]);
    // Measures fall with i: the last that suffices is the window's new low, the one behind it its high.
    const Word above = window.above;
    Word from_low = totals[0];
#pragma unroll
    for (int i = kSums - 1; i > 0; --i) {
      if (above + totals[i] >= want) continue;
      window.high = at[i];
      window.above = above + totals[i];
    }
#pragma unroll
    for (int i = 1; i < kSums; ++i) {
      if (above + totals[i] < want) continue;
      window.low = at[i];
      from_low = totals[i];
    }
    if (kMeasure == Measure::kMass) {
      if (totals[kSums] <= kListMax) return {window, want, false};
      continue;
    }
    const Word count = above + from_low;
    if (whole && count <= kListMax) return {{window.low, ~Order{0}, 0}, want, false};
    if (!whole && count - window.above <= kListMax) return {window, want, false};
  }
}

// ---- candidates in block 0 ----

/// Adds a token to those that this block gathers.
__device__ inline void gather(Shared& shared, Order order) {
  const unsigned slot = atomicAdd(&shared.own_size, 1U);
  if (slot < kListMax) shared.own[slot] = order;
}

/// How many; a block barrier lies between.
__device__ inline Word own_count(const Shared& shared) {
  return min(shared.own_size, static_cast<unsigned>(kListMax));
}

/// Brings what the blocks gathered, `counts[block][column]` each, into block 0's list. Returns how many there are.
__device__ inline unsigned deliver(Team team, const Word (*counts)[kSlots], int column) {
  Shared& shared = team.shared;
  unsigned before = 0;
  unsigned total = 0;
  for (unsigned r = 0; r < kBlocks; ++r) {
    const auto count = static_cast<unsigned>(counts[r][column]);
    if (r < team.rank) before += count;
    total += count;
  }
  total = min(total, static_cast<unsigned>(kListMax));
  const unsigned slot = before + threadIdx.x;
  if (threadIdx.x < static_cast<unsigned>(counts[team.rank][column]) && slot < kListMax)
    team.send(shared.list[slot], shared.own[threadIdx.x], shared.listed, 0);
  if (threadIdx.x == 0) shared.own_size = 0;
  if (team.rank == 0) team.receive(shared.listed, total * static_cast<unsigned>(sizeof(Order)));
  return total;
}

/// The same, when all have gathered.
__device__ inline unsigned deliver(Team team) {
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    team.shared.partial[threadIdx.x / 32][0] = threadIdx.x == 0 ? own_count(team.shared) : 0;
  return deliver(team, team.exchange<1>(Add{}), 0);
}

/// Brings the window's tokens, at most kListMax, into block 0's list, in any order.
__device__ inline unsigned collect(Team team, const Tokens& tokens, const Window& window) {
  each_token(tokens, window.low, window.high, [&](Order order, unsigned) { gather(team.shared, order); });
  return deliver(team);
}

/// The same for the tokens in bins from `begin` to before `end`.
__device__ inline unsigned collect_bins(Team team, const Tokens& tokens, const BinScale& scale, int begin,
                                        int end) {
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < tokens.size; i += kThreads * kVector) {
    const uint4 four = *reinterpret_cast<const uint4*>(tokens.keys + i);
    const unsigned keys[kVector] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane) {
      const int bin = scale.bin(keys[lane]);
      if (bin >= begin && bin < end && keys[lane] != kRemovedKey)
        gather(team.shared, order_of(keys[lane], static_cast<unsigned>(tokens.first + i + lane)));
    }
  }
  return deliver(team);
}

/// A token of block 0's list, one a thread, with what is likelier in the list.
struct Candidate {
  bool has;
  Order order;
  Word mass;
  Word before;    // mass of the likelier ones
  unsigned rank;  // their number
};

/// All threads of block 0, whose list has n tokens.
template <Measure kMeasure>
__device__ inline Candidate candidate(Shared& shared, const Tokens& tokens, unsigned n) {
  Candidate c{.has = threadIdx.x < n, .order = 0, .mass = 0, .before = 0, .rank = 0};
  if (c.has) {
    c.order = shared.list[threadIdx.x];
    c.mass = kMeasure == Measure::kMass ? tokens.mass(key_in(c.order)) : 1;
    shared.masses[threadIdx.x] = c.mass;
  }
  __syncthreads();
  // Neighbouring threads share a token's comparisons: as many as there are threads for.
  unsigned sharers = kThreads / kListMax;
  while (sharers < 16 && 2 * sharers * n <= kThreads) sharers *= 2;
  const unsigned token = threadIdx.x / sharers;
  const Order order = token < n ? shared.list[token] : ~Order{0};
  Word before = 0;
  unsigned rank = 0;
  for (unsigned i = threadIdx.x % sharers; i < n; i += sharers) {
    const bool likelier = shared.list[i] > order;
    before += likelier ? shared.masses[i] : 0;
    rank += likelier;
  }
  for (unsigned step = sharers / 2; step > 0; step /= 2) {
    before += __shfl_xor_sync(kAll, before, step);
    rank += __shfl_xor_sync(kAll, rank, step);
  }
  if (threadIdx.x % sharers == 0 && token < n) {
    shared.befores[token] = before;
    shared.ranks_in_list[token] = rank;
  }
  __syncthreads();
  if (c.has) {
    c.before = shared.befores[threadIdx.x];
    c.rank = shared.ranks_in_list[threadIdx.x];
  }
  return c;
}

/// The token of the list, of n, with which the measure, from the largest order on, reaches `want`, where `above` is that
/// of the tokens before the list's; 0 where it does so outside the list. In every block.
template <Measure kMeasure>
__device__ inline Order crossing(Team team, const Tokens& tokens, unsigned n, Word above, Word want) {
  if (team.rank == 0) {
    const Candidate c = candidate<kMeasure>(team.shared, tokens, n);
    const bool found = c.has && above + c.before < want && above + c.before + c.mass >= want;
    const bool somewhere = __syncthreads_or(found) != 0;
    if (found) team.tell(c.order);
    if (!somewhere && threadIdx.x == 0) team.tell(0);
  }
  return team.hear();
}

// ---- the draw ----

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

/// The mass that the drawn token's cumulative mass exceeds.
__device__ inline Word target_of(double u, Word total) {
  return min(static_cast<Word>(u * static_cast<double>(total)), total - 1);
}

/// Mass of the tokens from `cut` on over the row; shared.partial[warp][0] holds each warp's share of the part, whose
/// ids are one stretch a warp. Returns each block's sum in the first column.
__device__ inline const Word (*mass_by_stretch(Team team, const Tokens& tokens, Order cut,
                                               int stretch))[kSlots] {
  const int begin = static_cast<int>(threadIdx.x / 32) * stretch;
  const int end = min(begin + stretch, tokens.size);
  Word sum = 0;
#pragma unroll 2
  for (int i = begin + static_cast<int>(threadIdx.x % 32) * kVector; i < end; i += 32 * kVector) {
    const uint4 four = *reinterpret_cast<const uint4*>(tokens.keys + i);
    const unsigned keys[kVector] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane) {
      const Word mass = tokens.mass(keys[lane]);
      sum += order_of(keys[lane], static_cast<unsigned>(tokens.first + i + lane)) >= cut ? mass : 0;
    }
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
__device__ inline int draw(Team team, const Tokens& tokens, Order cut, double u) {
  const int stretch = stretch_of(tokens);
  const Word(*blocks)[kSlots] = mass_by_stretch(team, tokens, cut, stretch);
  const Word target = target_of(u, team.shared.totals[0]);
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
      const unsigned key = i + n < end ? tokens.keys[i + n] : kRemovedKey;
      masses[n] = order_of(key, static_cast<unsigned>(tokens.first + i + n)) >= cut ? tokens.mass(key) : 0;
      mine += masses[n];
    }
    const Word upto = warp_prefix(mine);
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

/// All filters and the draw, among the n tokens of block 0's list: the likeliest of the row, all that top k keeps among
/// them. The one thread that found the token gets its id, all others -1.
__device__ inline int draw_from_list(Team team, const Tokens& tokens, unsigned n,
                                     const met::SampleParams& params, Order cut, double u) {
  if (team.rank != 0) return -1;
  Shared& shared = team.shared;
  const Candidate c = candidate<Measure::kMass>(shared, tokens, n);
  bool kept = c.has && c.order >= cut && c.rank < static_cast<unsigned>(params.top_k);
  Word total = block_sum(shared, kept ? c.mass : 0);
  if (params.top_p < 1.0) {
    kept = kept && c.before < share_of(params.top_p, total);
    total = block_sum(shared, kept ? c.mass : 0);
  }
  if (c.has) shared.masses[threadIdx.x] = kept ? c.mass : 0;
  __syncthreads();
  if (!kept) return -1;
  const Word target = target_of(u, total);
  Word before = 0;  // of the lower ids
  for (unsigned i = 0; i < n; ++i)
    if (static_cast<unsigned>(shared.list[i]) > static_cast<unsigned>(c.order)) before += shared.masses[i];
  return before <= target && target < before + c.mass ? id_in(c.order) : -1;
}

}  // namespace
