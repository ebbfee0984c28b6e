// Causal attention of a step's prefill rows over their paged context: for token t at position p of its sequence, head h,
//   logit(j) = scale * q[t, h] . k[j, g],   soft-capped: softcap * tanh(logit / softcap) where softcap > 0
//   y[t, h]  = sum_j exp(logit(j)) v[j, g] / (sum_j exp(logit(j)) + exp(sinks[h]) where given)
//   over positions j <= p, and j > p - window where window > 0; g = h / (heads / kv_heads); k and v are what the caches
//   hold times k_scale and v_scale.
//
// Shapes   rows counts->decode_rows … counts->rows; q: the first heads * head_dim values of a row of qkv, BF16, normalised
//          and rotated; caches: [blocks, kv_heads, 16, head_dim] BF16 or E4M3, read through
//          block_table[row.table_begin + j / 16]; y: [tokens, heads * head_dim] BF16. head_dim 16, 32, 64, 128, 256. Nothing
//          behind a row's last position is used, whatever it holds.
// Maps     q: qkv as [tokens, row of qkv], box 128 x 64; k, v: BF16 caches as [blocks * kv_heads * 16, head_dim], box
//          16 x 64; swizzled. E4M3 caches are read without maps.
// Rounding q . k and weights FP32 (exp2 of the special function unit), weights to BF16 before they meet v, sums FP32, one
//          rounding at the store. E4M3 becomes BF16 exactly. A row's bits do not depend on other rows.
// Launch   blocks of 384 threads, one a multiprocessor; any grid serves any step. Shared memory: Layout's bytes and 1024.
//          Dependent.
// Cost     4 * head_dim * heads flops for each pair (query, position it sees). Bound by the tensor cores, for head_dim <=
//          64 by exp2, with E4M3 by the warps that widen. A block takes 128 queries of one head at a time: one warpgroup
//          fetches (16 positions a copy), two multiply 64 queries each and take turns, so that one's softmax runs beside
//          the other's products; within each, the softmax of a tile of keys runs beside the product of the last weights
//          with v, over the borders of items too. After FlashAttention-3, arXiv:2407.08608.
#include <cstdint>

#include "async.cuh"
#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "prefill_items.cuh"
#include "prefill_narrow.cuh"
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
constexpr int kBoxBytes = kBlockTokens * kSlabRowBytes;
constexpr int kStages = 2;  // of keys, of values and of queries
enum NamedBarrier { kTurn = 1, kOwn = kTurn + kConsumers };

template <int HeadDim, int Keys, int QueryStages, bool Narrow>
struct Config {
  static constexpr bool kNarrow = Narrow;  // E4M3 caches: the producer warps widen what they read
  // Together no more than what the block starts with, 168 a thread: else the increase waits for ever.
  static constexpr int kProducerRegisters = Narrow ? (HeadDim > 128 ? 72 : 88) : 40;
  static constexpr int kConsumerRegisters = Narrow ? (HeadDim > 128 ? 216 : 208) : 232;
  static constexpr int kHeadDim = HeadDim;
  static constexpr int kKeys = Keys;  // positions of a tile
  static constexpr int kQueryStages = QueryStages;
  static constexpr int kSlabs = (HeadDim + kSlab - 1) / kSlab;
  static constexpr int kWide = kSlabs * kSlab;  // head_dim as it lies in shared memory
  static constexpr int kTileBlocks = Keys / kBlockTokens;
  static constexpr int kQuerySlabBytes = kQueries * kSlabRowBytes;
  static constexpr int kKeySlabBytes = Keys * kSlabRowBytes;
  static constexpr int kQueryBytes = kSlabs * kQuerySlabBytes;
  static constexpr int kTileBytes = kSlabs * kKeySlabBytes;
  static constexpr int kNarrowBytes = Narrow ? Keys * HeadDim : 0;
  static constexpr int kScores = Keys / 2;  // of a thread
  static constexpr int kOutputs = kWide / 2;
  static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= 168 * (1 + kConsumers));
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
  static constexpr int kNarrowK = kItems + 128;  // tiles of an E4M3 cache as they come
  static constexpr int kNarrowV = kNarrowK + C::kNarrowBytes;
  static constexpr int kBytes = kNarrowV + C::kNarrowBytes;
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
  __device__ std::uint32_t narrow_full(int which) const { return barriers() + 96 + 8 * which; }
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
    if (lane == 0) barrier_expect(ring.full_at(), blocks * C::kSlabs * kBoxBytes);
    __syncwarp();
    if (mine)
      load_box(to + ring.stage * C::kTileBytes + slab * C::kKeySlabBytes + block * kBoxBytes, map,
               slab * kSlab, row, ring.full_at());
    ring.advance();
  }
}

