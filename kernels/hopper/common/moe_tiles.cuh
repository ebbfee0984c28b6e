// Which tiles of a mixture's products there are, and the order of the pairs where the router leaves it to `moe_gemm`.
#pragma once

#include "async.cuh"
#include "met/moe_ops.h"
#include "pdl.cuh"

namespace {

constexpr int kMoeExpertsMax = 512;
constexpr int kMaskWords = met::kMoeOrderTokens / 32;

/// Bytes of shared memory behind a ring.
constexpr int kMoeTilesBytes =
    2 * 4 * (kMoeExpertsMax + 1) + 4 * met::kMoeOrderExperts * kMaskWords + met::kMoeOrderPairs + 16;

/// Shared memory: how many tiles and places lie before each expert's; with choices also a bit for each token that
/// chose an expert, and each place's token.
struct MoeTilesMemory {
  std::uint32_t base;  // a multiple of 16

  /// Of tokens 32 * word and on.
  __device__ std::uint32_t mask(int expert, int word) const {
    return base + 4 * (word * met::kMoeOrderExperts + expert);
  }
  __device__ std::uint32_t token(int place) const { return mask(0, kMaskWords) + place; }
  __device__ std::uint32_t tiles_before(int expert) const { return token(met::kMoeOrderPairs) + 4 * expert; }
  __device__ std::uint32_t places_before(int expert) const {
    return tiles_before(kMoeExpertsMax + 1 + expert);
  }
};

/// Rows [row, …) of expert `expert`'s W and places [place, end).
struct MoeTile {
  int expert, row, place, end;
};

/// Tiles of `Rows` rows of W by `Places` places: first those of the guess, then those that it left, in order of experts.
///
/// The guess: the first place tiles of as many rows of W as the grid has blocks. It can be made without knowing the pairs,
/// and be right for most steps in which an expert has several pairs; a guessed expert without pairs is a tile without places.
template <int Rows, int Places>
class MoeTiles {
 public:
  __device__ MoeTiles(const met::MoeGemmArgs& args, MoeTilesMemory memory, int tokens)
      : args_(args), memory_(memory), pairs_(tokens * args.top_k), weight_tiles_((args.n + Rows - 1) / Rows) {
    if (ordered() || args.gathers == 0 || pairs_ < kPairsToGuess * args.experts) return;
    guessed_ = min(static_cast<int>(gridDim.x), args.experts * weight_tiles_);
  }

  /// Before count(), by all threads of the block; a barrier of the block follows.
  __device__ void clear() const {
    if (ordered()) return;
    for (int i = static_cast<int>(threadIdx.x); i < met::kMoeOrderExperts * kMaskWords;
         i += static_cast<int>(blockDim.x))
      shared_store_word(memory_.mask(i, 0), 0);
  }

  /// By all threads of the block, behind whoever wrote the pairs. Ends with a barrier of the block.
  __device__ void count() const {
    if (ordered()) {
      if (threadIdx.x < 32) count_tiles();
      return __syncthreads();
    }
    int experts[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) experts[j] = pair(j) < pairs_ ? __ldcg(args_.choices + pair(j)) : 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int token = pair(j) / args_.top_k;
      if (pair(j) < pairs_) set_bit(memory_.mask(experts[j], token / 32), 1U << token % 32);
    }
    __syncthreads();
    if (threadIdx.x < 32) count_tiles();
    __syncthreads();
    if (args_.gathers == 0) return;
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (pair(j) < pairs_) store_place(experts[j], pair(j));
    __syncthreads();
  }

  /// How many tiles are guessed, and the guess. Known before the pairs.
  __device__ int guessed() const { return guessed_; }
  __device__ MoeTile guess(int index) const {
    return {index / weight_tiles_, index % weight_tiles_ * Rows, 0, 0};
  }

  __device__ int total() const { return guessed_ + tiles_before(args_.experts); }

