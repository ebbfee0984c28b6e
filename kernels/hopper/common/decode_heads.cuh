// Decode attention's queries, and the new key and value: head norms, rotation, cache write.
#pragma once

#include "decode_work.cuh"

namespace {

/// What all items have in common: norm weights, angles of rotation at position 1.
template <class C>
__device__ void fetch_constants(const met::AttentionLayerArgs& layer, Shared<C>& shared) {
  const int first = thread_of_team<C>();
  const int pairs = layer.inv_freq != nullptr ? layer.rotary_dim / 2 : 0;
  constexpr int kEach = (C::kDim + C::kThreads - 1) / C::kThreads;
  float q_norm[kEach], k_norm[kEach], frequency[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int d = first + i * C::kThreads;
    const bool inside = d < C::kDim;
    q_norm[i] = inside && layer.q_norm != nullptr ? __ldg(layer.q_norm + d) : 1.0F;
    k_norm[i] = inside && layer.k_norm != nullptr ? __ldg(layer.k_norm + d) : 1.0F;
    frequency[i] = d < pairs ? __ldg(layer.inv_freq + d) : 0.0F;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int d = first + i * C::kThreads;
    if (d >= C::kDim) break;
    shared.q_norm[d] = q_norm[i];
    shared.k_norm[d] = k_norm[i];
    if (d < C::kDim / 2) shared.frequency[d] = frequency[i];
  }
}

/// Rotation at the row's position. A thread reads what it fetched itself.
template <class C>
__device__ void prepare_rotation(const met::AttentionLayerArgs& layer, const Work& work, Shared<C>& shared) {
  if (layer.inv_freq == nullptr) return;
#pragma unroll 1
  for (int i = thread_of_team<C>(); i < layer.rotary_dim / 2; i += C::kThreads) {
    float sine, cosine;
    sincosf(__fmul_rn(static_cast<float>(work.row.position), shared.frequency[i]), &sine, &cosine);
    shared.cosine[i] = cosine * layer.rope_scale;
    shared.sine[i] = sine * layer.rope_scale;
  }
}

/// Value d of a head after rotation.
template <class C>
__device__ float rotated(const met::AttentionLayerArgs& layer, const Shared<C>& shared, const float* head,
                         int d) {
  if (layer.inv_freq == nullptr || d >= layer.rotary_dim) return head[d];
  const int half = layer.rotary_dim / 2;
  const bool second = layer.interleaved != 0 ? d % 2 != 0 : d >= half;
  const int pair = layer.interleaved != 0 ? d / 2 : second ? d - half : d;
  const int apart = layer.interleaved != 0 ? 1 : half;
  const float a = head[second ? d - apart : d];
  const float b = head[second ? d : d + apart];
  const float cosine = shared.cosine[pair];
  const float sine = shared.sine[pair];
  return second ? fmaf(b, cosine, a * sine) : fmaf(a, cosine, -b * sine);
}

template <class C>
struct HeadPairs {
  float2 x[C::kPairs];
  __device__ void set(int j, std::uint32_t bf16) {
    x[j] = make_float2(__uint_as_float(bf16 << 16), __uint_as_float(bf16 & 0xffff0000U));
  }
};

template <class C>
__device__ void norm_and_rotate(const met::AttentionLayerArgs& layer, Shared<C>& shared, const float* weights,
                                int warp, int lane, HeadPairs<C>& head) {
  float* own = shared.preparing.turned[warp];
  if (weights != nullptr) {
    float sum = 0.0F;
#pragma unroll
    for (int j = 0; j < C::kPairs; ++j) sum += fmaf(head.x[j].x, head.x[j].x, head.x[j].y * head.x[j].y);
    const float scale = rsqrtf(warp_sum(sum) / static_cast<float>(C::kDim) + layer.norm_eps);
#pragma unroll
    for (int j = 0; j < C::kPairs; ++j) {
      const int d = min(2 * (j * kWarp + lane), C::kDim - 2);
      head.x[j].x *= scale * weights[d];
      head.x[j].y *= scale * weights[d + 1];
    }
  }
  if (layer.inv_freq == nullptr) return;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < C::kPairs; ++j) {
    const int pair = j * kWarp + lane;
    if (pair < C::kDim / 2) *reinterpret_cast<float2*>(own + 2 * pair) = head.x[j];
  }
  __syncwarp();
#pragma unroll
  for (int j = 0; j < C::kPairs; ++j) {
    const int pair = j * kWarp + lane;
    if (pair < C::kDim / 2)
      head.x[j] =
          make_float2(rotated<C>(layer, shared, own, 2 * pair), rotated<C>(layer, shared, own, 2 * pair + 1));
  }
}

/// Rounds a new key or value as the cache does, for this block and, where it is the one to do so, into the cache.
template <class C>
__device__ void keep(const HeadPairs<C>& head, float inverse_scale, typename C::Cache::Stored* own,
                     typename C::Cache::Stored* slot, int lane) {
#pragma unroll
  for (int j = 0; j < C::kPairs; ++j) {
    const int d = 2 * (j * kWarp + lane);
    if (d >= C::kDim) continue;
    own[d] = C::Cache::store(head.x[j].x, inverse_scale);
    own[d + 1] = C::Cache::store(head.x[j].y, inverse_scale);
    if (slot == nullptr) continue;
    slot[d] = own[d];
    slot[d + 1] = own[d + 1];
  }
}

