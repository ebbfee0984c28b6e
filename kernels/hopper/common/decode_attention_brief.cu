// Decode attention of few rows with short contexts, whose time is latency: formula, shapes, rounding and rows as
// decode_attention.cu.
//
// Launch   grid (rows * splits, key-value heads), clusters of `splits` blocks along x, up to 8; 128 threads. A block takes one
//          split of one row: of a row's `splits`, those that its context has use for. Up to 8 query heads a key-value head.
//          Dependent: as decode_attention.cu, the next kernel may start at once.
// Cost     a warp has its first 16 positions in registers before the wait. A block has at most 16,384 registers, what a decode
//          projection of 384 threads leaves of a multiprocessor's, so it runs beside the one in front. Each block sends its
//          sums to the cluster's first, where their bytes count at a barrier: no memory, fence or counter is between a row's
//          splits. One row of 256 positions between two projections: 6.3 us, joined through memory 10.8.
#include "async.cuh"
#include "decode_heads.cuh"
#include "decode_join.cuh"
#include "decode_softmax.cuh"
#include "decode_work.cuh"
#include "pdl.cuh"

namespace {

constexpr int kClusterMax = 8;

template <class C>
struct ClusterShared : Shared<C> {
  /// What the cluster's other blocks send to the first: sums of each head, behind them the highest exponent and the total.
  alignas(16) float sent[kClusterMax - 1][C::kHeads][C::kDim + 4];
  std::uint64_t arrived;
};

/// Highest exponent, total and four values of the output.
struct Four {
  float highest;
  float total;
  float4 out;

  __device__ explicit Four(float most) : highest(most), total(0.0F), out{0.0F, 0.0F, 0.0F, 0.0F} {}
  __device__ void add(float its_highest, float its_total, float4 its) {
    const float weight = exp2_fast(its_highest - highest);
    total = fmaf(weight, its_total, total);
    out.x = fmaf(weight, its.x, out.x);
    out.y = fmaf(weight, its.y, out.y);
    out.z = fmaf(weight, its.z, out.z);
    out.w = fmaf(weight, its.w, out.w);
  }
};

/// The warps of a block, in order.
template <class C>
__device__ Four join_block(const Shared<C>& shared, int head, int d) {
  float highest = -INFINITY;
#pragma unroll
  for (int w = 0; w < C::kWarps; ++w) highest = fmaxf(highest, shared.highest[w][head]);
  Four all(highest);
#pragma unroll
  for (int w = 0; w < C::kWarps; ++w)
    if (shared.highest[w][head] != -INFINITY)  // the warp had a tile
      all.add(shared.highest[w][head], shared.total[w][head],
              *reinterpret_cast<const float4*>(&shared.sums[w][head][d]));
  return all;
}

/// The blocks of a cluster, `own` the first, in order.
template <class C>
__device__ Four join_cluster(const ClusterShared<C>& shared, const Four& own, int others, int head, int d) {
  float highest = own.highest;
  for (int i = 0; i < others; ++i) highest = fmaxf(highest, shared.sent[i][head][C::kDim]);
  Four all(highest);
  all.add(own.highest, own.total, own.out);
  for (int i = 0; i < others; ++i) {
    const float* sent = shared.sent[i][head];
    all.add(sent[C::kDim], sent[C::kDim + 1], *reinterpret_cast<const float4*>(sent + d));
  }
  return all;
}

template <class C>
__device__ void send(ClusterShared<C>& shared, const Four& own, int rank, int head, int d) {
  float* sent = shared.sent[rank - 1][head];
  const std::uint32_t barrier = peer_address(shared_address(&shared.arrived), 0);
  peer_store_counted(peer_address(shared_address(sent + d), 0), own.out, barrier);
  if (d == 0)
    peer_store_counted(peer_address(shared_address(sent + C::kDim), 0),
                       make_float4(own.highest, own.total, 0.0F, 0.0F), barrier);
}

/// Four values of each of 8 lanes that share a scale.
__device__ inline void store_codes(const met::CodedRows& to, int t, int column, float4 v) {
  constexpr int kLanes = kScaleValues / 4;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const unsigned sharers = 0xffU << (lane / kLanes * kLanes);
  float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) most = fmaxf(most, __shfl_xor_sync(sharers, most, step));
  const float scale = e4m3_scale(most);
  const float inverse = 1.0F / scale;
  const std::int64_t at = static_cast<std::int64_t>(t) * to.width + column;
  *reinterpret_cast<std::uint32_t*>(to.codes + at) =
      e4m3_codes(v.x * inverse, v.y * inverse, v.z * inverse, v.w * inverse);
  if (lane % kLanes == 0) *scale_place(to, t, column) = scale;
}

