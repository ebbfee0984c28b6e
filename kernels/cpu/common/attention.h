// Attention over the paged cache (layout and promises: src/ops/attention/attention.h).
//
// The unit is a list: queries (token, head) that read one kv head of one step row. Up to 24 queries of a list
// share each load of K and V from memory, up to 6 each from the caches. Each absolute tile of 256 positions gives every query a maximum, a sum and an
// output, from zero in position order; tiles are then combined in ascending order. Splitting a list over
// threads by tiles therefore changes no bit.
#pragma once

#include "kv_cache.h"
#include "met/cpu_kernel.h"
#include "met/ops.h"
#include "sizes.h"

namespace {

using simd::kLanes;
using simd::Vf;

constexpr int kBlock = kKvBlockTokens;
constexpr int kTile = 256;
constexpr int kHeadDimMax = 256;
constexpr int kQueries = 24;
constexpr int kParts = kBlock / kLanes;
/// Queries whose sums are in registers together, and how many vectors of sums are wanted: on AVX2 eight would be as many as
/// the latency of a multiply-add covers with nothing else in the way.
constexpr int kQueriesAtOnce = kParts <= 2 ? 6 : 4;
constexpr int kSumsAtOnce = 12;
constexpr float kMinusInfinity = -__builtin_inff();

struct Query {
  const float* q;
  std::int32_t begin;  // positions [begin, end) are seen
  std::int32_t end;
};

/// Queries that share one kv head of one row.
struct Chunk {
  const KvElement* k_cache;  // of the kv head
  const KvElement* v_cache;
  const std::int32_t* table;
  std::int64_t block_stride;
  int blocks;  // that the longest query sees
  int count;
  Query query[kQueries];
};

/// One query's result over some tiles: output / sum is the attention.
struct Partial {
  float* max;
  float* sum;
  float* output;
};

struct Tile {
  alignas(64) float score[kQueries][kTile];
  alignas(64) float output[kQueries][kHeadDimMax];
  float max[kQueries];
  float sum[kQueries];
};

/// e^x, x <= 0.
float exp1(float x) {
  Vf e[1] = {simd::set1(x)};
  simd::exp_all<true>(e);
  alignas(64) float lanes[kLanes];
  simd::store(lanes, e[0]);
  return lanes[0];
}

constexpr int kBlocksAhead = 4;

/// Asks for the line at p, for R queries at once. Few queries are those of one token, whose cache lies in memory: asked into L1,
/// its lines would take the few buffers that the pass's own loads need. A chunk of a prompt meets what the one before left in L2.
template <int R>
void fetch(const KvElement* p) {
  __builtin_prefetch(p, 0, R < kQueriesAtOnce ? 2 : 3);
}

/// What a pass over keys fetches for later: the keys some blocks ahead, and the first values of a tile; a
/// pass over values fetches the others, so that memory is busy in both.
struct Ahead {
  const KvElement* k;  // null: nothing
  const KvElement* v;
};

/// Scores of R queries against B blocks whose K lie at k[0 ... B - 1]; block i goes to score + 16 i.
template <int R, int B>
void score_blocks(const KvElement* const (&k)[B], const Ahead (&ahead)[B], const float* const (&q)[R],
                  int dim, float* const (&score)[R]) {
  Vf acc[B][R][kParts];
  for (auto& block : acc)
    for (auto& row : block)
      for (Vf& v : row) v = simd::zero();
  for (int d = 0; d < dim; d += 2) {  // two rows of a block's K are one cache line
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) {
      if (ahead[b].k != nullptr) {
        fetch<R>(ahead[b].k + d * kBlock);
        if (ahead[b].v != nullptr) fetch<R>(ahead[b].v + d * kBlock);
      }
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        Vf keys[kParts];  // all of them before a query's value: sums stay in registers
#pragma GCC unroll 4
        for (int part = 0; part < kParts; ++part)
          keys[part] = load_kv(k[b] + (d + i) * kBlock + part * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const Vf value = simd::set1(q[r][d + i]);
#pragma GCC unroll 4
          for (int part = 0; part < kParts; ++part)
            acc[b][r][part] = simd::fma(keys[part], value, acc[b][r][part]);
        }
      }
    }
  }
  for (int b = 0; b < B; ++b) {
    for (int part = 0; part < kParts; ++part) {
      const Vf factor = kKvScaled ? simd::load(kv_scales(k[b], dim) + part * kLanes) : simd::set1(kKvFactor);
      for (int r = 0; r < R; ++r) {
        const Vf s = acc[b][r][part];
        simd::store(score[r] + b * kBlock + part * kLanes,
                    kKvScaled || kKvFactor != 1.0F ? simd::mul(s, factor) : s);
      }
    }
  }
}

