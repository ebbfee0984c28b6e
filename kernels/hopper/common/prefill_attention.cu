// Causal attention of a step's prefill rows over their paged context: for token t at position p of its sequence, head h,
//   logit(j) = scale * q[t, h] . k[j, g],   soft-capped: softcap * tanh(logit / softcap) where softcap > 0
//   y[t, h]  = sum_j exp(logit(j)) v[j, g] / (sum_j exp(logit(j)) + exp(sinks[h]) where given)
//   over positions j <= p, and j > p - window where window > 0; g = h / (heads / kv_heads).
//
// Shapes   rows counts->decode_rows … counts->rows; q: the first heads * head_dim values of a row of qkv, BF16, normalised
//          and rotated; caches: [blocks, kv_heads, 16, head_dim], read through block_table[row.table_begin + j / 16];
//          y: [tokens, heads * head_dim] BF16. head_dim 16, 32, 64, 128, 256. Nothing behind a row's last position is
//          used, whatever it holds.
// Maps     q: qkv as [tokens, row of qkv], box 128 x 64; k, v: caches as [blocks * kv_heads * 16, head_dim], box 16 x 64;
//          swizzled.
// Rounding q . k and weights FP32 (exp2 of the special function unit), weights to BF16 before they meet v, sums FP32, one
//          rounding at the store. A row's bits do not depend on other rows.
// Launch   blocks of 384 threads, one a multiprocessor; any grid serves any step. Dependent.
// Cost     4 * head_dim * heads flops for each pair (query, position it sees). Bound by the tensor cores and, for
//          head_dim <= 128, nearly as much by exp2. A block takes 128 queries of one head: one warpgroup fetches
//          (tensor copies of 16 positions), two multiply 64 queries each and take turns, so that one's softmax runs
//          beside the other's products; within each, the softmax of a tile of keys runs beside the product of the last
//          weights with v. After FlashAttention-3, arXiv:2407.08608.
#include <cstdint>

#include "async.cuh"
#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "prefill_items.cuh"
#include "prefill_softmax.cuh"
#include "wgmma_registers.cuh"

namespace {

constexpr int kWarpLanes = 32;
constexpr int kGroupThreads = 128;  // of a warpgroup
constexpr int kConsumers = 2;       // warpgroups
constexpr int kThreads = (1 + kConsumers) * kGroupThreads;
constexpr int kGroupQueries = 64;
constexpr int kQueries = kConsumers * kGroupQueries;
constexpr int kBlockTokens = 16;  // of a cache block
constexpr int kSlab = 64;         // values of a swizzled row: wider heads are slabs one behind the other
constexpr int kSlabRowBytes = 128;
constexpr int kStages = 2;  // of keys, of values and of queries
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;
enum NamedBarrier { kTurn = 1, kOwn = kTurn + kConsumers };

template <int HeadDim, int Keys, int QueryStages>
struct Config {
  static constexpr int kHeadDim = HeadDim;
  static constexpr int kKeys = Keys;  // positions of a tile
  static constexpr int kQueryStages = QueryStages;
  static constexpr int kSlabs = (HeadDim + kSlab - 1) / kSlab;
  static constexpr int kWide = kSlabs * kSlab;  // head_dim as it lies in shared memory
  static constexpr int kTileBlocks = Keys / kBlockTokens;
  static constexpr int kQuerySlabBytes = kQueries * kSlabRowBytes;
  static constexpr int kKeySlabBytes = Keys * kSlabRowBytes;
  static constexpr int kBoxBytes = kBlockTokens * kSlabRowBytes;
  static constexpr int kQueryBytes = kSlabs * kQuerySlabBytes;
  static constexpr int kTileBytes = kSlabs * kKeySlabBytes;
  static constexpr int kScores = Keys / 2;  // of a thread
  static constexpr int kOutputs = kWide / 2;
  static_assert(kTileBlocks * kSlabs <= kWarpLanes, "a lane of the producer fetches one box of a tile");
};

/// Offsets in shared memory, from a multiple of 1024.
template <class C>
struct Layout {
  static constexpr int kQ = 0;
  static constexpr int kK = kQ + C::kQueryStages * C::kQueryBytes;
  static constexpr int kV = kK + kStages * C::kTileBytes;
  static constexpr int kBarriers = kV + kStages * C::kTileBytes;
  static constexpr int kItems = kBarriers + 128;
  static constexpr int kBytes = kItems + C::kQueryStages * 32;
  static_assert(kBytes + 1024 <= 227 * 1024);
};

/// A ring of stages: the barrier pairs and where a walker stands in it.
template <int Stages>
struct Ring {
  std::uint32_t full, empty;  // first barrier of each kind
  int stage = 0;
  int round = 0;

