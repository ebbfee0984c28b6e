// What the blocks of a cluster that share one row of logits have in common: the order of tokens, and sums and maxima
// over the row. Sums are of integers, so they have the same bits in any order.
#pragma once

#include <cstdint>

#include "barrier.cuh"
#include "met/cuda_ops.h"

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kBlocks = 8;         // of a cluster
constexpr int kSums = 8;           // measures that one pass over a row gives
constexpr int kSlots = kSums + 1;  // at most, that one exchange brings
constexpr int kListMax = 256;      // candidates that one block ranks
constexpr int kBins = 2048;        // of a row's histogram, the last for all that is far away
constexpr int kPiecesMax = 32;     // of a block's part of a row
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

/// A barrier that messages from the cluster count at, and how often it was waited for.
struct Mailbox {
  std::uint64_t barrier;
  unsigned rounds;
};

struct Shared {
  Word partial[kWarps][kSlots];
  Word ranks[2][kBlocks][kSlots];  // what each block of the cluster sent, two exchanges long
  Word totals[kSlots];
  Word answer;           // from any block
  Word local;            // this block's own
  Order own[kListMax];   // tokens that this block gathered
  Order list[kListMax];  // of block 0: those of all
  Word masses[kListMax];
  Word befores[kListMax];
  unsigned ranks_in_list[kListMax];
  Word inbox[kBlocks][kBins / kBlocks / 2];  // counts of this block's share of the bins, by block, two a word
  Word row_bins[kBins / 2];                  // of the row
  unsigned bins[kBins];                      // of the part
  std::uint64_t pieces[kPiecesMax];          // barriers of the copies of the part
  Mailbox exchanged[2], answered, listed, counted, summed;
  unsigned exchanges;
  unsigned own_size;
  met::SampleParams params;
};

struct Add {
  __device__ Word operator()(Word a, Word b) const { return a + b; }
};
struct Largest {
  __device__ Word operator()(Word a, Word b) const { return a > b ? a : b; }
};

/// The largest and the smallest token left of a row; `largest` 0: none is left.
struct Extent {
  Order largest;
  unsigned smallest_key;
  bool non_finite;
};

/// This block's place in its cluster. Blocks send each other words; every block waits for all that is sent to it, so
/// that none ends while a message is under way, and all go through the same exchanges.
struct Team {
  Shared& shared;
  unsigned rank;

  /// Sends a word to block `to`, which waits for it with receive().
  __device__ void send(Word& there, Word value, Mailbox& box, unsigned to) const {
    peer_send(peer_address(shared_address(&there), to), value,
              peer_address(shared_address(&box.barrier), to));
  }
  /// All threads wait until `bytes` have come; a block barrier lies between the sending and the next use of the box.
  __device__ void receive(Mailbox& box, unsigned bytes) const {
    if (threadIdx.x == 0) {
      barrier_expect(shared_address(&box.barrier), bytes);
      barrier_wait(shared_address(&box.barrier), box.rounds & 1U);
      ++box.rounds;
    }
    __syncthreads();
  }

  /// Takes shared.partial[…][0, N) of every block; afterwards shared.totals[0, N) hold all blocks' and the returned
  /// array each block's, until the next exchange but one.
  template <int N, class Op>
  __device__ const Word (*exchange(Op op) const)[kSlots] {
    static_assert(N <= kSlots && N * kBlocks <= kThreads && N <= 32);
    __syncthreads();
    const unsigned turn = shared.exchanges & 1U;
    Word(*got)[kSlots] = shared.ranks[turn];
    Mailbox& box = shared.exchanged[turn];
    if (threadIdx.x < N * kBlocks) {
      const unsigned i = threadIdx.x % N;
      Word sum = shared.partial[0][i];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum = op(sum, shared.partial[w][i]);
      send(got[rank][i], sum, box, threadIdx.x / N);
    }
    receive(box, N * kBlocks * sizeof(Word));
    if (threadIdx.x < N) {
      Word sum = got[0][threadIdx.x];
#pragma unroll
      for (int r = 1; r < kBlocks; ++r) sum = op(sum, got[r][threadIdx.x]);
      shared.totals[threadIdx.x] = sum;
    }
    if (threadIdx.x == 32) ++shared.exchanges;
    __syncthreads();
    return got;
  }

  /// One thread of the cluster tells all blocks a word, which they hear.
  __device__ void tell(Word value) const {
#pragma unroll
    for (unsigned r = 0; r < kBlocks; ++r) send(shared.answer, value, shared.answered, r);
  }
  __device__ Word hear() const {
    receive(shared.answered, sizeof(Word));
    return shared.answer;
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

/// Sums over the lanes up to and including this one.
template <class T>
__device__ inline T warp_prefix(T value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T lower = __shfl_up_sync(kAll, value, step);
    if (threadIdx.x % 32 >= static_cast<unsigned>(step)) value += lower;
  }
  return value;
}

/// Sum over the block, in every thread. Block barriers surround it.
__device__ inline Word block_sum(Shared& shared, Word value) {
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared.partial[threadIdx.x / 32][0] = value;
  __syncthreads();
  Word sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += shared.partial[w][0];
  return sum;
}

}  // namespace
