// y = epilogue(W p(x)) over packed tiles: division of the work, epilogues, and the two ways to multiply.
//
// A row's bits do not depend on the other rows: every (row, column) adds its blocks in ascending order by the
// same operations, in tiles of one row and of four alike.
#pragma once

#include <type_traits>

#include "activations.h"
#include "met/cpu_kernel.h"
#include "met/cpu_moe_ops.h"
#include "packed.h"
#include "tiles.h"

namespace {
namespace linear {

using activations::Block;
using packed::kColumns;
using packed::kParts;
using simd::kLanes;
using simd::Vf;
using simd::Vi;

/// Rows that share each load of packed weights.
constexpr int kRowsAtOnce = kLanes == 16 ? 8 : 4;
/// The same for unpacked ones. AVX2 spends a shuffle port on each broadcast of activations, so that there
/// fewer rows and twice the columns are faster.
constexpr int kUnpackedRows = kLanes == 16 ? 8 : kLanes == 8 ? 2 : 4;
constexpr int kUnpackedTiles = kLanes == 8 ? 2 : 1;

/// How far ahead of itself one pass of rows asks for its weights, bytes; 0: the processor's own reading ahead is as fast. Those with
/// AVX-512 stop it where a page ends.
constexpr std::int64_t kStreamAhead = kLanes == 16 ? 4096 : 0;

/// Signed bytes times activations of 16 bits.
template <class F>
constexpr bool kWide = F::kDepth == 0 && simd::kWideSigned;
template <class F>
using BlockFor = std::conditional_t<kWide<F>, activations::WideBlock, Block>;

template <class F, int R>
using Sums = Vi[F::kPartsAtOnce][R];

/// Prepared rows: in x itself, in the thread's scratch or in the shared workspace.
struct Rows {
  const std::uint8_t* base;
  std::size_t stride;
  const void* operator[](std::int64_t r) const { return base + static_cast<std::size_t>(r) * stride; }
};

/// Weights to be asked into L2 while others are multiplied: some bytes at each step. Asked into L1 they would take
/// the few buffers that the loads of these need.
struct Ahead {
  const std::uint8_t* from;
  std::int64_t bytes;  ///< at each step of K::kStep k
  void fetch(std::int64_t step) const {
    for (std::int64_t i = step * bytes / 64; i < (step + 1) * bytes / 64; ++i)
      __builtin_prefetch(from + i * 64, 0, 2);
  }
  /// The same for steps of up to Bytes: the loop above would take sums out of their registers.
  template <std::int64_t Bytes>
  void fetch_at_most(std::int64_t step) const {
    static_assert(Bytes <= 128);
    __builtin_prefetch(from + step * bytes, 0, 2);
    if constexpr (Bytes > 64) __builtin_prefetch(from + step * bytes + 64, 0, 2);
  }
};

#if defined(__ARM_FEATURE_MATMUL_INT8)
/// block_sums for an even number of rows: 8 k of two columns and two rows at a time.
template <class F, int R, int First, int Count>
inline void square_sums(typename F::At at, int h, const Block* const (&a)[R], Sums<F, R>& sums) {
  simd::Square squares[F::kPartsAtOnce][R / 2] = {};
#pragma GCC unroll 8
  for (int g = First; g < First + Count; g += 2) {
    int8x16_t rows[R / 2];
#pragma GCC unroll 8
    for (int r = 0; r < R; r += 2) rows[r / 2] = simd::row_pair(a[r]->q + 4 * g, a[r + 1]->q + 4 * g);
#pragma GCC unroll 4
    for (int p = 0; p < F::kPartsAtOnce; ++p) {
      const Vi first = F::weights(at, g, h + p);
      const Vi second = F::weights(at, g + 1, h + p);
#pragma GCC unroll 8
      for (int r = 0; r < R; r += 2) simd::add_product(squares[p][r / 2], first, second, rows[r / 2]);
    }
  }
  for (int p = 0; p < F::kPartsAtOnce; ++p)
    for (int r = 0; r < R; ++r) sums[p][r] = simd::row_of(squares[p][r / 2], r % 2);
}
#endif

#if !defined(__AVX512VNNI__)
/// block_sums by products in 16 bits, which are added as deep as the numbers allow.
template <class F, int R, int First, int Count>
inline void short_block_sums(typename F::At at, int h, const Block* const (&a)[R], Sums<F, R>& sums) {
  Sums<F, R> short_sums;
  constexpr int kDepth = F::kDepth == 0 ? 1 : F::kDepth < Count ? F::kDepth : Count;
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) {
    const int g = First + (Count == 8 ? i / 2 + i % 2 * 4 : i);  // nibbles: both halves of a byte in turn
    Vi q[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) q[r] = simd::broadcast4(a[r]->q + 4 * g);
#pragma GCC unroll 4
    for (int p = 0; p < F::kPartsAtOnce; ++p) {
      const Vi w = F::weights(at, g, h + p);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vi products = simd::multiply_bytes(w, q[r]);
        Vi& short_sum = short_sums[p][r];
        short_sum = i % kDepth == 0 ? products : simd::add16(short_sum, products);
        simd::keep(short_sum);
        if (i % kDepth == kDepth - 1) {
          const Vi wide = simd::widen_pairs(short_sum);
          sums[p][r] = i < kDepth ? wide : simd::iadd(sums[p][r], wide);
        }
      }
    }
  }
}
#endif