template <int R, int B>
void score_from(const Chunk& chunk, int first, int dim, int block, Tile& tile) {
  const KvElement* k[B];
  Ahead ahead[B];
  for (int i = 0; i < B; ++i) {
    const int later = block + i + kBlocksAhead < chunk.blocks ? block + i + kBlocksAhead : block + i;
    k[i] = chunk.k_cache + chunk.table[block + i] * chunk.block_stride;
    ahead[i] = {nullptr, nullptr};
    if (first == 0) {
      ahead[i].k = chunk.k_cache + chunk.table[later] * chunk.block_stride;
      if ((block + i) % (kTile / kBlock) < kBlocksAhead)
        ahead[i].v = chunk.v_cache + chunk.table[block + i] * chunk.block_stride;
    }
  }
  const float* q[R];
  float* score[R];
  for (int r = 0; r < R; ++r) {
    q[r] = chunk.query[first + r].q;
    score[r] = tile.score[first + r] + block * kBlock % kTile;
  }
  score_blocks<R, B>(k, ahead, q, dim, score);
}

/// Scores of R queries from query `first` for the blocks [block_begin, block_end) of a tile.
template <int R>
void score_tile(const Chunk& chunk, int first, int dim, int block_begin, int block_end, Tile& tile) {
  constexpr int kWanted = kSumsAtOnce / (R * kParts);
  constexpr int kAtOnce = kWanted < 1 ? 1 : kWanted > 4 ? 4 : kWanted;
  int block = block_begin;
  for (; block + kAtOnce <= block_end; block += kAtOnce)
    score_from<R, kAtOnce>(chunk, first, dim, block, tile);
  for (; block < block_end; ++block) score_from<R, 1>(chunk, first, dim, block, tile);
}

/// Turns one query's scores at [begin, end) of the tile into exp(score - max); slots of touched groups outside become 0,
/// whatever they held.
void soften(const met::AttentionArgs& args, float* score, int begin, int end, float* max, float* sum) {
  constexpr int kVectors = 4;  // in flight together
  constexpr int kGroup = kVectors * kLanes;
  static_assert(kGroup % kBlock == 0 && kTile % kGroup == 0);
  const int low = begin / kGroup * kGroup;
  const int high = (end + kGroup - 1) / kGroup * kGroup;
  for (int i = low; i < begin; ++i) score[i] = kMinusInfinity;
  for (int i = end; i < high; ++i) score[i] = kMinusInfinity;
  Vf largest = simd::set1(kMinusInfinity);
  for (int i = low; i < high; i += kLanes) {
    Vf s = simd::mul(simd::load(score + i), simd::set1(args.scale * args.k_scale));
    if (args.softcap != 0.0F) {  // cap * tanh(s / cap), tanh(u) = 1 - 2 / (e^2u + 1)
      const Vf e = simd::exp(simd::mul(s, simd::set1(2.0F / args.softcap)));
      const Vf t = simd::sub(simd::set1(1.0F), simd::div(simd::set1(2.0F), simd::add(e, simd::set1(1.0F))));
      s = simd::mul(t, simd::set1(args.softcap));
    }
    simd::store(score + i, s);
    largest = simd::max(largest, s);
  }
  if (args.softcap != 0.0F) {  // the cap made the masked slots finite
    for (int i = low; i < begin; ++i) score[i] = kMinusInfinity;
    for (int i = end; i < high; ++i) score[i] = kMinusInfinity;
  }
  alignas(64) float lanes[kLanes];
  simd::store(lanes, largest);
  float m = lanes[0];
  for (int i = 1; i < kLanes; ++i) m = lanes[i] > m ? lanes[i] : m;
  Vf total = simd::zero();
  for (int i = low; i < high; i += kGroup) {
    Vf p[kVectors];
    for (int j = 0; j < kVectors; ++j) p[j] = simd::sub(simd::load(score + i + j * kLanes), simd::set1(m));
    simd::exp_all<true>(p);
    for (int j = 0; j < kVectors; ++j) {
      simd::store(score + i + j * kLanes, p[j]);
      total = simd::add(total, p[j]);
    }
  }
  *max = m;
  *sum = simd::sum(total);
}

