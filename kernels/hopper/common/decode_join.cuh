// Joins the warps of a block of decode attention, then the splits of a row.
#pragma once

#include "decode_softmax.cuh"
#include "e4m3.cuh"

namespace {

template <class C>
__device__ void publish(const Scores& scores, Shared<C>& shared, const Sums<C>& sums, int warp, int lane) {
  using L = typename C::KeyLayout;
#pragma unroll
  for (int n = 0; n < C::kHeadTiles; ++n) {
    float total = sums.total[n];
    total += __shfl_xor_sync(kAll, total, 1);
    total += __shfl_xor_sync(kAll, total, 2);
    if (lane % 4 == 0 && 8 * n + lane / 4 < C::kHeads) {
      shared.highest[warp][8 * n + lane / 4] = sums.highest[n] * scores.scale;
      shared.total[warp][8 * n + lane / 4] = total;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = 8 * n + 2 * (lane % 4) + h;
      if (head >= C::kHeads) continue;
#pragma unroll
      for (int r = 0; r < C::kSteps; ++r)
        *reinterpret_cast<float2*>(&shared.sums[warp][head][L::value_dim(r, lane / 4)]) =
            make_float2(sums.out[n][r][h], sums.out[n][r][h + 2]);
    }
  }
}

/// Highest exponent, total and two values of the output, over the warps of the block.
struct Joined {
  float highest;
  float total;
  float2 out;
};

template <class C>
__device__ Joined join_warps(const Shared<C>& shared, int head, int d) {
  Joined all{-INFINITY, 0.0F, {0.0F, 0.0F}};
#pragma unroll
  for (int w = 0; w < C::kWarps; ++w) all.highest = fmaxf(all.highest, shared.highest[w][head]);
#pragma unroll
  for (int w = 0; w < C::kWarps; ++w) {
    if (shared.highest[w][head] == -INFINITY) continue;  // the warp had no tile
    const float weight = exp2_fast(shared.highest[w][head] - all.highest);
    const float2 part = *reinterpret_cast<const float2*>(&shared.sums[w][head][d]);
    all.total = fmaf(weight, shared.total[w][head], all.total);
    all.out.x = fmaf(weight, part.x, all.out.x);
    all.out.y = fmaf(weight, part.y, all.out.y);
  }
  return all;
}

__device__ inline float sink_of(const met::AttentionLayerArgs& layer, int head) {
  return layer.sinks != nullptr ? layer.sinks[head] * kLog2e : -INFINITY;
}

/// Two values of each of 16 lanes that share a scale.
__device__ inline void store_codes(const met::CodedRows& to, int t, int column, float2 v) {
  constexpr int kLanes = kScaleValues / 2;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const unsigned sharers = 0xffffU << (lane / kLanes * kLanes);
  float most = fmaxf(fabsf(v.x), fabsf(v.y));
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) most = fmaxf(most, __shfl_xor_sync(sharers, most, step));
  const float scale = e4m3_scale(most);
  const float inverse = 1.0F / scale;
  const std::int64_t at = static_cast<std::int64_t>(t) * to.width + column;
  *reinterpret_cast<std::uint16_t*>(to.codes + at) = e4m3_pair(v.x * inverse, v.y * inverse);
  if (lane % kLanes == 0) *scale_place(to, t, column) = scale;
}

template <class C>
__device__ void store_output(const met::DecodeAttentionArgs& args, const Work& work, int head, int d,
                             float2 v) {
  const int column = (work.head + head) * C::kDim + d;
  if constexpr (C::kDim % kScaleValues == 0)
    if (args.coded.codes != nullptr) return store_codes(args.coded, work.row.token_begin, column, v);
  const std::int64_t row = static_cast<std::int64_t>(work.row.token_begin) * args.layer.heads * C::kDim;
  *reinterpret_cast<std::uint32_t*>(args.y + row + column) = Bf16Cache::pack(v.x, v.y);
}

template <class C>
__device__ float* partial_of(const met::DecodeAttentionArgs& args, const Work& work, int head, int split) {
  const std::int64_t row = static_cast<std::int64_t>(work.row_index) * args.layer.heads + work.head + head;
  return args.partial + (row * args.splits + split) * (C::kDim + 2);
}

/// The only split of its row: the block's own sums are the result.
template <class C>
__device__ void finish_alone(const met::DecodeAttentionArgs& args, const Work& work,
                             const Shared<C>& shared) {
  for (int i = thread_of_team<C>(); i < work.heads * (C::kDim / 2); i += C::kThreads) {
    const int head = i / (C::kDim / 2);
    const int d = i % (C::kDim / 2) * 2;
    const Joined all = join_warps<C>(shared, head, d);
    const float total = all.total + exp2_fast(sink_of(args.layer, work.head + head) - all.highest);
    const float factor = args.layer.v_scale / total;
    store_output<C>(args, work, head, d, make_float2(all.out.x * factor, all.out.y * factor));
  }
}

