// What the blocks of a cluster that share one row of logits have in common: the order of tokens, and sums and maxima
// over the row. Sums are of integers, so they have the same bits in any order.
#pragma once

#include <cstdint>

#include "cluster.cuh"

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kBlocks = 8;         // of a cluster; its shared memory holds a row
constexpr int kSums = 8;           // measures that one pass over a row gives
constexpr int kSlots = kSums + 1;  // at most, that one exchange brings
constexpr int kListMax = 256;      // candidates that one block ranks
constexpr unsigned kAll = 0xffffffffU;

using Word = unsigned long long;

/// A token's place: key of its logit above, complement of its id below. The larger one is the likelier, of equals the
/// lower id; no two are the same.
using Order = Word;

/// Rises with the value; -0 and +0 are the same.
__device__ inline unsigned key_of(float value) {
  const unsigned bits = __float_as_uint(__fadd_rn(value, 0.0F));
  return bits ^ (bits & 0x80000000U ? 0xffffffffU : 0x80000000U);
}
__device__ inline float value_of(unsigned key) {
  return __uint_as_float(key ^ (key & 0x80000000U ? 0x80000000U : 0xffffffffU));
}
__device__ inline Order order_of(unsigned key, unsigned id) { return static_cast<Order>(key) << 32 | ~id; }
__device__ inline unsigned key_in(Order order) { return static_cast<unsigned>(order >> 32); }
__device__ inline int id_in(Order order) { return static_cast<int>(~static_cast<unsigned>(order)); }

constexpr unsigned kRemovedKey = 0x007fffffU;  // key_of(-infinity)
/// Below every token that is left.
constexpr Order kLowest = static_cast<Order>(kRemovedKey + 1) << 32;

struct Shared {
  Word partial[kWarps][kSlots];
  Word ranks[2][kBlocks][kSlots];  // what each block of the cluster sent, two exchanges long
  Word totals[kSlots];
  Order list[kListMax];  // of block 0
  Word masses[kListMax];
  Order answer;
  unsigned list_size;
  std::uint64_t pieces[4];  // barriers of the copies of a row
};

struct Add {
  __device__ Word operator()(Word a, Word b) const { return a + b; }
};
struct Largest {
  __device__ Word operator()(Word a, Word b) const { return a > b ? a : b; }
};

/// This block's place in its cluster.
struct Team {
  Shared& shared;
  unsigned rank;
  unsigned parity = 0;

  /// Takes shared.partial[…][0, N) of every block; afterwards shared.totals[0, N) hold all blocks' and the returned
  /// array each block's, until the next exchange but one.
  template <int N, class Op>
  __device__ const Word (*exchange(Op op))[kSlots] {
    static_assert(N <= kSlots && N * kBlocks <= kThreads);
    __syncthreads();
    Word(*got)[kSlots] = shared.ranks[parity];
    if (threadIdx.x < N * kBlocks) {
      const unsigned i = threadIdx.x % N;
      Word sum = shared.partial[0][i];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum = op(sum, shared.partial[w][i]);
      peer_store(peer_address(shared_address(&got[rank][i]), threadIdx.x / N), sum);
    }
    cluster_sync();
    if (threadIdx.x < N) {
      Word sum = got[0][threadIdx.x];
#pragma unroll
      for (int r = 1; r < kBlocks; ++r) sum = op(sum, got[r][threadIdx.x]);
      shared.totals[threadIdx.x] = sum;
    }
    __syncthreads();
    parity ^= 1;
    return got;
  }

  /// The largest order of all threads; `flag`: whether any thread's is 1.
  __device__ Order largest(Order mine, unsigned& flag) {
    const unsigned key = __reduce_max_sync(kAll, key_in(mine));
    const unsigned low = __reduce_max_sync(kAll, key_in(mine) == key ? static_cast<unsigned>(mine) : 0U);
    const unsigned any = __reduce_or_sync(kAll, flag);
    if (threadIdx.x % 32 == 0) {
      shared.partial[threadIdx.x / 32][0] = static_cast<Order>(key) << 32 | low;
      shared.partial[threadIdx.x / 32][1] = any;
    }
    exchange<2>(Largest{});
    flag = static_cast<unsigned>(shared.totals[1]);
    return shared.totals[0];
  }

  /// Every block gets the value that the one caller anywhere in the cluster stored with tell().
  __device__ void tell(Word value) const {
#pragma unroll
    for (unsigned r = 0; r < kBlocks; ++r) peer_store(peer_address(shared_address(&shared.answer), r), value);
  }
};

/// Sums kSums values over a warp: lanes 4 i … 4 i + 3 get the sum of values[i].
__device__ inline Word warp_sums(Word (&values)[kSums]) {
  static_assert(kSums == 8);
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (int half = kSums / 2, step = 16; half > 0; half /= 2, step /= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const Word sent = upper ? values[i] : values[i + half];
      const Word kept = upper ? values[i + half] : values[i];
      values[i] = kept + __shfl_xor_sync(kAll, sent, step);
    }
  }
  Word sum = values[0];
  sum += __shfl_xor_sync(kAll, sum, 2);
  return sum + __shfl_xor_sync(kAll, sum, 1);
}

__device__ inline Word warp_sum(Word value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  return value;
}

}  // namespace