/// Queries of the block's heads and, in the split of the newest position, its key and value, as projected: a warp takes
/// every kWarps-th of them.
template <class C>
struct RawHeads {
  std::uint32_t pairs[C::kUnits][C::kPairs];

  __device__ static int units(const Work& work) { return work.heads + (work.newest ? 2 : 0); }
  __device__ void load(const met::DecodeAttentionArgs& args, const Work& work, int warp, int lane) {
    const met::AttentionLayerArgs& layer = args.layer;
    const met::Bf16Bits* token = args.qkv + static_cast<std::int64_t>(work.row.token_begin) *
                                                (layer.heads + 2 * layer.kv_heads) * C::kDim;
#pragma unroll
    for (int i = 0; i < C::kUnits; ++i) {
      const int unit = warp + i * C::kWarps;
      const int head = unit < work.heads    ? work.head + unit
                       : unit == work.heads ? layer.heads + work.kv_head
                                            : layer.heads + layer.kv_heads + work.kv_head;
      const auto* from =
          reinterpret_cast<const std::uint32_t*>(token + static_cast<std::int64_t>(head) * C::kDim);
#pragma unroll
      for (int j = 0; j < C::kPairs; ++j) {
        const int pair = j * kWarp + lane;
        pairs[i][j] = unit < units(work) && pair < C::kDim / 2 ? __ldcg(from + pair) : 0U;
      }
    }
  }
  __device__ HeadPairs<C> head(int i) const {
    HeadPairs<C> values;
#pragma unroll
    for (int j = 0; j < C::kPairs; ++j) values.set(j, pairs[i][j]);
    return values;
  }
};

/// Values d and d + 1 of query head `head`, where the products look for them.
template <class C>
__device__ void put_query(Shared<C>& shared, int head, int d, std::uint32_t pair) {
  const auto [t, step] = C::KeyLayout::key_place(d);
  queries_of(shared).words[step][head % 8 * 4 + t][head / 8 + d % 4 / 2 * C::kHeadTiles] = pair;
}

/// From a projected head to what the products take; the new key and value also go to the cache.
template <class C>
__device__ void prepare_head(const met::AttentionLayerArgs& layer, const Work& work, int unit,
                             HeadPairs<C>& head, std::int64_t slot, Shared<C>& shared, int warp, int lane) {
  using Stored = typename C::Cache::Stored;
  if (unit < work.heads) {
    norm_and_rotate<C>(layer, shared, layer.q_norm != nullptr ? shared.q_norm : nullptr, warp, lane, head);
#pragma unroll
    for (int j = 0; j < C::kPairs; ++j) {
      const int pair = j * kWarp + lane;
      if (pair < C::kDim / 2) put_query<C>(shared, unit, 2 * pair, C::Cache::pack(head.x[j].x, head.x[j].y));
    }
  } else if (unit == work.heads) {
    norm_and_rotate<C>(layer, shared, layer.k_norm != nullptr ? shared.k_norm : nullptr, warp, lane, head);
    keep<C>(head, 1.0F / layer.k_scale, shared.key,
            work.writes_kv ? static_cast<Stored*>(layer.k_cache) + slot : nullptr, lane);
  } else {
    keep<C>(head, 1.0F / layer.v_scale, shared.value,
            work.writes_kv ? static_cast<Stored*>(layer.v_cache) + slot : nullptr, lane);
  }
}

template <class C>
__device__ void prepare_heads(const met::AttentionLayerArgs& layer, const Work& work, const RawHeads<C>& raw,
                              std::int64_t slot, Shared<C>& shared, int warp, int lane) {
  if constexpr (C::kRing) {
    // One after the other by the same code, which would be fetched cold in every launch.
#pragma unroll
    for (int i = 0; i < C::kUnits; ++i)
#pragma unroll
      for (int j = 0; j < C::kPairs; ++j)
        if (j * kWarp + lane < C::kDim / 2)
          shared.preparing.projected[warp + i * C::kWarps][j * kWarp + lane] = raw.pairs[i][j];
    __syncwarp();
#pragma unroll 1
    for (int unit = warp; unit < raw.units(work); unit += C::kWarps) {
      HeadPairs<C> head;
#pragma unroll
      for (int j = 0; j < C::kPairs; ++j)
        head.set(j, shared.preparing.projected[unit][min(j * kWarp + lane, C::kDim / 2 - 1)]);
      prepare_head<C>(layer, work, unit, head, slot, shared, warp, lane);
    }
  } else {
#pragma unroll
    for (int i = 0; i < C::kUnits; ++i) {
      const int unit = warp + i * C::kWarps;
      if (unit >= raw.units(work)) break;
      HeadPairs<C> head = raw.head(i);
      prepare_head<C>(layer, work, unit, head, slot, shared, warp, lane);
    }
  }
}

}  // namespace