/// Hands an item and its queries to the consumers; a whole warp.
template <class C>
__device__ void publish(const met::PrefillAttentionArgs& args, const Shared<C>& shared,
                        const PrefillItem& item, Ring<C::kQueryStages>& queries) {
  queries.wait_empty();
  if (threadIdx.x % kWarpLanes == 0) {
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
  queries.advance();
}

/// Warp 0: items, queries and keys.
template <class C>
__device__ void produce_keys(const met::PrefillAttentionArgs& args, const Shared<C>& shared) {
  PrefillItems<kQueries> items(args);
  auto queries = shared.query_ring();
  auto keys = shared.key_ring();
  while (true) {
    const PrefillItem item = items.next();
    publish<C>(args, shared, item, queries);
    if (item.head < 0) return;
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

/// All producer warps, where the cache is E4M3. A tile of keys or of values comes by bulk copies, is widened by all four
/// warps, and then makes room for the next one.
template <class C>
class Widener {
 public:
  __device__ Widener(const met::PrefillAttentionArgs& args, const Shared<C>& shared)
      : args_(args),
        shared_(shared),
        keys_(shared.key_ring()),
        values_(shared.value_ring()),
        row_(static_cast<int>(threadIdx.x) / kRowChunks),
        place_(C::kKeySlabBytes, row_, static_cast<int>(threadIdx.x) % kRowChunks) {}

  __device__ void run() {
    PrefillItems<kQueries> items(args_);
    auto queries = shared_.query_ring();
    PrefillItem item = items.next();
    if (item.head >= 0) {
      const int last = tiles_of<C>(item, args_.layer.window).end - 1;
      if (warp() == 0) fetch(item, last, args_.layer.k_cache, Layout<C>::kNarrowK, shared_.narrow_full(0));
      if (warp() == 1) fetch(item, last, args_.layer.v_cache, Layout<C>::kNarrowV, shared_.narrow_full(1));
    }
    while (true) {
      if (warp() == 0) publish<C>(args_, shared_, item, queries);
      if (item.head < 0) return;
      const PrefillItem next = items.next();
      const TileRange range = tiles_of<C>(item, args_.layer.window);
      for (int tile = range.end - 1; tile >= range.begin; --tile) {
        const bool ends = tile == range.begin;
        const PrefillItem coming = ends ? next : item;
        const int coming_tile = ends ? tiles_of<C>(next, args_.layer.window).end - 1 : tile - 1;
        const int written = item.row_end - tile * C::kKeys;
        widen(keys_, shared_.k(0), Layout<C>::kNarrowK, 0, written);
        if (warp() == 0 && coming.head >= 0)
          fetch(coming, coming_tile, args_.layer.k_cache, Layout<C>::kNarrowK, shared_.narrow_full(0));
        widen(values_, shared_.v(0), Layout<C>::kNarrowV, 1, written);
        if (warp() == 1 && coming.head >= 0)
          fetch(coming, coming_tile, args_.layer.v_cache, Layout<C>::kNarrowV, shared_.narrow_full(1));
        parity_ ^= 1;
      }
      item = next;
    }
  }

 private:
  static constexpr int kRowChunks = C::kHeadDim / 16;
  static constexpr int kPassRows =
      kGroupThreads / kRowChunks;                       // that the warps take at a time, one chunk a thread
  static constexpr int kChunks = C::kKeys / kPassRows;  // of a thread
  static_assert(kPassRows % 8 == 0, "a thread's place in the swizzle is the same in all passes");

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / kWarpLanes; }

  /// One warp: the blocks of a tile, one after another, to `to`.
  __device__ void fetch(const PrefillItem& item, int tile, const void* cache, int to,
                        std::uint32_t full) const {
    constexpr int kCopyBytes = kBlockTokens * C::kHeadDim;
    const met::AttentionLayerArgs& layer = args_.layer;
    const int block = static_cast<int>(threadIdx.x) % kWarpLanes;
    const int written = (item.row_end - tile * C::kKeys + kBlockTokens - 1) / kBlockTokens;
    const int blocks = min(C::kTileBlocks, written);
    const int first = layer.window > 0 ? max(0, item.position - layer.window + 1) / kBlockTokens : 0;
    if (block == 0) barrier_expect(full, blocks * kCopyBytes);
    __syncwarp();
    if (block >= blocks) return;
    const int kv_head = item.head / (layer.heads / layer.kv_heads);
    const int entry = args_.block_table[item.table_begin + max(tile * C::kTileBlocks + block, first)];
    const std::int64_t from = (static_cast<std::int64_t>(entry) * layer.kv_heads + kv_head) * kCopyBytes;
    bulk_copy(shared_.base + to + block * kCopyBytes, static_cast<const unsigned char*>(cache) + from,
              kCopyBytes, full);
  }

  /// A tile from where it came to its stage of `ring`; rows from `written` on as zeros.
  __device__ void widen(Ring<kStages>& ring, std::uint32_t tiles, int from, int which, int written) {
    barrier_wait(shared_.narrow_full(which), parity_);
    ring.wait_empty();
    const uint4* narrow = reinterpret_cast<const uint4*>(shared_.bytes + from) + threadIdx.x;
    const std::uint32_t tile = tiles + ring.stage * C::kTileBytes;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const uint4 values = i * kPassRows + row_ < written ? narrow[i * kGroupThreads] : uint4{};
      place_.store(tile + i * kPassRows * kSlabRowBytes, values);
    }
    async_proxy_fence();
    __syncwarp();
    if (threadIdx.x % kWarpLanes == 0) barrier_arrive(ring.full_at());
    ring.advance();
    named_barrier(kOwn + kConsumers, kGroupThreads);
  }

  const met::PrefillAttentionArgs& args_;
  const Shared<C>& shared_;
  Ring<kStages> keys_;
  Ring<kStages> values_;
  int row_;         // of the thread's first chunk
  int parity_ = 0;  // of the narrow tiles' barriers
  WidenedPlace place_;
};

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
        scale_(args.layer.scale * args.layer.k_scale),
        row_(group_ * kGroupQueries + static_cast<int>(threadIdx.x) % kGroupThreads / kWarpLanes * 16 +
             lane_ / 4) {}

  __device__ void run() {
    if (group_ == 1) arrive_named(kTurn, 2 * kGroupThreads);  // the first turn is group 0's
    PrefillItem item = next_item();
    if (item.head < 0) return;
    const met::AttentionLayerArgs& layer = args_.layer;
    float s[C::kScores];
    std::uint32_t p[C::kScores / 2];
    float o[C::kOutputs] = {};
    Softmax softmax{exponent_scale()};
    TileRange range = tiles_of<C>(item, layer.window);
    first_scores(s);
    begin(item, range, softmax, s);
    pack_weights(s, p);
    clear_unwritten(item, range);
    while (true) {
      walk(item, range, softmax, s, p, o);
      if (!kReleasesEarly) release(queries_.empty_at());
      queries_.advance();
      const PrefillItem next = next_item();
      if (next.head < 0) break;
      // The first scores of the next item beside the last weights times values of this one.
      multiply(s, p, o);
      range = tiles_of<C>(next, layer.window);
      Softmax next_softmax{exponent_scale()};
      begin(next, range, next_softmax, s);
      settle(o);
      store(item, softmax, o);
      item = next;
      softmax = next_softmax;
#pragma unroll
      for (int i = 0; i < C::kOutputs; ++i) o[i] = 0.0F;
      pack_weights(s, p);
      clear_unwritten(item, range);
    }
    values_.wait_full();
    wgmma_fence();
    multiply_values(p, o);
    wgmma_commit();
    settle(o);
    store(item, softmax, o);
  }

 private:
  static constexpr int kKeys = C::kKeys;
  /// With one tile of queries in shared memory the next is fetched as soon as the last scores are there.
  static constexpr bool kReleasesEarly = C::kQueryStages == 1;

  __device__ PrefillItem next_item() const {
    queries_.wait_full();
    return *shared_.item(queries_.stage);
  }

  __device__ float exponent_scale() const { return args_.layer.softcap > 0.0F ? kLog2E : scale_ * kLog2E; }

  /// Scores of a block's very first tile, beside nothing.
  __device__ void first_scores(float (&s)[C::kScores]) {
    keys_.wait_full();
    wgmma_fence();
    multiply_keys(s);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_pin(s);
    release(keys_.empty_at());
    keys_.advance();
  }

  /// Weights of an item's first tile, the one with the diagonal.
  __device__ void begin(const PrefillItem& item, const TileRange& range, Softmax& softmax,
                        float (&s)[C::kScores]) const {
    if (kReleasesEarly && range.end - 1 == range.begin) release(queries_.empty_at());
    restrict_scores(s, scale_, args_.layer.softcap, seen(item, range.end - 1));
    softmax.template weigh<true>(s);
  }

  /// An item's tiles behind its first one.
  __device__ void walk(const PrefillItem& item, const TileRange& range, Softmax& softmax,
                       float (&s)[C::kScores], std::uint32_t (&p)[C::kScores / 2], float (&o)[C::kOutputs]) {
    const met::AttentionLayerArgs& layer = args_.layer;
    // Between these two no query of the block has a hidden position.
    int open_end = (item.position + 1) / kKeys;
    int open_begin =
        layer.window > 0 ? max(0, item.position + item.queries - 1 - layer.window + kKeys) / kKeys : 0;
    if (layer.softcap > 0.0F) open_begin = open_end = range.begin;
    int tile = range.end - 2;
    for (; tile >= max(open_end, range.begin); --tile) step<true>(item, range, tile, softmax, s, p, o);
    for (; tile >= max(open_begin, range.begin); --tile) step<false>(item, range, tile, softmax, s, p, o);
    for (; tile >= range.begin; --tile) step<true>(item, range, tile, softmax, s, p, o);
  }

  /// The scores of `tile` beside the last tile's weights times values; then its weights beside those.
  template <bool Restricted>
  __device__ void step(const PrefillItem& item, const TileRange& range, int tile, Softmax& softmax,
                       float (&s)[C::kScores], std::uint32_t (&p)[C::kScores / 2], float (&o)[C::kOutputs]) {
    multiply(s, p, o);
    if (kReleasesEarly && tile == range.begin) release(queries_.empty_at());
    if constexpr (Restricted) restrict_scores(s, scale_, args_.layer.softcap, seen(item, tile));
    softmax.template weigh<Restricted>(s);
    settle(o);
    pack_weights(s, p);
    softmax.rescale_output(o);
  }

  /// Both products in this group's turn; returns when the scores are there.
  __device__ void multiply(float (&s)[C::kScores], const std::uint32_t (&p)[C::kScores / 2],
                           float (&o)[C::kOutputs]) {
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
  }

  /// Waits for the weights times values.
  __device__ void settle(float (&o)[C::kOutputs]) {
    wgmma_wait<0>();
    wgmma_pin(o);
    release(values_.empty_at());
    values_.advance();
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
      WgmmaRegisters<C::kWide>::template bf16<Fastest::kColumns>(o, p + 4 * i,
                                                                 v + ((i * 16 * kSlabRowBytes) >> 4));
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

  /// Zeroes the values of an item's last tile that no row wrote: weights there are 0, but 0 times what memory held may be
  /// NaN.
  __device__ void clear_unwritten(const PrefillItem& item, const TileRange& range) const {
    const int from = item.row_end - (range.end - 1) * kKeys;
    if (C::kNarrow || from >= kKeys) return;
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
      const float by = softmax.normaliser(half, sink) * layer.v_scale;
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
  float scale_;  // of a score as multiplied
  int row_;      // first of the thread's two queries in the item
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
    constexpr int kFetchers =
        C::kNarrow ? kGroupThreads / kWarpLanes : 1;  // arrivals that fill keys and values
    for (int ring = 0; ring < 3; ++ring)
      for (int stage = 0; stage < 2; ++stage) {
        barrier_init(shared.barriers() + 32 * ring + 8 * stage, ring == 0 ? 1 : kFetchers);
        barrier_init(shared.barriers() + 32 * ring + 16 + 8 * stage, kConsumerWarps);
      }
    barrier_init(shared.narrow_full(0), 1);
    barrier_init(shared.narrow_full(1), 1);
    barrier_init_fence();
  }
  __syncthreads();
  wait_for_producers();
  if (threadIdx.x < kGroupThreads) {
    registers_decrease<C::kProducerRegisters>();
    [[maybe_unused]] const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
    if constexpr (C::kNarrow) {
      Widener<C>(args, shared).run();
    } else {
      if (warp == 0) produce_keys<C>(args, shared);
      if (warp == 1) produce_values<C>(args, shared);
    }
  } else {
    registers_increase<C::kConsumerRegisters>();
    Consumer<C>(args, shared).run();
  }
}

}  // namespace

#define MET_PREFILL_ATTENTION(head_dim, cache, keys, query_stages, narrow)                          \
  extern "C" __global__ __launch_bounds__(kThreads, 1) void prefill_attention_##head_dim##_##cache( \
      const __grid_constant__ met::PrefillAttentionArgs args) {                                     \
    prefill_attention<Config<head_dim, keys, query_stages, narrow>>(args);                          \
  }

MET_PREFILL_ATTENTION(16, bf16, 128, 2, false)
MET_PREFILL_ATTENTION(32, bf16, 128, 2, false)
MET_PREFILL_ATTENTION(64, bf16, 128, 2, false)
MET_PREFILL_ATTENTION(128, bf16, 128, 2, false)
MET_PREFILL_ATTENTION(256, bf16, 64, 1, false)
MET_PREFILL_ATTENTION(16, e4m3, 128, 2, true)
MET_PREFILL_ATTENTION(32, e4m3, 128, 2, true)
MET_PREFILL_ATTENTION(64, e4m3, 128, 2, true)
MET_PREFILL_ATTENTION(128, e4m3, 128, 2, true)
MET_PREFILL_ATTENTION(256, e4m3, 64, 1, true)