/// The same of a team of one warp, from its registers: eight dimensions of a head a store.
template <class C>
__device__ void store_alone(const met::DecodeAttentionArgs& args, const Work& work, const Scores& scores,
                            const Sums<C>& sums, int lane) {
  static_assert(C::kHeadTiles == 1 && C::kSteps % 4 == 0);
  float total = sums.total[0];
  total += __shfl_xor_sync(kAll, total, 1);
  total += __shfl_xor_sync(kAll, total, 2);
  const int own = min(lane / 4, work.heads - 1);
  total += exp2_fast(sink_of(args.layer, work.head + own) - sums.highest[0] * scores.scale);
  const float factor = args.layer.v_scale / total;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int head = lane % 4 * 2 + h;
    const float by = __shfl_sync(kAll, factor, head * 4);
    if (head >= work.heads) continue;
    met::Bf16Bits* to =
        args.y +
        (static_cast<std::int64_t>(work.row.token_begin) * args.layer.heads + work.head + head) * C::kDim;
#pragma unroll
    for (int r = 0; r < C::kSteps; r += 4) {
      std::uint32_t v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        v[i] = Bf16Cache::pack(sums.out[0][r + i][h] * by, sums.out[0][r + i][h + 2] * by);
      *reinterpret_cast<uint4*>(to + C::KeyLayout::value_dim(r, lane / 4)) =
          make_uint4(v[0], v[1], v[2], v[3]);
    }
  }
}

/// Leaves this split's sums in memory; true in the block that comes last.
template <class C>
__device__ bool leave_partial(const met::DecodeAttentionArgs& args, const Work& work, Shared<C>& shared) {
  for (int i = thread_of_team<C>(); i < work.heads * (C::kDim / 2); i += C::kThreads) {
    const int head = i / (C::kDim / 2);
    const int d = i % (C::kDim / 2) * 2;
    const Joined all = join_warps<C>(shared, head, d);
    float* partial = partial_of<C>(args, work, head, work.split);
    *reinterpret_cast<float2*>(partial + d) = all.out;
    if (d == 0) *reinterpret_cast<float2*>(partial + C::kDim) = make_float2(all.highest, all.total);
  }
  meet<C>();
  if (thread_of_team<C>() == 0) {
    const int wanted = work.active * (static_cast<int>(gridDim.y) / args.layer.kv_heads);
    std::int32_t* finished =
        args.finished + static_cast<std::int64_t>(work.row_index) * args.layer.kv_heads + work.kv_head;
    __threadfence();
    const bool last = atomicAdd(finished, 1) == wanted - 1;
    if (last) *finished = 0;
    __threadfence();
    shared.last = last ? 1 : 0;
  }
  meet<C>();
  return shared.last != 0;
}

/// Joins the splits of a head group in order.
template <class C>
__device__ void join_splits(const met::DecodeAttentionArgs& args, const Work& work, Shared<C>& shared,
                            int warp, int lane) {
  for (int head = warp; head < work.heads; head += C::kWarps) {
    const float sink = sink_of(args.layer, work.head + head);
    float2 ends[kSplitsMax / kWarp];  // highest and total of each split
    float highest = sink;
#pragma unroll
    for (int i = 0; i < kSplitsMax / kWarp; ++i) {
      const int split = i * kWarp + lane;
      ends[i] =
          split < work.active
              ? __ldcg(reinterpret_cast<const float2*>(partial_of<C>(args, work, head, split) + C::kDim))
              : make_float2(-INFINITY, 0.0F);
      highest = fmaxf(highest, ends[i].x);
    }
    highest = warp_max(highest);
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kSplitsMax / kWarp; ++i) {
      const float weight = exp2_fast(ends[i].x - highest);
      shared.weight[head][i * kWarp + lane] = weight;
      total = fmaf(weight, ends[i].y, total);
    }
    total = warp_sum(total) + exp2_fast(sink - highest);
    if (lane == 0) shared.denominator[head] = args.layer.v_scale / total;
  }
  meet<C>();
  for (int i = thread_of_team<C>(); i < work.heads * (C::kDim / 2); i += C::kThreads) {
    const int head = i / (C::kDim / 2);
    const int d = i % (C::kDim / 2) * 2;
    const float* partial = partial_of<C>(args, work, head, 0) + d;
    float2 out{0.0F, 0.0F};
#pragma unroll 8
    for (int split = 0; split < work.active; ++split) {
      const float2 part = __ldcg(reinterpret_cast<const float2*>(partial + split * (C::kDim + 2)));
      out.x = fmaf(shared.weight[head][split], part.x, out.x);
      out.y = fmaf(shared.weight[head][split], part.y, out.y);
    }
    const float factor = shared.denominator[head];
    store_output<C>(args, work, head, d, make_float2(out.x * factor, out.y * factor));
  }
}

/// From the warps' sums to the output.
template <class C>
__device__ void finish(const met::DecodeAttentionArgs& args, Work work, const Scores& scores,
                       const Sums<C>& sums, Shared<C>& shared, int warp, int lane) {
  if constexpr (C::kWarps == 1)
    if (work.active == 1 && args.coded.codes == nullptr)
      return store_alone<C>(args, work, scores, sums, lane);
  publish<C>(scores, shared, sums, warp, lane);
  meet<C>();
  if (work.active == 1) return finish_alone<C>(args, work, shared);
  if (!leave_partial<C>(args, work, shared)) return;
  for (int first = 0; first < args.group; first += C::kHeads) {
    work.head = work.kv_head * args.group + first;
    work.heads = min(C::kHeads, args.group - first);
    meet<C>();
    join_splits<C>(args, work, shared, warp, lane);
  }
}

}  // namespace