  __device__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      round ^= 1;
    }
  }
  __device__ std::uint32_t full_at() const { return full + 8 * stage; }
  __device__ std::uint32_t empty_at() const { return empty + 8 * stage; }
  __device__ void wait_full() const { barrier_wait(full_at(), round); }
  __device__ void wait_empty() const { barrier_wait(empty_at(), round ^ 1); }
};

template <class C>
struct Shared {
  std::uint32_t base;
  unsigned char* bytes;

  __device__ std::uint32_t q(int stage) const { return base + Layout<C>::kQ + stage * C::kQueryBytes; }
  __device__ std::uint32_t k(int stage) const { return base + Layout<C>::kK + stage * C::kTileBytes; }
  __device__ std::uint32_t v(int stage) const { return base + Layout<C>::kV + stage * C::kTileBytes; }
  __device__ std::uint32_t barriers() const { return base + Layout<C>::kBarriers; }
  __device__ PrefillItem* item(int stage) const {
    return reinterpret_cast<PrefillItem*>(bytes + Layout<C>::kItems) + stage;
  }
  __device__ Ring<C::kQueryStages> query_ring() const { return {barriers(), barriers() + 16}; }
  __device__ Ring<kStages> key_ring() const { return {barriers() + 32, barriers() + 48}; }
  __device__ Ring<kStages> value_ring() const { return {barriers() + 64, barriers() + 80}; }
};

/// Tiles of keys that an item's queries see.
struct TileRange {
  int begin, end;
};

template <class C>
__device__ TileRange tiles_of(const PrefillItem& item, int window) {
  const int first = window > 0 ? max(0, item.position - window + 1) : 0;
  return {first / C::kKeys, (item.position + item.queries + C::kKeys - 1) / C::kKeys};
}

// ---- the producer warps ----

/// Fetches an item's tiles of keys or of values, last tile first.
template <class C>
__device__ void fetch_tiles(const met::PrefillAttentionArgs& args, const PrefillItem& item,
                            const met::DeviceTensorMap& map, std::uint32_t to, Ring<kStages>& ring) {
  const met::AttentionLayerArgs& layer = args.layer;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int block = lane / C::kSlabs;
  const int slab = lane % C::kSlabs;
  const int kv_head = item.head / (layer.heads / layer.kv_heads);
  const TileRange range = tiles_of<C>(item, layer.window);
  // Blocks in front of the window may be gone from the table: the first one inside stands in for them.
  const int first_block = layer.window > 0 ? max(0, item.position - layer.window + 1) / kBlockTokens : 0;
  for (int tile = range.end - 1; tile >= range.begin; --tile) {
    const int written = (item.row_end - tile * C::kKeys + kBlockTokens - 1) / kBlockTokens;
    const int blocks = min(C::kTileBlocks, written);
    const bool mine = block < blocks;
    int row = 0;
    if (mine) {
      const int entry = max(tile * C::kTileBlocks + block, first_block);
      row = (args.block_table[item.table_begin + entry] * layer.kv_heads + kv_head) * kBlockTokens;
    }
    ring.wait_empty();
    if (lane == 0) barrier_expect(ring.full_at(), blocks * C::kSlabs * C::kBoxBytes);
    __syncwarp();
    if (mine)
      load_box(to + ring.stage * C::kTileBytes + slab * C::kKeySlabBytes + block * C::kBoxBytes, map,
               slab * kSlab, row, ring.full_at());
    ring.advance();
  }
}