/// block_sums for signed bytes: one half of group g, the even or the odd of each four, times 256.
template <class F, int R, bool Odd>
inline void add_wide(typename F::At at, int g, int h, const BlockFor<F>* const (&a)[R], bool first,
                     Sums<F, R>& sums) {
  Vi q[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) q[r] = simd::broadcast4(a[r]->q + 4 * g + 2 * Odd);
#pragma GCC unroll 4
  for (int p = 0; p < F::kPartsAtOnce; ++p) {
    const Vi w = F::template wide<Odd>(at, g, h + p);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vi products = simd::multiply_words(w, q[r]);
      sums[p][r] = first ? products : simd::iadd(sums[p][r], products);
      simd::keep(sums[p][r]);
    }
  }
}

/// Sums of integer products over `Count` groups from group `First`, for kPartsAtOnce parts from h and R rows.
template <class F, int R, int First, int Count>
inline void block_sums(typename F::At at, int h, const BlockFor<F>* const (&a)[R], Sums<F, R>& sums) {
#if defined(__AVX512VNNI__)
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) {
    const int g = First + i;
#pragma GCC unroll 2
    for (int p = 0; p < F::kPartsAtOnce; ++p) {
      Vi w = F::weights(at, g, h + p);
      if constexpr (F::kDepth == 0) w = simd::ixor(w, simd::bytes(0x80));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        sums[p][r] =
            _mm512_dpbusd_epi32(i == 0 ? simd::izero() : sums[p][r], w, simd::broadcast4(a[r]->q + 4 * g));
    }
  }
#elif defined(__ARM_FEATURE_DOTPROD)
#if defined(__ARM_FEATURE_MATMUL_INT8)
  if constexpr (R % 2 == 0) {
    square_sums<F, R, First, Count>(at, h, a, sums);
    return;
  }
#endif
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) {
    const int g = First + (Count == 8 ? i / 2 + i % 2 * 4 : i);  // nibbles: both halves of a byte in turn
#pragma GCC unroll 4
    for (int p = 0; p < F::kPartsAtOnce; ++p) {
      const Vi w = F::weights(at, g, h + p);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        sums[p][r] =
            simd::dot_bytes(i == 0 ? simd::izero() : sums[p][r], w, simd::broadcast4(a[r]->q + 4 * g));
    }
  }
#else
  if constexpr (kWide<F>) {
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      add_wide<F, R, false>(at, First + i, h, a, i == 0, sums);
      add_wide<F, R, true>(at, First + i, h, a, false, sums);
    }
  } else {
    short_block_sums<F, R, First, Count>(at, h, a, sums);
  }
#endif
}

/// to += scale * d * (sum - Offset * sum of q) (+ minimum * d * sum of q), for the numbers of one scale.
template <class F, int Offset, int Sub>
inline void add_scaled(Vi sum, Vf scale, Vf minimum, const BlockFor<F>& a, Vf& to) {
  const std::int32_t q_sum = F::kSubs == 1 ? a.sum[0] + a.sum[1] : a.sum[Sub];
  if constexpr (Offset != 0) sum = simd::isub(sum, simd::iset1(Offset * q_sum));
  to = simd::fma(simd::to_float(sum), simd::mul(scale, simd::set1(a.d)), to);
  if constexpr (F::kMin) {
    const float total = F::kSubs == 1 ? a.total : a.d * static_cast<float>(q_sum);
    to = simd::fma(minimum, simd::set1(total), to);
  }
}
template <class F>
inline Vf minimum_of(typename F::At at, int h, int sub) {
  if constexpr (F::kMin)
    return F::minimum(at, h, sub);
  else
    return simd::zero();
}