/// output[r][0 ... kLanes V) += sum over positions [begin, end) of a block of p[r] * v; fetches `later`, if
/// any.
template <int R, int V>
void add_values(const KvElement* v, const KvElement* later, int dim, const float* const (&p)[R], int begin,
                int end, float* const (&output)[R], int d) {
  Vf acc[R][V];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < V; ++i) acc[r][i] = simd::load(output[r] + d + i * kLanes);
#pragma GCC unroll 1
  for (int j = begin; j < end; ++j) {
    if (later != nullptr)
      for (int i = 0; i < V * kLanes; i += 32) fetch<R>(later + j * dim + d + i);
    // The fewer of the two wait in registers, which leaves the sums theirs.
    if constexpr (R < V) {
      Vf probability[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) probability[r] = simd::set1(p[r][j]);
#pragma GCC unroll 8
      for (int i = 0; i < V; ++i) {
        const Vf value = load_kv(v + j * dim + d + i * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) acc[r][i] = simd::fma(value, probability[r], acc[r][i]);
      }
    } else {
      Vf values[V];
#pragma GCC unroll 8
      for (int i = 0; i < V; ++i) values[i] = load_kv(v + j * dim + d + i * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vf probability = simd::set1(p[r][j]);
#pragma GCC unroll 8
        for (int i = 0; i < V; ++i) acc[r][i] = simd::fma(values[i], probability, acc[r][i]);
      }
    }
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < V; ++i) simd::store(output[r] + d + i * kLanes, acc[r][i]);
}

template <int R>
void add_block_values(const KvElement* v, const KvElement* later, int dim, const float* const (&p)[R],
                      int begin, int end, float* const (&output)[R]) {
  constexpr int kWanted = kSumsAtOnce / R;
  constexpr int kAtOnce = kWanted >= 8 ? 8 : kWanted >= 4 ? 4 : 2;  // what divides the sizes of heads
  int d = 0;
  for (; d + kAtOnce * kLanes <= dim; d += kAtOnce * kLanes)
    add_values<R, kAtOnce>(v, later, dim, p, begin, end, output, d);
  for (; d < dim; d += kLanes) add_values<R, 1>(v, later, dim, p, begin, end, output, d);
}

/// Probabilities of a block's positions times what its values are still to be multiplied by.
inline void scale_probabilities(const KvElement* v, int dim, float* p) {
  if (!kKvScaled && kKvFactor == 1.0F) return;
  for (int i = 0; i < kBlock; i += kLanes) {
    const Vf factor = kKvScaled ? simd::load(kv_scales(v, dim) + i) : simd::set1(kKvFactor);
    simd::store(p + i, simd::mul(simd::load(p + i), factor));
  }
}

/// What a query sees of the block at `position`: its slots [begin, end).
struct Slots {
  int begin;
  int end;
};
inline Slots slots_of(const Query& query, int position) {
  return {query.begin > position ? query.begin - position : 0,
          query.end < position + kBlock ? query.end - position : kBlock};
}

