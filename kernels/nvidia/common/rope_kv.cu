// Head norms, rotation and cache write of a step's prefill tokens t, counts->decode_rows <= t < counts->tokens:
//   q[h], k[h] = x / sqrt(mean(x^2) + eps) * w                      over head_dim, where weights are given
//   (a, b)     = (a cos - b sin, b cos + a sin) * rope_scale         by the angle positions[t] * inv_freq[i]
//                pair i is (i, i + rotary_dim / 2), or (2i, 2i + 1) where interleaved; the rest of a head stays
//   q goes back into qkv; k / k_scale and v / v_scale go to slots[t] of the caches. k and v stay in qkv as they were.
//
// Shapes   qkv: [tokens, (heads + 2 * kv_heads) * head_dim] BF16, 16-byte aligned, q then k then v; caches:
//          [blocks, kv_heads, 16, head_dim] BF16 or E4M3. head_dim % 16 == 0, <= 512; rotary_dim % 16 == 0,
//          <= head_dim. A negative slot is not written.
// Rounding FP32 throughout; the store to qkv or a cache is the only rounding. The angle is position * inv_freq
//          rounded to FP32, as checkpoints were trained. E4M3 saturates. A token depends on its own row alone.
// Launch   a thread takes 16 values, a token `work` = (heads + 2 * kv_heads) * lanes threads, lanes being head_dim / 16
//          rounded up to a power of two. Blocks of up to 384 threads, a multiple of 32, take max(1, threads / work)
//          tokens; grid >= tokens / that; shared memory: 64 * lanes bytes a token. Blocks without tokens end at once.
//          Dependent.
// Cost     reads 2 * (heads + 2 * kv_heads) * head_dim bytes a token, writes as much (E4M3: half for k and v).
//          Bound by memory; three blocks of 384 threads hide its latency.
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

constexpr int kThreadsMax = 384;
constexpr int kBlocks = 3;        // of a multiprocessor, at least
constexpr int kPiece = 16;        // values of one piece: two vectors
constexpr int kBlockTokens = 16;  // of a cache block
constexpr unsigned kAllLanes = 0xffffffffU;

struct Turn {
  float cos;
  float sin;
};

/// What a thread does is the same for all its pieces: lane `piece` of a head, the lanes of a head are neighbours.
struct Lane {
  int lanes, piece;   // of a head, a power of two, and which this is
  int first, second;  // its two vectors of the head
  bool active;        // a head of 96 values leaves two of eight lanes idle
};

struct Piece {
  Floats8 a, b;
};

__device__ Lane lane_of(const met::AttentionLayerArgs& layer) {
  const int used = layer.head_dim / kPiece;
  const int lanes = used <= 1 ? 1 : 1 << (32 - __clz(used - 1));
  const int piece = static_cast<int>(threadIdx.x) % lanes;                        // blocks are whole warps
  const int rotated = layer.inv_freq != nullptr ? layer.rotary_dim / kPiece : 0;  // lanes that turn
  const bool turns = piece < rotated;
  return {lanes, piece, turns ? piece : 2 * piece, turns ? piece + rotated : 2 * piece + 1, piece < used};
}

/// Where turn i of a lane stands: two turns a 16-byte word, neighbouring lanes in neighbouring words.
__device__ int table_index(int lanes, int piece, int i) { return (i / 2 * lanes + piece) * 2 + i % 2; }

__device__ void turn(float& a, float& b, Turn by) {
  const float was = a;
  a = fmaf(was, by.cos, -b * by.sin);
  b = fmaf(b, by.cos, was * by.sin);
}

/// The eight turns of a lane: i is of (a[i], b[i]), or of neighbours in a, then in b.
__device__ void turn_piece(Piece& p, bool interleaved, const Turn* table, const Lane& lane) {
#pragma unroll
  for (int i = 0; i < kLanes; i += 2) {
    const float4 two = *reinterpret_cast<const float4*>(table + table_index(lane.lanes, lane.piece, i));
    if (interleaved) {
      float* pairs = i < kLanes / 2 ? p.a.v + 2 * i : p.b.v + 2 * i - kLanes;
      turn(pairs[0], pairs[1], {two.x, two.y});
      turn(pairs[2], pairs[3], {two.z, two.w});
    } else {
      turn(p.a.v[i], p.b.v[i], {two.x, two.y});
      turn(p.a.v[i + 1], p.b.v[i + 1], {two.z, two.w});
    }
  }
}

__device__ void multiply(Floats8& x, const float* weights, float factor) {
  const float4 low = __ldg(reinterpret_cast<const float4*>(weights));
  const float4 high = __ldg(reinterpret_cast<const float4*>(weights) + 1);
  const float w[kLanes] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < kLanes; ++i) x.v[i] = x.v[i] * factor * w[i];
}