/// acc += the products of groups of one scale.
template <class F, int R, int Sub>
inline void add_block(typename F::At at, int h, const BlockFor<F>* const (&a)[R], Vf (&acc)[F::kParts][R]) {
#if defined(__AVX512VNNI__)
  constexpr int kOffset = F::kOffset + (F::kDepth == 0 ? 128 : 0);
#else
  constexpr int kOffset = F::kOffset;
#endif
  constexpr int kCount = 8 / F::kSubs;
  Sums<F, R> sums;
  block_sums<F, R, Sub * kCount, kCount>(at, h, a, sums);
#pragma GCC unroll 4
  for (int p = 0; p < F::kPartsAtOnce; ++p) {
    Vf scale = F::scale(at, h + p, Sub);
    if constexpr (kWide<F>) scale = simd::mul(scale, simd::set1(1.0F / 256));
    const Vf minimum = minimum_of<F>(at, h + p, Sub);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_scaled<F, kOffset, Sub>(sums[p][r], scale, minimum, *a[r], acc[h + p][r]);
  }
}

/// acc[h][r] += blocks [b, b + count) of R rows; `blocks(i)` is where F finds the weights of block b + i.
template <class F, int R, class Blocks>
inline void add_blocks(const Blocks& blocks, const void* const (&rows)[R], std::int64_t b, std::int64_t count,
                       Vf (&acc)[F::kParts][R]) {
  for (std::int64_t i = 0; i < count; ++i) {
    const typename F::At at = blocks(i);
    const BlockFor<F>* a[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) a[r] = static_cast<const BlockFor<F>*>(rows[r]) + b + i;
#pragma GCC unroll 8
    for (int h = 0; h < F::kParts; h += F::kPartsAtOnce) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) simd::forget(a[r]);
      add_block<F, R, 0>(at, h, a, acc);
      if constexpr (F::kSubs == 2) add_block<F, R, 1>(at, h, a, acc);
    }
  }
}

/// Packed integer weights times int8 activations.
template <class F>
struct Int8 {
  static std::size_t row_bytes(std::int64_t k) {
    return static_cast<std::size_t>(k / 32) * sizeof(BlockFor<F>);
  }
  static std::size_t tile_bytes(std::int64_t k) { return F::tile_bytes(k); }
  static void prepare(const met::LinearArgs& args, std::int64_t r, void* to) {
    activations::quantise(args, r, static_cast<BlockFor<F>*>(to));
  }
  static bool in_place(const met::LinearArgs&) { return false; }
  static constexpr bool kUnpacks = !F::kCheap || tiles::kHas;
  static constexpr bool kFetches = true;
  static constexpr std::int64_t kStep = 32;
  static constexpr int kRows = kRowsAtOnce;
  static constexpr int kTilesAtOnce = 1;

  template <int R>
  static void tile(const std::uint8_t* weights, const void* const (&rows)[R], std::int64_t k,
                   const Ahead& ahead, float* out) {
    Vf acc[kParts][R];
    for (auto& part : acc)
      for (Vf& v : part) v = simd::zero();
    const auto blocks = [&](std::int64_t i) {
      if constexpr (R == kRows || kStreamAhead > 0) ahead.fetch(i);
      return F::at(weights, i);
    };
    add_blocks<F, R>(blocks, rows, 0, k / 32, acc);
    for (int h = 0; h < kParts; ++h)
      for (int r = 0; r < R; ++r) simd::store(out + r * kColumns + h * kLanes, acc[h][r]);
  }