/// Outputs of R queries over the blocks of a tile. Slots that all of them see are read once for all; others, before and
/// behind, are read query by query.
template <int R>
void value_tile(const Chunk& chunk, int first, int dim, int block_begin, int block_end, Tile& tile) {
  for (int block = block_begin; block < block_end; ++block) {
    const KvElement* v = chunk.v_cache + chunk.table[block] * chunk.block_stride;
    const int position = block * kBlock;
    const float* p[R];
    float* output[R];
    Slots all = {0, kBlock};
    for (int r = 0; r < R; ++r) {
      scale_probabilities(v, dim, tile.score[first + r] + position % kTile);
      p[r] = tile.score[first + r] + position % kTile;
      output[r] = tile.output[first + r];
      const Slots slots = slots_of(chunk.query[first + r], position);
      all.begin = slots.begin > all.begin ? slots.begin : all.begin;
      all.end = slots.end < all.end ? slots.end : all.end;
    }
    const auto add_others = [&](Slots where) {
      for (int r = 0; r < R; ++r) {
        const Slots slots = slots_of(chunk.query[first + r], position);
        const int begin = slots.begin > where.begin ? slots.begin : where.begin;
        const int end = slots.end < where.end ? slots.end : where.end;
        const float* const p1[1] = {p[r]};
        float* const output1[1] = {output[r]};
        if (begin < end) add_block_values<1>(v, nullptr, dim, p1, begin, end, output1);
      }
    };
    if (all.begin >= all.end) {
      add_others({0, kBlock});
      continue;
    }
    if (all.begin > 0) add_others({0, all.begin});
    const bool fetches = first == 0 && block + kBlocksAhead < block_end;
    const KvElement* later =
        fetches ? chunk.v_cache + chunk.table[block + kBlocksAhead] * chunk.block_stride : nullptr;
    add_block_values<R>(v, later, dim, p, all.begin, all.end, output);
    if (all.end < kBlock) add_others({all.end, kBlock});
  }
}

template <int R>
void tile_of_queries(const met::AttentionArgs& args, const Chunk& chunk, int first, std::int32_t tile_begin,
                     Tile& tile) {
  std::int32_t begin = tile_begin + kTile;
  std::int32_t end = tile_begin;
  for (int r = first; r < first + R; ++r) {
    const Query& query = chunk.query[r];
    begin = query.begin < begin ? query.begin : begin;
    end = query.end > end ? query.end : end;
  }
  begin = begin > tile_begin ? begin : tile_begin;
  end = end < tile_begin + kTile ? end : tile_begin + kTile;
  if (begin >= end) return;
  const int block_begin = begin / kBlock;
  const int block_end = (end + kBlock - 1) / kBlock;
  score_tile<R>(chunk, first, head_dim(args), block_begin, block_end, tile);
  for (int r = first; r < first + R; ++r) {
    const Query& query = chunk.query[r];
    const int low = query.begin > tile_begin ? query.begin - tile_begin : 0;
    const int high = query.end - tile_begin < kTile ? query.end - tile_begin : kTile;
    if (low < high) soften(args, tile.score[r], low, high, &tile.max[r], &tile.sum[r]);
    std::memset(tile.output[r], 0, static_cast<std::size_t>(head_dim(args)) * sizeof(float));
  }
  value_tile<R>(chunk, first, head_dim(args), block_begin, block_end, tile);
}

void attend_tile(const met::AttentionArgs& args, const Chunk& chunk, std::int32_t tile_begin, Tile& tile) {
  int r = 0;
  if constexpr (kQueriesAtOnce == 6)
    for (; r + 6 <= chunk.count; r += 6) tile_of_queries<6>(args, chunk, r, tile_begin, tile);
  for (; r + 4 <= chunk.count; r += 4) tile_of_queries<4>(args, chunk, r, tile_begin, tile);
  if (chunk.count - r == 3) tile_of_queries<3>(args, chunk, r, tile_begin, tile);
  if (chunk.count - r == 2) tile_of_queries<2>(args, chunk, r, tile_begin, tile);
  if (chunk.count - r == 1) tile_of_queries<1>(args, chunk, r, tile_begin, tile);
}

/// into = into + one tile's result; both weighed by e^(their maximum - the larger maximum), of which one is 1.
void combine(Partial into, float max, float sum, const float* output, int dim) {
  if (*into.max == kMinusInfinity) {  // nothing yet
    *into.max = max;
    *into.sum = sum;
    std::memcpy(into.output, output, static_cast<std::size_t>(dim) * sizeof(float));
    return;
  }
  const bool older = *into.max > max;
  const float weight = exp1(older ? max - *into.max : *into.max - max);
  const float a = older ? 1.0F : weight;
  const float b = older ? weight : 1.0F;
  *into.max = older ? *into.max : max;
  *into.sum = *into.sum * a + sum * b;
  for (int d = 0; d < dim; d += kLanes) {
    const Vf old = simd::mul(simd::load(into.output + d), simd::set1(a));
    simd::store(into.output + d, simd::fma(simd::load(output + d), simd::set1(b), old));
  }
}