/// Warp 0: items, queries and keys.
template <class C>
__device__ void produce_keys(const met::PrefillAttentionArgs& args, const Shared<C>& shared) {
  PrefillItems<kQueries> items(args);
  auto queries = shared.query_ring();
  auto keys = shared.key_ring();
  const bool leads = threadIdx.x % kWarpLanes == 0;
  while (true) {
    const PrefillItem item = items.next();
    queries.wait_empty();
    if (leads) {
      *shared.item(queries.stage) = item;
      if (item.head < 0) {
        barrier_arrive(queries.full_at());
      } else {
        barrier_expect(queries.full_at(), C::kQueryBytes);
        for (int slab = 0; slab < C::kSlabs; ++slab)
          load_box(shared.q(queries.stage) + slab * C::kQuerySlabBytes, args.q_map,
                   item.head * C::kHeadDim + slab * kSlab, item.token, queries.full_at());
      }
    }
    __syncwarp();
    if (item.head < 0) return;
    queries.advance();
    fetch_tiles<C>(args, item, args.k_map, shared.k(0), keys);
  }
}

/// Warp 1: values, by the same walk.
template <class C>
__device__ void produce_values(const met::PrefillAttentionArgs& args, const Shared<C>& shared) {
  PrefillItems<kQueries> items(args);
  auto values = shared.value_ring();
  while (true) {
    const PrefillItem item = items.next();
    if (item.head < 0) return;
    fetch_tiles<C>(args, item, args.v_map, shared.v(0), values);
  }
}

// ---- the consumer warpgroups ----

__device__ inline void release(std::uint32_t barrier) {
  if (threadIdx.x % kWarpLanes == 0) barrier_arrive(barrier);
}