  /// The same for any number of rows and for kUnpackedTiles tiles at `weights`: a chunk of k is unpacked once
  /// and stays in L1 while all rows pass it. out[r][tile][16].
  static void tiles_of_many(const std::uint8_t* const (&weights)[kUnpackedTiles], const Rows& prepared,
                            std::int64_t row, std::int64_t rows, std::int64_t k, float* out) {
    [[maybe_unused]] const tiles::Session session;
    typename Plain::Block blocks[kChunkBlocks];
    std::memset(out, 0, static_cast<std::size_t>(rows) * Plain::kColumns * sizeof(float));
    for (std::int64_t b = 0; b < k / 32; b += kChunkBlocks) {
      const std::int64_t count = k / 32 - b < kChunkBlocks ? k / 32 - b : kChunkBlocks;
      for (std::int64_t i = 0; i < count; ++i)
        for (int t = 0; t < kUnpackedTiles; ++t) Plain::unpack(F::at(weights[t], b + i), t, blocks[i]);
      std::int64_t r = 0;
      if constexpr (tiles::kHas)
        for (; r + tiles::kRows <= rows; r += tiles::kRows)
          add_tiles(blocks, prepared, row + r, b, count, out + r * Plain::kColumns);
      for (; r + kUnpackedRows <= rows; r += kUnpackedRows)
        add_chunk<kUnpackedRows>(blocks, prepared, row + r, b, count, out + r * Plain::kColumns);
      for (; r < rows; ++r) add_chunk<1>(blocks, prepared, row + r, b, count, out + r * Plain::kColumns);
    }
  }

 private:
  using Plain = packed::Unpacked<F, kUnpackedTiles>;
  static constexpr std::int64_t kChunkBlocks = 8;

  template <int R>
  static void add_chunk(const typename Plain::Block* blocks, const Rows& prepared, std::int64_t row,
                        std::int64_t b, std::int64_t count, float* out) {
    const void* rows[R];
    Vf acc[Plain::kParts][R];
    for (int r = 0; r < R; ++r) {
      rows[r] = prepared[row + r];
      for (int h = 0; h < Plain::kParts; ++h) acc[h][r] = simd::load(out + r * Plain::kColumns + h * kLanes);
    }
    add_blocks<Plain, R>([&](std::int64_t i) { return blocks + i; }, rows, b, count, acc);
    for (int r = 0; r < R; ++r)
      for (int h = 0; h < Plain::kParts; ++h) simd::store(out + r * Plain::kColumns + h * kLanes, acc[h][r]);
  }

  /// add_chunk for the rows of a tile.
  static void add_tiles(const typename Plain::Block* blocks, const Rows& prepared, std::int64_t row,
                        std::int64_t b, std::int64_t count, float* out) {
    Vf acc[tiles::kRows];
    for (int r = 0; r < tiles::kRows; ++r) acc[r] = simd::load(out + r * kColumns);
    for (std::int64_t i = 0; i < count; ++i) {
      add_tile<0>(blocks + i, prepared, row, b + i, acc);
      if constexpr (F::kSubs == 2) add_tile<1>(blocks + i, prepared, row, b + i, acc);
    }
    for (int r = 0; r < tiles::kRows; ++r) simd::store(out + r * kColumns, acc[r]);
  }

  template <int Sub>
  static void add_tile(const typename Plain::Block* block, const Rows& prepared, std::int64_t row,
                       std::int64_t b, Vf (&acc)[tiles::kRows]) {
    constexpr int kCount = 8 / F::kSubs;
    alignas(64) std::int32_t sums[tiles::kRows][kColumns];
    const Block* first = static_cast<const Block*>(prepared[row]) + b;
    tiles::multiply<kCount, F::kDepth == 0>(first->q + 16 * Sub, prepared.stride,
                                            block->numbers[Sub * kCount], sums);
    const Vf scale = Plain::scale(block, 0, Sub);
    const Vf minimum = minimum_of<Plain>(block, 0, Sub);
#pragma GCC unroll 16
    for (int r = 0; r < tiles::kRows; ++r) {
      const Block& a = static_cast<const Block*>(prepared[row + r])[b];
      add_scaled<F, F::kOffset, Sub>(simd::iload(sums[r]), scale, minimum, a, acc[r]);
    }
  }
};

/// What kernels have in common whose activations stay f32.
struct FloatRows {
  static std::size_t row_bytes(std::int64_t k) { return static_cast<std::size_t>(k) * sizeof(float); }
  static void prepare(const met::LinearArgs& args, std::int64_t r, void* to) {
    activations::normalise(args, r, to);
  }
  static bool in_place(const met::LinearArgs& args) { return args.norm_weight == nullptr; }
  static constexpr bool kUnpacks = false;
  /// On AVX2 the sums would leave their registers.
  static constexpr bool kFetches = kStreamAhead > 0;
  static constexpr std::int64_t kStep = 1;
  /// On AVX2 six rows and two vectors of columns are twelve sums: eight would not cover the latency of a sum.
  static constexpr int kRows = kLanes == 8 ? 6 : kRowsAtOnce;
  static constexpr int kTilesAtOnce = 1;
};