/// Sum over the lanes of a head, a power of two of neighbours; every lane of the warp takes part.
__device__ float head_sum(float value, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

__device__ void store(__nv_bfloat16* at, const Floats8& f, float) { *reinterpret_cast<uint4*>(at) = pack(f); }

__device__ void store(__nv_fp8_storage_t* at, const Floats8& f, float inverse_scale) {
  unsigned words[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < kLanes / 2; ++i) {
    const float2 pair = make_float2(f.v[2 * i] * inverse_scale, f.v[2 * i + 1] * inverse_scale);
    const unsigned bits = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
    words[i / 2] |= bits << (16 * (i % 2));
  }
  *reinterpret_cast<uint2*>(at) = make_uint2(words[0], words[1]);
}

/// Normalises, turns and stores one piece of a head; not `mine`: takes part in the sums alone.
template <class Cache>
__device__ void finish(const met::RopeKvDeviceArgs& args, uint4* row, int head, bool mine, const Lane& lane,
                       std::int32_t slot, const Turn* table, Piece p) {
  const met::AttentionLayerArgs& layer = args.layer;
  const bool is_query = head < layer.heads;
  const bool is_value = head >= layer.heads + layer.kv_heads;
  const float* weights = is_query ? layer.q_norm : layer.k_norm;
  if (layer.q_norm != nullptr || layer.k_norm != nullptr) {
    const float sum = head_sum(sum_of_squares(p.a) + sum_of_squares(p.b), lane.lanes);
    const float factor = rsqrtf(sum / static_cast<float>(layer.head_dim) + layer.norm_eps);
    if (!is_value && weights != nullptr && lane.active) {
      multiply(p.a, weights + lane.first * kLanes, factor);
      multiply(p.b, weights + lane.second * kLanes, factor);
    }
  }
  if (!is_value) turn_piece(p, layer.interleaved != 0, table, lane);
  if (!lane.active || !mine) return;
  if (is_query) {
    uint4* out = row + head * (layer.head_dim / kLanes);
    out[lane.first] = pack(p.a);
    out[lane.second] = pack(p.b);
  } else if (slot >= 0) {
    const int kv_head = head - layer.heads - (is_value ? layer.kv_heads : 0);
    const std::int64_t block = slot / kBlockTokens;
    const std::int64_t line = (block * layer.kv_heads + kv_head) * kBlockTokens + slot % kBlockTokens;
    Cache* out = static_cast<Cache*>(is_value ? layer.v_cache : layer.k_cache) + line * layer.head_dim;
    const float inverse_scale = 1.0F / (is_value ? layer.v_scale : layer.k_scale);
    store(out + lane.first * kLanes, p.a, inverse_scale);
    store(out + lane.second * kLanes, p.b, inverse_scale);
  }
}

/// The turns of all lanes for `tokens` tokens, by all threads of the block; lanes behind the rotated part stand still.
__device__ void fill_table(const met::RopeKvDeviceArgs& args, int first_token, int tokens, int lanes,
                           Turn* table) {
  const met::AttentionLayerArgs& layer = args.layer;
  const int half = layer.inv_freq != nullptr ? layer.rotary_dim / 2 : 0;
  const int turns = lanes * kLanes;
  for (int flat = threadIdx.x; flat < tokens * turns; flat += blockDim.x) {
    const int at = flat % turns;
    const int piece = at / kLanes;
    const int i = at % kLanes;
    int pair = at;
    if (layer.interleaved != 0)
      pair = piece * (kLanes / 2) + i % (kLanes / 2) + (i < kLanes / 2 ? 0 : half / 2);
    Turn by{1.0F, 0.0F};
    if (at < half) {
      const auto position = static_cast<float>(args.positions[first_token + flat / turns]);
      float sine, cosine;
      sincosf(__fmul_rn(position, layer.inv_freq[pair]), &sine, &cosine);
      by = {cosine * layer.rope_scale, sine * layer.rope_scale};
    }
    table[flat / turns * turns + table_index(lanes, piece, i)] = by;
  }
}

template <class Cache>
__device__ void rope_kv(const met::RopeKvDeviceArgs& args) {
  launch_dependents();
  extern __shared__ float4 shared[];
  Turn* table = reinterpret_cast<Turn*>(shared);
  const met::AttentionLayerArgs& layer = args.layer;
  const Lane lane = lane_of(layer);
  const int heads = layer.heads + 2 * layer.kv_heads;
  const int head_vectors = layer.head_dim / kLanes;
  const int threads = static_cast<int>(blockDim.x);
  const int work = heads * lane.lanes;  // threads of a token
  const int block_tokens = max(1, threads / work);
  wait_for_producers();
  const int begin = static_cast<int>(blockIdx.x) * block_tokens;
  const int end = min(begin + block_tokens, args.counts->tokens);
  const int decode_rows = args.counts->decode_rows;
  if (begin >= end || end <= decode_rows) return;
  for (int base = 0; base < block_tokens * work; base += threads) {
    const int flat = base + static_cast<int>(threadIdx.x);
    const int t = begin + flat / work;
    const int head = flat % work / lane.lanes;
    const bool mine = t < end && t >= decode_rows;
    uint4* row = reinterpret_cast<uint4*>(args.qkv) + static_cast<std::int64_t>(t) * heads * head_vectors;
    uint4 a{}, b{};
    if (mine && lane.active) {
      a = row[head * head_vectors + lane.first];
      b = row[head * head_vectors + lane.second];
    }
    const std::int32_t slot = mine && head >= layer.heads ? args.slots[t] : -1;
    if (base == 0) {
      fill_table(args, begin, end - begin, lane.lanes, table);
      __syncthreads();
    }
    const Turn* turns = table + min(flat / work, block_tokens - 1) * lane.lanes * kLanes;
    finish<Cache>(args, row, head, mine, lane, slot, turns, {unpack(a), unpack(b)});
  }
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreadsMax, kBlocks) void rope_kv_bf16(
    const __grid_constant__ met::RopeKvDeviceArgs args) {
  rope_kv<__nv_bfloat16>(args);
}

extern "C" __global__ __launch_bounds__(kThreadsMax, kBlocks) void rope_kv_e4m3(
    const __grid_constant__ met::RopeKvDeviceArgs args) {
  rope_kv<__nv_fp8_storage_t>(args);
}