  __device__ MoeTile at(int index) const {
    if (index < guessed_) {
      const MoeTile tile = guess(index);
      return {tile.expert, tile.row, places_before(tile.expert), places_before(tile.expert + 1)};
    }
    index -= guessed_;
    int low = 0;  // the last expert with tiles_before <= index
    int high = args_.experts;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (tiles_before(middle) <= index)
        low = middle;
      else
        high = middle;
    }
    const int first = places_before(low);
    const int end = places_before(low + 1);
    const int tiles = (end - first + Places - 1) / Places;
    // Of the guessed rows all place tiles but the first are left.
    const int guessed = guessed_of(low);
    int within = index - tiles_before(low);
    if (within < guessed * (tiles - 1))
      return {low, within / (tiles - 1) * Rows, first + (within % (tiles - 1) + 1) * Places, end};
    within -= guessed * (tiles - 1);
    return {low, (guessed + within / tiles) * Rows, first + within % tiles * Places, end};
  }

  /// The token of a place.
  __device__ int token(int place) const {
    if (ordered()) return args_.pairs.tokens[place];
    std::uint32_t token;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(token) : "r"(memory_.token(place)) : "memory");
    return static_cast<int>(token);
  }

 private:
  static constexpr int kThreadsMin = 256;
  static constexpr int kEach = met::kMoeOrderPairs / kThreadsMin;  // pairs of a thread
  static constexpr int kTogether = 4;                              // experts of a lane: words of a load
  static constexpr int kPairsToGuess = 2;                          // of an expert

  __device__ bool ordered() const { return args_.choices == nullptr; }
  __device__ static int pair(int j) {
    return static_cast<int>(threadIdx.x) + j * static_cast<int>(blockDim.x);
  }
  __device__ int tiles_before(int expert) const {
    return static_cast<int>(shared_load_word(memory_.tiles_before(expert)));
  }
  __device__ int places_before(int expert) const {
    return static_cast<int>(shared_load_word(memory_.places_before(expert)));
  }
  __device__ int guessed_of(int expert) const {
    return min(max(guessed_ - expert * weight_tiles_, 0), weight_tiles_);
  }
  __device__ static void set_bit(std::uint32_t at, std::uint32_t bit) {
    asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(at), "r"(bit) : "memory");
  }

  /// Places of kTogether experts.
  __device__ void count_places(int first, int (&counts)[kTogether]) const {
    if (ordered()) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        counts[i] = first + i < args_.experts
                        ? __ldcg(args_.pairs.begin + first + i + 1) - __ldcg(args_.pairs.begin + first + i)
                        : 0;
      return;
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) counts[i] = 0;
    for (int word = 0; word < kMaskWords; ++word) {
      const uint4 bits = shared_load_bits(memory_.mask(first, word));
      counts[0] += __popc(bits.x);
      counts[1] += __popc(bits.y);
      counts[2] += __popc(bits.z);
      counts[3] += __popc(bits.w);
    }
  }

  /// Tiles of an expert that the guess leaves.
  __device__ int tiles_left(int expert, int places) const {
    return places == 0 ? 0 : (places + Places - 1) / Places * weight_tiles_ - guessed_of(expert);
  }

  /// One warp: sums over the experts before each.
  __device__ void count_tiles() const {
    const int lane = static_cast<int>(threadIdx.x);
    int tile = 0;
    int place = 0;
    for (int chunk = 0; chunk < args_.experts; chunk += kTogether * 32) {
      const int first = chunk + kTogether * lane;
      int counts[kTogether];
      int places = 0;
      int tiles = 0;
      count_places(first, counts);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        places += counts[i];
        tiles += tiles_left(first + i, counts[i]);
      }
      int places_up_to = places;
      int tiles_up_to = tiles;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int lower_places = __shfl_up_sync(0xffffffffU, places_up_to, step);
        const int lower_tiles = __shfl_up_sync(0xffffffffU, tiles_up_to, step);
        places_up_to += lane >= step ? lower_places : 0;
        tiles_up_to += lane >= step ? lower_tiles : 0;
      }
      int own_place = place + places_up_to - places;
      int own_tile = tile + tiles_up_to - tiles;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= args_.experts) break;
        shared_store_word(memory_.places_before(first + i), own_place);
        shared_store_word(memory_.tiles_before(first + i), own_tile);
        own_place += counts[i];
        own_tile += tiles_left(first + i, counts[i]);
      }
      place += __shfl_sync(0xffffffffU, places_up_to, 31);
      tile += __shfl_sync(0xffffffffU, tiles_up_to, 31);
    }
    if (lane != 0) return;
    shared_store_word(memory_.places_before(args_.experts), place);
    shared_store_word(memory_.tiles_before(args_.experts), tile);
  }

  /// Tokens of an expert ascend.
  __device__ void store_place(int expert, int pair) const {
    const int token = pair / args_.top_k;
    int place = places_before(expert) +
                __popc(shared_load_word(memory_.mask(expert, token / 32)) & ((1U << token % 32) - 1U));
    for (int i = 0; i < token / 32; ++i) place += __popc(shared_load_word(memory_.mask(expert, i)));
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(memory_.token(place)), "r"(token) : "memory");
    if (blockIdx.x == 0) args_.pairs.places[pair] = place;
  }

  const met::MoeGemmArgs& args_;
  MoeTilesMemory memory_;
  int pairs_;
  int weight_tiles_;
  int guessed_ = 0;
};

}  // namespace