/// Weights widened to f32 times f32 activations, kTilesAtOnce tiles together. F::Wide(tile, b) widens the 32 k of block b.
template <class F>
struct Float : FloatRows {
  static constexpr int kTilesAtOnce = F::kTilesAtOnce;
  static constexpr int kRows = kTilesAtOnce == 1 ? FloatRows::kRows : kLanes == 16 ? 8 : kLanes == 8 ? 3 : 2;
  static constexpr std::int64_t kStepBytes = kTilesAtOnce * kColumns * F::kElementBytes;
  static std::size_t tile_bytes(std::int64_t k) { return F::tile_bytes(k); }

  /// out[tile][r][16].
  template <int R>
  static void tile(const std::uint8_t* weights, const void* const (&rows)[R], std::int64_t k,
                   const Ahead& ahead, float* out) {
    constexpr int kAll = kTilesAtOnce * kParts;
    // Every loop over the sums is unrolled: an array that one of them walks stays in memory.
    Vf acc[kAll][R];
#pragma GCC unroll 8
    for (int h = 0; h < kAll; ++h)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[h][r] = simd::zero();
    for (std::int64_t b = 0; b * 32 < k; ++b) {
      const int count = k - b * 32 < 32 ? static_cast<int>(k - b * 32) : 32;
      const typename F::Wide wide(weights, b);
      const float* x[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = static_cast<const float*>(rows[r]) + b * 32;
      for (int i = 0; i < count; ++i) {
        if constexpr (kFetches) ahead.fetch_at_most<kStepBytes>(b * 32 + i);
        // The fewer of the two wait in registers, which leaves the sums theirs.
        if constexpr (R < kAll) {
          Vf value[R];
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) value[r] = simd::set1(x[r][i]);
#pragma GCC unroll 8
          for (int h = 0; h < kAll; ++h) {
            const Vf w = wide.load(i, h);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) acc[h][r] = simd::fma(w, value[r], acc[h][r]);
          }
        } else {
          Vf w[kAll];
#pragma GCC unroll 8
          for (int h = 0; h < kAll; ++h) w[h] = wide.load(i, h);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const Vf value = simd::set1(x[r][i]);
#pragma GCC unroll 8
            for (int h = 0; h < kAll; ++h) acc[h][r] = simd::fma(w[h], value, acc[h][r]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int h = 0; h < kAll; ++h)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        simd::store(out + (h / kParts * R + r) * kColumns + h % kParts * kLanes, acc[h][r]);
  }
};

/// Any format of packed.h for `Float`.
template <class F>
struct Dequantised {
  static constexpr std::int64_t kElementBytes = 1;  // or a part of one
  static constexpr int kTilesAtOnce = 1;
  static std::size_t tile_bytes(std::int64_t k) { return F::tile_bytes(k); }
  struct Wide {
    alignas(64) float w[32][kColumns];
    Wide(const std::uint8_t* tile, std::int64_t b) {
      const typename F::At at = F::at(tile, b);
      float column[32];
      for (int c = 0; c < kColumns; ++c) {
        F::column(at, c, column);
        for (int i = 0; i < 32; ++i) w[i][c] = column[i];
      }
    }
    Vf load(int i, int h) const { return simd::load(&w[i][h * kLanes]); }
  };
};

/// Stores one row of 16 sums (gated: gate's, with up's in `up`) to columns [c, c + 16) of y, as far as they
/// exist.
inline void finish(const met::LinearArgs& args, std::int64_t r, std::int64_t c, float* sums, float* up,
                   std::int64_t columns) {
  const std::int64_t valid = columns - c < kColumns ? columns - c : kColumns;
  float* y = args.y + r * args.ldy + c;
  if (args.bias != nullptr) {
    for (std::int64_t i = 0; i < valid; ++i) sums[i] += args.bias[c + i];
    if (up != nullptr)
      for (std::int64_t i = 0; i < valid; ++i) up[i] += args.bias[columns + c + i];
  }
  if (up != nullptr) {
    for (int h = 0; h < kParts; ++h) {
      const Vf gate = simd::load(sums + h * kLanes);
      const Vf active = args.epilogue == met::Epilogue::kSiluMul ? simd::silu(gate) : simd::gelu_tanh(gate);
      simd::store(sums + h * kLanes, simd::mul(active, simd::load(up + h * kLanes)));
    }
  }
  const float* residual =
      args.epilogue == met::Epilogue::kResidual ? args.residual + r * args.ldy + c : nullptr;
  if (valid == kColumns) {  // of known length, so vectors
    for (int i = 0; i < kColumns; i += kLanes) {
      const Vf sum = simd::load(sums + i);
      simd::store(y + i, residual != nullptr ? simd::add(sum, simd::load(residual + i)) : sum);
    }
    return;
  }
  if (residual != nullptr)
    for (std::int64_t i = 0; i < valid; ++i) sums[i] += residual[i];
  std::memcpy(y, sums, static_cast<std::size_t>(valid) * sizeof(float));
}

template <class K>
Rows prepare_rows(const met::LinearArgs& args, const MetCpuContext* ctx, std::int64_t rows,
                  std::int64_t* first_item) {
  if (K::in_place(args) && args.gather == nullptr)
    return {reinterpret_cast<const std::uint8_t*>(args.x),
            static_cast<std::size_t>(args.ldx) * sizeof(float)};
  // Fewer values than this cost less to prepare in every thread than a barrier does.
  constexpr std::int64_t kRedundantValues = 8192;
  const std::size_t stride = (K::row_bytes(args.k) + 63) / 64 * 64;
  const bool alone = ctx->threads == 1;
  if (!alone && rows * args.k <= kRedundantValues &&
      stride * static_cast<std::size_t>(rows) <= ctx->scratch_bytes) {
    auto* to = static_cast<std::uint8_t*>(ctx->scratch);
    for (std::int64_t r = 0; r < rows; ++r) K::prepare(args, r, to + static_cast<std::size_t>(r) * stride);
    return {to, stride};
  }
  auto* to = static_cast<std::uint8_t*>(args.workspace);
  const std::int64_t chunk = rows >= 16 * ctx->threads ? 4 : 1;
  for (std::int64_t r = met_next(ctx, chunk); r < rows; r = met_next(ctx, chunk)) {
    const std::int64_t end = r + chunk < rows ? r + chunk : rows;
    for (std::int64_t i = r; i < end; ++i) K::prepare(args, i, to + static_cast<std::size_t>(i) * stride);
  }
  // Each thread has claimed once in vain.
  *first_item = (rows + chunk - 1) / chunk * chunk + chunk * ctx->threads;
  if (!alone) met_barrier(ctx);
  return {to, stride};
}

/// R rows times the unit at `tile`: gate and up, one tile, or the two of a pair.
template <class K, int R>
void multiply(const met::LinearArgs& args, const Rows& prepared, const std::uint8_t* tile, std::int64_t r,
              std::int64_t c, std::int64_t columns, bool gated, Ahead ahead) {
  alignas(64) float sums[2][R * kColumns];
  const void* rows[R];
  for (int i = 0; i < R; ++i) rows[i] = prepared[r + i];
  K::template tile<R>(tile, rows, args.k, ahead, sums[0]);
  if (gated && K::kTilesAtOnce == 1) {
    ahead.from += args.k / K::kStep * ahead.bytes;
    K::template tile<R>(tile + K::tile_bytes(args.k), rows, args.k, ahead, sums[1]);
  }
  for (int i = 0; i < R; ++i) {
    finish(args, r + i, c, sums[0] + i * kColumns, gated ? sums[1] + i * kColumns : nullptr, columns);
    if (K::kTilesAtOnce == 2 && !gated && c + kColumns < columns)
      finish(args, r + i, c + kColumns, sums[1] + i * kColumns, nullptr, columns);
  }
}

constexpr std::int64_t kRowChunk = 64;
/// Rows that pay for unpacking a tile.
constexpr std::int64_t kManyRows = tiles::kHas ? 16 : 32;

/// `multiply` for the rows of one chunk and one or two tiles: gate and up, or neighbouring columns.
template <class K>
void multiply_many(const met::LinearArgs& args, const Rows& prepared, const std::uint8_t* tile, int tiles,
                   std::int64_t r, std::int64_t rows, std::int64_t c, std::int64_t columns, bool gated) {
  alignas(64) float sums[2 * kRowChunk * kColumns];
  const std::uint8_t* const other = tiles == 2 ? tile + K::tile_bytes(args.k) : tile;
  if constexpr (kUnpackedTiles == 2) {
    K::tiles_of_many({tile, other}, prepared, r, rows, args.k, sums);
  } else {
    K::tiles_of_many({tile}, prepared, r, rows, args.k, sums);
    if (tiles == 2) K::tiles_of_many({other}, prepared, r, rows, args.k, sums + kRowChunk * kColumns);
  }
  constexpr std::int64_t kOther = kUnpackedTiles == 2 ? kColumns : kRowChunk * kColumns;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* first = sums + i * kUnpackedTiles * kColumns;
    finish(args, r + i, c, first, gated ? first + kOther : nullptr, columns);
    if (!gated && tiles == 2) finish(args, r + i, c + kColumns, first + kOther, nullptr, columns);
  }
}

/// Which rows meet which matrix: rows [begin[e], begin[e + 1]) matrix e.
struct Matrices {
  const std::int32_t* begin;
  std::int64_t count;
  std::int64_t bytes;  ///< from one to the next
};

inline std::int64_t chunks_of(const Matrices& matrices, std::int64_t e) {
  return (matrices.begin[e + 1] - matrices.begin[e] + kRowChunk - 1) / kRowChunk;
}

/// Rows [row_begin, row_end), of one chunk, times units [unit, unit_end) of the matrix at `weights`.
template <class K>
void multiply_units(const met::LinearArgs& args, const Rows& prepared, const std::uint8_t* weights,
                    std::int64_t row_begin, std::int64_t row_end, std::int64_t unit, std::int64_t unit_end,
                    std::int64_t columns, bool gated) {
  const std::size_t unit_bytes = K::tile_bytes(args.k) * (gated ? 2 : 1);
  if constexpr (K::kUnpacks) {
    if (row_end - row_begin >= kManyRows) {
      const int step = gated ? 1 : 2;
      for (std::int64_t u = unit; u < unit_end; u += step)
        multiply_many<K>(args, prepared, weights + static_cast<std::size_t>(u) * unit_bytes,
                         gated || u + 1 < unit_end ? 2 : 1, row_begin, row_end - row_begin, u * kColumns,
                         columns, gated);
      return;
    }
  }
  const std::int64_t step = gated ? 1 : K::kTilesAtOnce;
  const auto bytes = step * static_cast<std::int64_t>(unit_bytes);
  // Where several passes of rows meet a unit, the first would wait for its weights: those of the next unit come while all passes
  // of this one run, a share in each. One pass asks for its own.
  const std::int64_t passes = (row_end - row_begin) / K::kRows;
  const std::int64_t steps = args.k / K::kStep * (gated && K::kTilesAtOnce == 1 ? 2 : 1);
  std::int64_t share = 0;
  if (K::kFetches && passes > 1) share = (bytes + steps * passes - 1) / (steps * passes);
  if (K::kFetches && passes <= 1 && kStreamAhead > 0) share = bytes / steps;
  for (std::int64_t u = unit; u < unit_end; u += step) {
    const std::uint8_t* tile = weights + static_cast<std::size_t>(u) * unit_bytes;
    const std::int64_t c = u * kColumns;
    std::int64_t r = row_begin;
    Ahead ahead = {tile + (passes > 1 ? bytes : kStreamAhead), share};
    if (passes > 1 && c + step * kColumns >= columns) ahead.bytes = 0;
    for (; r + K::kRows <= row_end; r += K::kRows, ahead.from += share * steps)
      multiply<K, K::kRows>(args, prepared, tile, r, c, columns, gated, ahead);
    if (passes > 0) ahead.bytes = 0;
    if constexpr (K::kRows > 4)
      for (; r + 4 <= row_end; r += 4, ahead.bytes = 0)
        multiply<K, 4>(args, prepared, tile, r, c, columns, gated, ahead);
    for (; r + 2 <= row_end; r += 2, ahead.bytes = 0)
      multiply<K, 2>(args, prepared, tile, r, c, columns, gated, ahead);
    if (r < row_end) multiply<K, 1>(args, prepared, tile, r, c, columns, gated, ahead);
  }
}

template <class K>
void run(const met::LinearArgs& args, const Matrices& matrices, const MetCpuContext* ctx) {
  const std::int64_t rows = *args.rows;
  if (rows <= 0) return;
  std::int64_t first_item = 0;
  const Rows prepared = prepare_rows<K>(args, ctx, rows, &first_item);

  const bool gated = args.epilogue == met::Epilogue::kSiluMul || args.epilogue == met::Epilogue::kGeluMul;
  const std::int64_t columns = gated ? args.n / 2 : args.n;
  const std::int64_t units = (columns + kColumns - 1) / kColumns;
  const std::size_t unit_bytes = K::tile_bytes(args.k) * (gated ? 2 : 1);

  // An item is a few units of columns by a chunk of rows. Sixteen items a thread even out a busy neighbour;
  // items of less than 16 KiB of weights would cost more to claim than they save, unless threads would stay
  // idle.
  std::int64_t row_chunks = 0;
  for (std::int64_t e = 0; e < matrices.count; ++e) row_chunks += chunks_of(matrices, e);
  const std::int64_t fair = units * row_chunks / ctx->threads;
  const std::int64_t least = static_cast<std::int64_t>(16384 / unit_bytes) / (rows / row_chunks);
  std::int64_t group = fair / 16 > least ? fair / 16 : least;
  group = group < fair ? group : fair;
  group = group < 1 ? 1 : group;
  if constexpr (K::kTilesAtOnce == 2) group += group % 2;      // pairs stay whole
  if constexpr (K::kUnpacks) group += group % kUnpackedTiles;  // a tile alone would be multiplied twice
  // Of few rows, which wait for memory, each thread first takes one long stretch: short pieces that threads take in turn end every
  // stream that the processor reads ahead.
  const std::int64_t stretch = row_chunks == 1 && ctx->threads > 1 ? fair * 7 / 8 / 2 * 2 : 0;
  const std::int64_t stretches = stretch > group ? ctx->threads : 0;
  const std::int64_t groups = stretches + (units - stretches * stretch + group - 1) / group;

  // A thread's items ascend, so the matrix is found by walking on.
  std::int64_t e = 0;
  std::int64_t before = 0;  // items of the matrices before e
  for (;;) {
    const std::int64_t item = met_next(ctx, 1) - first_item;
    while (e < matrices.count && item - before >= groups * chunks_of(matrices, e))
      before += groups * chunks_of(matrices, e++);
    if (e == matrices.count) return;
    const std::int64_t chunks = chunks_of(matrices, e);
    const std::int64_t row_begin = matrices.begin[e] + (item - before) % chunks * kRowChunk;
    const std::int64_t row_end =
        row_begin + kRowChunk < matrices.begin[e + 1] ? row_begin + kRowChunk : matrices.begin[e + 1];
    const std::int64_t piece = (item - before) / chunks;
    const std::int64_t unit_begin =
        piece < stretches ? piece * stretch : stretches * stretch + (piece - stretches) * group;
    const std::int64_t wanted = unit_begin + (piece < stretches ? stretch : group);
    const std::int64_t unit_end = wanted < units ? wanted : units;
    multiply_units<K>(args, prepared, static_cast<const std::uint8_t*>(args.weights) + e * matrices.bytes,
                      row_begin, row_end, unit_begin, unit_end, columns, gated);
  }
}

/// One matrix for all rows.
template <class K>
void run(const met::LinearArgs& args, const MetCpuContext* ctx) {
  const std::int32_t begin[2] = {0, *args.rows};
  run<K>(args, Matrices{begin, 1, 0}, ctx);
}

/// A matrix an expert.
template <class K>
void run(const met::ExpertLinearArgs& args, const MetCpuContext* ctx) {
  run<K>(args.linear, Matrices{args.begin, args.experts, args.expert_bytes}, ctx);
}

}  // namespace linear
}  // namespace

/// The entries of one way to multiply: with one matrix, and with a matrix an expert.
#define MET_LINEAR_ENTRY(entry, ...)                                              \
  MET_CPU_KERNEL(entry, met::LinearArgs) { linear::run<__VA_ARGS__>(args, ctx); } \
  MET_CPU_KERNEL(entry##_experts, met::ExpertLinearArgs) { linear::run<__VA_ARGS__>(args, ctx); }

/// The entries of one packed format.
#define MET_LINEAR_ENTRIES(entry, Format)                        \
  MET_LINEAR_ENTRY(linear_##entry, linear::Int8<packed::Format>) \
  MET_LINEAR_ENTRY(linear_##entry##_f32, linear::Float<linear::Dequantised<packed::Format>>)