/// Adds the head's sink to the sum and writes output * v_scale / sum.
void finish(const met::AttentionArgs& args, int head, Partial result, float* y) {
  if (args.sinks != nullptr) {
    alignas(64) static constexpr float kNothing[kHeadDimMax] = {};
    combine(result, args.sinks[head], 1.0F, kNothing, head_dim(args));
  }
  const Vf inverse = simd::div(simd::set1(args.v_scale), simd::set1(*result.sum));
  for (int d = 0; d < head_dim(args); d += kLanes)
    simd::store(y + d, simd::mul(simd::load(result.output + d), inverse));
}

std::int64_t qkv_stride(const met::AttentionArgs& args) {
  return std::int64_t{args.heads + 2 * args.kv_heads} * head_dim(args);
}

/// Queries [first, first + count) of the list (row, kv head); query i is token i / group, head i % group.
Chunk make_chunk(const met::AttentionArgs& args, const met::StepRow& row, int kv_head, int first, int count) {
  const int group = group_of(args);
  Chunk chunk;
  const std::int64_t head_elements = kv_head_elements(head_dim(args));
  chunk.k_cache = static_cast<const KvElement*>(args.k_cache) + kv_head * head_elements;
  chunk.v_cache = static_cast<const KvElement*>(args.v_cache) + kv_head * head_elements;
  chunk.table = args.block_table + row.table_begin;
  chunk.block_stride = args.kv_heads * head_elements;
  chunk.count = count;
  for (int i = 0; i < count; ++i) {
    const int token = (first + i) / group;
    const int head = kv_head * group + (first + i) % group;
    const std::int32_t position = row.position + token;
    Query& query = chunk.query[i];
    query.q = args.qkv + (row.token_begin + token) * qkv_stride(args) + std::int64_t{head} * head_dim(args);
    query.end = position + 1;
    query.begin = args.window > 0 && position >= args.window ? position - args.window + 1 : 0;
  }
  chunk.blocks = (chunk.query[count - 1].end + kBlock - 1) / kBlock;
  return chunk;
}

bool sees(const Query& query, std::int32_t tile_begin) {
  return query.begin < tile_begin + kTile && query.end > tile_begin;
}

/// One chunk over all its tiles.
void attend(const met::AttentionArgs& args, const met::StepRow& row, int kv_head, int first, int count) {
  const int group = group_of(args);
  const Chunk chunk = make_chunk(args, row, kv_head, first, count);
  Tile tile;
  alignas(64) float output[kQueries][kHeadDimMax];
  float max[kQueries];
  float sum[kQueries];
  for (int i = 0; i < count; ++i) {
    max[i] = kMinusInfinity;
    sum[i] = 0.0F;
    std::memset(output[i], 0, static_cast<std::size_t>(head_dim(args)) * sizeof(float));
  }
  const std::int32_t end = chunk.query[count - 1].end;
  for (std::int32_t t = chunk.query[0].begin / kTile * kTile; t < end; t += kTile) {
    attend_tile(args, chunk, t, tile);
    for (int i = 0; i < count; ++i)
      if (sees(chunk.query[i], t))
        combine({&max[i], &sum[i], output[i]}, tile.max[i], tile.sum[i], tile.output[i], head_dim(args));
  }
  for (int i = 0; i < count; ++i) {
    const int head = kv_head * group + (first + i) % group;
    const std::int64_t token = row.token_begin + (first + i) / group;
    finish(args, head, {&max[i], &sum[i], output[i]}, args.y + (token * args.heads + head) * head_dim(args));
  }
}

int chunks_of(const met::AttentionArgs& args, const met::StepRow& row) {
  return (row.tokens * (group_of(args)) + kQueries - 1) / kQueries;
}