template <class C>
__device__ void store_four(const met::DecodeAttentionArgs& args, const Work& work, const Four& all, int head,
                           int d) {
  const float total = all.total + exp2_fast(sink_of(args.layer, work.head + head) - all.highest);
  const float factor = args.layer.v_scale / total;
  const float4 v = {all.out.x * factor, all.out.y * factor, all.out.z * factor, all.out.w * factor};
  const int column = (work.head + head) * C::kDim + d;
  if (args.coded.codes != nullptr) return store_codes(args.coded, work.row.token_begin, column, v);
  const std::int64_t row = static_cast<std::int64_t>(work.row.token_begin) * args.layer.heads * C::kDim;
  *reinterpret_cast<uint2*>(args.y + row + column) =
      make_uint2(Bf16Cache::pack(v.x, v.y), Bf16Cache::pack(v.z, v.w));
}

/// From the warps' sums to the output, by way of the cluster's first block.
template <class C>
__device__ void join_splits(const met::DecodeAttentionArgs& args, const Work& work,
                            ClusterShared<C>& shared) {
  constexpr int kParts = C::kDim / 4;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < work.heads * kParts; i += C::kThreads) {
    const int head = i / kParts;
    const int d = i % kParts * 4;
    const Four own = join_block<C>(shared, head, d);
    if (work.split > 0) {
      send<C>(shared, own, work.split, head, d);
      continue;
    }
    barrier_wait(shared_address(&shared.arrived), 0);
    store_four<C>(args, work, join_cluster<C>(shared, own, work.active - 1, head, d), head, d);
  }
}

/// The block's item, in the warp's own place. False: there is none.
template <class C>
__device__ bool find_work(const met::DecodeAttentionArgs& args, Work& work, int lane) {
  const int row_index = static_cast<int>(blockIdx.x) / args.splits;
  if (row_index >= args.counts->decode_rows) return false;
  const int4 row = __ldg(reinterpret_cast<const int4*>(args.rows) + row_index);
  const Work own =
      work_of<C>(args, {row.x, row.y, row.z, row.w}, row_index, static_cast<int>(cluster_rank()));
  if (own.begin >= own.end) return false;
  if (lane == 0) work = own;
  __syncwarp();
  return true;
}

template <class C>
__device__ void decode_attention_brief(const met::DecodeAttentionArgs& args) {
  __shared__ ClusterShared<C> shared;
  launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (threadIdx.x == 0) {
    barrier_init(shared_address(&shared.arrived), 1);
    barrier_init_fence();
  }
  cluster_arrive_relaxed();
  Work& work = shared.work[0][warp];
  if (!find_work<C>(args, work, lane)) {
    // One block that waits is enough for the kernel to end after those in front; the others make room.
    if (blockIdx.x + blockIdx.y == 0) wait_for_producers();
    return;
  }
  Tiles<C> tiles(args, work, Tiles<C>::first_blocks(args, work, warp, lane), warp, lane);
  Tile<C> tile[1];
  load_first<C>(tiles, lane, tile);
  const std::int64_t slot = slot_of<C>(args, work);
  fetch_constants<C>(args.layer, shared);
  prepare_rotation<C>(args.layer, work, shared);
  const Scores scores(args.layer);
  if (work.split == 0 && threadIdx.x == 0) {
    constexpr int kHeadBytes = (C::kDim + 4) * static_cast<int>(sizeof(float));
    barrier_expect(shared_address(&shared.arrived), (work.active - 1) * work.heads * kHeadBytes);
  }
  meet<C>();
  cluster_wait();
  wait_for_producers();
  RawHeads<C> raw;
  raw.load(args, work, warp, lane);
  prepare_heads<C>(args.layer, work, raw, slot, shared, warp, lane);
  meet<C>();
  Sums<C> sums;
  sums.clear();
#pragma unroll 1
  for (int i = 0; i < tiles.count(); ++i) take<C>(tile[0], tiles, i, work, scores, shared, lane, sums);
  publish<C>(scores, shared, sums, warp, lane);
  meet<C>();
  join_splits<C>(args, work, shared);
}

}  // namespace

// One line an entry: name, cache, head size.
#define DECODE_ATTENTION_BRIEF(name, Cache, dim)                                 \
  extern "C" __global__ __launch_bounds__(                                       \
      128, 4) void name(const __grid_constant__ met::DecodeAttentionArgs args) { \
    decode_attention_brief<Config<Cache, dim, 8, 4, 1, 1, false>>(args);         \
  }

DECODE_ATTENTION_BRIEF(decode_attention_d64_bf16_brief, Bf16Cache, 64)
DECODE_ATTENTION_BRIEF(decode_attention_d128_bf16_brief, Bf16Cache, 128)
DECODE_ATTENTION_BRIEF(decode_attention_d64_e4m3_brief, E4m3Cache, 64)
DECODE_ATTENTION_BRIEF(decode_attention_d128_e4m3_brief, E4m3Cache, 128)