__device__ inline void arrive_named(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <class C>
class Consumer {
 public:
  __device__ Consumer(const met::PrefillAttentionArgs& args, const Shared<C>& shared)
      : args_(args),
        shared_(shared),
        queries_(shared.query_ring()),
        keys_(shared.key_ring()),
        values_(shared.value_ring()),
        group_(static_cast<int>(threadIdx.x) / kGroupThreads - 1),
        lane_(static_cast<int>(threadIdx.x) % kWarpLanes),
        row_(group_ * kGroupQueries + static_cast<int>(threadIdx.x) % kGroupThreads / kWarpLanes * 16 +
             lane_ / 4) {}

  __device__ void run() {
    if (group_ == 1) arrive_named(kTurn, 2 * kGroupThreads);  // the first turn is group 0's
    while (true) {
      queries_.wait_full();
      const PrefillItem item = *shared_.item(queries_.stage);
      if (item.head < 0) return;
      attend(item);
      queries_.advance();
    }
  }

 private:
  static constexpr int kKeys = C::kKeys;

  __device__ void attend(const PrefillItem& item) {
    const met::AttentionLayerArgs& layer = args_.layer;
    const TileRange range = tiles_of<C>(item, layer.window);
    // Between these two no query of the block has a hidden position.
    int open_end = (item.position + 1) / kKeys;
    int open_begin =
        layer.window > 0 ? max(0, item.position + item.queries - 1 - layer.window + kKeys) / kKeys : 0;
    if (layer.softcap > 0.0F) open_begin = open_end = range.begin;
    Softmax softmax{layer.softcap > 0.0F ? kLog2E : layer.scale * kLog2E};
    float o[C::kOutputs] = {};
    float s[C::kScores];
    std::uint32_t p[C::kScores / 2];

    int tile = range.end - 1;
    keys_.wait_full();
    wgmma_fence();
    multiply_keys(s);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_pin(s);
    release(keys_.empty_at());
    keys_.advance();
    restrict_scores(s, layer.scale, layer.softcap, seen(item, tile));
    softmax.template weigh<true>(s);
    pack_weights(s, p);
    if (item.row_end < (tile + 1) * kKeys) clear_unwritten(item.row_end - tile * kKeys);

    for (--tile; tile >= max(open_end, range.begin); --tile) step<true>(item, tile, softmax, s, p, o);
    for (; tile >= max(open_begin, range.begin); --tile) step<false>(item, tile, softmax, s, p, o);
    for (; tile >= range.begin; --tile) step<true>(item, tile, softmax, s, p, o);

    values_.wait_full();
    wgmma_fence();
    multiply_values(p, o);
    wgmma_commit();
    release(queries_.empty_at());
    wgmma_wait<0>();
    wgmma_pin(o);
    release(values_.empty_at());
    values_.advance();
    store(item, softmax, o);
  }

  /// The scores of `tile` beside the last tile's weights times values; then its weights beside those.
  template <bool Restricted>
  __device__ void step(const PrefillItem& item, int tile, Softmax& softmax, float (&s)[C::kScores],
                       std::uint32_t (&p)[C::kScores / 2], float (&o)[C::kOutputs]) {
    keys_.wait_full();
    named_barrier(kTurn + group_, 2 * kGroupThreads);
    wgmma_fence();
    multiply_keys(s);
    wgmma_commit();
    values_.wait_full();
    wgmma_fence();
    multiply_values(p, o);
    wgmma_commit();
    arrive_named(kTurn + (group_ ^ 1), 2 * kGroupThreads);
    wgmma_wait<1>();
    wgmma_pin(s);
    release(keys_.empty_at());
    keys_.advance();
    if constexpr (Restricted) restrict_scores(s, args_.layer.scale, args_.layer.softcap, seen(item, tile));
    softmax.template weigh<Restricted>(s);
    wgmma_wait<0>();
    wgmma_pin(o);
    release(values_.empty_at());
    values_.advance();
    pack_weights(s, p);
    softmax.rescale_output(o);
  }

  /// s = q k^T
  __device__ void multiply_keys(float (&s)[C::kScores]) const {
    const std::uint64_t q =
        wgmma_descriptor(shared_.q(queries_.stage) + group_ * kGroupQueries * kSlabRowBytes);
    const std::uint64_t k = wgmma_descriptor(shared_.k(keys_.stage));
#pragma unroll
    for (int i = 0; i < C::kHeadDim / 16; ++i) {
      const int slab = i / 4;
      const int within = i % 4 * 32;
      Wgmma<kKeys>::bf16(s, q + ((slab * C::kQuerySlabBytes + within) >> 4),
                         k + ((slab * C::kKeySlabBytes + within) >> 4), i != 0);
    }
  }

  /// o += p v
  __device__ void multiply_values(const std::uint32_t (&p)[C::kScores / 2], float (&o)[C::kOutputs]) const {
    const std::uint64_t v = wgmma_descriptor_rows(shared_.v(values_.stage), C::kKeySlabBytes);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      WgmmaRegisters<C::kWide>::bf16(o, p + 4 * i, v + ((i * 16 * kSlabRowBytes) >> 4));
  }

  __device__ SeenColumns seen(const PrefillItem& item, int tile) const {
    const int window = args_.layer.window;
    SeenColumns columns;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      columns.end[half] = item.position + row_ + 8 * half + 1 - tile * kKeys - 2 * (lane_ % 4);
      columns.lowest[half] = window > 0 ? columns.end[half] - window : 0 - kKeys;
    }
    return columns;
  }

  /// Zeroes the values of the tile from its row `from` on: weights there are 0, but 0 times what memory held may be NaN.
  __device__ void clear_unwritten(int from) const {
    values_.wait_full();
    unsigned char* tile = shared_.bytes + Layout<C>::kV + values_.stage * C::kTileBytes;
    constexpr int kVectors = kSlabRowBytes / 16;
    const int vectors = (kKeys - from) * kVectors;
    for (int at = static_cast<int>(threadIdx.x) % kGroupThreads; at < C::kSlabs * vectors;
         at += kGroupThreads)
      reinterpret_cast<uint4*>(tile + at / vectors * C::kKeySlabBytes)[from * kVectors + at % vectors] =
          uint4{};
    async_proxy_fence();
    named_barrier(kOwn + group_, kGroupThreads);
  }

  __device__ void store(const PrefillItem& item, const Softmax& softmax,
                        const float (&o)[C::kOutputs]) const {
    const met::AttentionLayerArgs& layer = args_.layer;
    const float sink = layer.sinks != nullptr ? layer.sinks[item.head] : kNoScore;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float by = softmax.normaliser(half, sink);
      const int row = row_ + 8 * half;
      met::Bf16Bits* out =
          args_.y + (static_cast<std::int64_t>(item.token + row) * layer.heads + item.head) * C::kHeadDim;
#pragma unroll
      for (int columns = 0; columns < C::kHeadDim; columns += 32) {
        std::uint32_t words[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int at = columns / 2 + 4 * k + 2 * half;
          words[k] = pack_pair(o[at] * by, o[at + 1] * by);
        }
        transpose_quad(words);
        const int column = columns + lane_ % 4 * 8;
        if (row < item.queries && column < C::kHeadDim)
          *reinterpret_cast<uint4*>(out + column) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  const met::PrefillAttentionArgs& args_;
  const Shared<C>& shared_;
  Ring<C::kQueryStages> queries_;
  Ring<kStages> keys_;
  Ring<kStages> values_;
  int group_;  // consumer warpgroup
  int lane_;
  int row_;  // first of the thread's two queries in the item
};

template <class C>
__device__ void prefill_attention(const met::PrefillAttentionArgs& args) {
  launch_dependents();
  extern __shared__ unsigned char raw[];
  unsigned char* bytes = raw + (1024 - shared_address(raw) % 1024) % 1024;
  const Shared<C> shared{shared_address(bytes), bytes};
  if (threadIdx.x == 0) {
    prefetch_map(args.q_map);
    prefetch_map(args.k_map);
    prefetch_map(args.v_map);
    constexpr int kConsumerWarps = kConsumers * kGroupThreads / kWarpLanes;
    for (int ring = 0; ring < 3; ++ring)
      for (int stage = 0; stage < 2; ++stage) {
        barrier_init(shared.barriers() + 32 * ring + 8 * stage, 1);
        barrier_init(shared.barriers() + 32 * ring + 16 + 8 * stage, kConsumerWarps);
      }
    barrier_init_fence();
  }
  __syncthreads();
  wait_for_producers();
  if (threadIdx.x < kGroupThreads) {
    registers_decrease<kProducerRegisters>();
    const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
    if (warp == 0) produce_keys<C>(args, shared);
    if (warp == 1) produce_values<C>(args, shared);
  } else {
    registers_increase<kConsumerRegisters>();
    Consumer<C>(args, shared).run();
  }
}

}  // namespace

#define MET_PREFILL_ATTENTION(head_dim, keys, query_stages)                                      \
  extern "C" __global__ __launch_bounds__(kThreads, 1) void prefill_attention_##head_dim##_bf16( \
      const __grid_constant__ met::PrefillAttentionArgs args) {                                  \
    prefill_attention<Config<head_dim, keys, query_stages>>(args);                               \
  }

MET_PREFILL_ATTENTION(16, 128, 2)
MET_PREFILL_ATTENTION(32, 128, 2)
MET_PREFILL_ATTENTION(64, 128, 2)
MET_PREFILL_ATTENTION(128, 128, 2)
MET_PREFILL_ATTENTION(256, 64, 1)