/// Whole chunks as items, the last (longest) first.
void attend_whole(const met::AttentionArgs& args, const MetCpuContext* ctx) {
  std::int64_t items = 0;
  for (int r = 0; r < args.counts->rows; ++r)
    items += std::int64_t{chunks_of(args, args.step_rows[r])} * args.kv_heads;
  int r = args.counts->rows;
  std::int64_t row_begin = items;  // the first item of row r
  for (;;) {
    const std::int64_t item = items - 1 - met_next(ctx, 1);
    if (item < 0) return;
    while (item < row_begin) row_begin -= std::int64_t{chunks_of(args, args.step_rows[--r])} * args.kv_heads;
    const met::StepRow& row = args.step_rows[r];
    const int queries = row.tokens * (group_of(args));
    const auto chunk = static_cast<int>((item - row_begin) / args.kv_heads);
    const auto kv_head = static_cast<int>((item - row_begin) % args.kv_heads);
    const int first = chunk * kQueries;
    attend(args, row, kv_head, first, queries - first < kQueries ? queries - first : kQueries);
  }
}

/// Partial results of decode rows in the workspace: [list][tile][query] of (maximum, sum, 14 unused, output).
struct Split {
  std::int32_t tiles;  // of the longest row
  int group;
  std::size_t floats;
  float* base;
  float* at(std::int64_t list, std::int32_t tile, int query) const {
    return base + static_cast<std::size_t>((list * tiles + tile) * group + query) * floats;
  }
};

/// Decode rows by tile: results of single tiles to the workspace, then combined in order.
void attend_split(const met::AttentionArgs& args, const MetCpuContext* ctx, const Split& split) {
  const int lists = args.counts->rows * args.kv_heads;
  for (;;) {
    const std::int64_t item = met_next(ctx, 1);
    if (item >= std::int64_t{lists} * split.tiles) break;
    const std::int64_t list = item % lists;
    const auto t = static_cast<std::int32_t>(item / lists);
    const met::StepRow& row = args.step_rows[list / args.kv_heads];
    const Chunk chunk = make_chunk(args, row, static_cast<int>(list % args.kv_heads), 0, split.group);
    if (!sees(chunk.query[0], t * kTile)) continue;
    Tile tile;
    attend_tile(args, chunk, t * kTile, tile);
    for (int i = 0; i < split.group; ++i) {
      float* to = split.at(list, t, i);
      to[0] = tile.max[i];
      to[1] = tile.sum[i];
      std::memcpy(to + 16, tile.output[i], static_cast<std::size_t>(head_dim(args)) * sizeof(float));
    }
  }
  met_barrier(ctx);
  for (std::int64_t i = ctx->thread; i < std::int64_t{lists} * split.group; i += ctx->threads) {
    const std::int64_t list = i / split.group;
    const auto query = static_cast<int>(i % split.group);
    const auto kv_head = static_cast<int>(list % args.kv_heads);
    const met::StepRow& row = args.step_rows[list / args.kv_heads];
    const Chunk chunk = make_chunk(args, row, kv_head, query, 1);
    alignas(64) float output[kHeadDimMax] = {};
    float max = kMinusInfinity;
    float sum = 0.0F;
    for (std::int32_t t = chunk.query[0].begin / kTile; t * kTile < chunk.query[0].end; ++t) {
      const float* from = split.at(list, t, query);
      combine({&max, &sum, output}, from[0], from[1], from + 16, head_dim(args));
    }
    const int head = kv_head * split.group + query;
    finish(args, head, {&max, &sum, output},
           args.y + (std::int64_t{row.token_begin} * args.heads + head) * head_dim(args));
  }
}

void attend(const met::AttentionArgs& args, const MetCpuContext* ctx) {
  const int rows = args.counts->rows;
  const int group = group_of(args);
  std::int32_t longest = 0;
  bool decode_only = group <= kQueries;
  for (int r = 0; r < rows; ++r) {
    const std::int32_t end = args.step_rows[r].position + args.step_rows[r].tokens;
    longest = end > longest ? end : longest;
    decode_only = decode_only && args.step_rows[r].tokens == 1;
  }
  const std::int32_t tiles = (longest + kTile - 1) / kTile;
  // The bound of the workspace, attention_workspace_bytes, holds 4 lists a thread.
  if (decode_only && tiles > 1 && ctx->threads > 1 && rows * args.kv_heads < 4 * ctx->threads) {
    const std::size_t floats = static_cast<std::size_t>(head_dim(args)) + 16;
    attend_split(args, ctx, {tiles, group, floats, static_cast<float*>(args.workspace)});
  } else {
    attend_whole(args, ctx);
  }
}

}  // namespace
