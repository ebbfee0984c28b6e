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
// Launch   a warp takes a token, a thread 16 values of a head at a time; blocks of 128 threads walk over the tokens, any
//          gridDim.x serves any step; gridDim.y warps share a token's heads. Dependent.
// Cost     reads 2 * (heads + 2 * kv_heads) * head_dim bytes a token, writes as much (E4M3: half for k and v).
//          Bound by memory: a thread keeps 128 bytes on their way while it computes; nothing is shared between warps.
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "vector.cuh"

namespace {

constexpr int kThreads = 128;
constexpr int kBlocks = 4;        // of a multiprocessor, at least
constexpr int kHeld = 4;          // pieces of a token that a thread has on their way
constexpr int kPiece = 16;        // values of one piece: two vectors
constexpr int kBlockTokens = 16;  // of a cache block
constexpr unsigned kAllLanes = 0xffffffffU;

struct Turn {
  float cos;
  float sin;
};

/// What a thread does is the same for all heads: lane `piece` of `Lanes`; the lanes of a head are neighbours.
struct Lane {
  int piece;
  int first, second;  // its two vectors of the head
  bool active;        // a head of 96 values leaves two of eight lanes idle
};

struct Piece {
  Floats8 a, b;
};

template <int Lanes>
__device__ Lane lane_of(const met::AttentionLayerArgs& layer) {
  const int piece = static_cast<int>(threadIdx.x) % Lanes;
  const int rotated = layer.inv_freq != nullptr ? layer.rotary_dim / kPiece : 0;  // lanes that turn
  const bool turns = piece < rotated;
  return {piece, turns ? piece : 2 * piece, turns ? piece + rotated : 2 * piece + 1,
          piece * kPiece < layer.head_dim};
}

__device__ void turn(float& a, float& b, Turn by) {
  const float was = a;
  a = fmaf(was, by.cos, -b * by.sin);
  b = fmaf(b, by.cos, was * by.sin);
}

/// Turn i of a lane is of (a[i], b[i]), or of neighbours in a, then in b.
__device__ void turn_piece(Piece& p, bool interleaved, const Turn (&turns)[kLanes]) {
  if (interleaved) {
#pragma unroll
    for (int i = 0; i < kLanes / 2; ++i) {
      turn(p.a.v[2 * i], p.a.v[2 * i + 1], turns[i]);
      turn(p.b.v[2 * i], p.b.v[2 * i + 1], turns[i + kLanes / 2]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kLanes; ++i) turn(p.a.v[i], p.b.v[i], turns[i]);
  }
}

/// Sine and cosine of an angle of any size that matters: reduced to a quarter turn in FP64, then the polynomials of
/// S. Moshier's Cephes; errors of some 1e-7. Without the library's path for huge angles, which costs registers.
__device__ Turn turn_by(float angle) {
  constexpr double kQuartersPerRadian = 0.63661977236758134308;
  constexpr double kQuarter = 1.57079632679489661923;
  const double quarters = rint(angle * kQuartersPerRadian);
  const auto r = static_cast<float>(fma(-quarters, kQuarter, static_cast<double>(angle)));
  const int quadrant = static_cast<int>(quarters) & 3;
  const float z = r * r;
  const float sine = fmaf(fmaf(fmaf(-1.9515295891e-4F, z, 8.3321608736e-3F), z, -1.6666654611e-1F), z * r, r);
  const float cosine =
      fmaf(fmaf(fmaf(2.443315711809948e-5F, z, -1.388731625493765e-3F), z, 4.166664568298827e-2F), z * z,
           fmaf(-0.5F, z, 1.0F));
  const float c = quadrant % 2 == 0 ? cosine : sine;
  const float s = quadrant % 2 == 0 ? sine : cosine;
  return {quadrant == 1 || quadrant == 2 ? -c : c, quadrant >= 2 ? -s : s};
}

/// The eight turns of this lane. The warp's groups of `Lanes` threads compute some each and tell the others; lanes behind
/// the rotated part stand still.
template <int Lanes>
__device__ void make_turns(const met::AttentionLayerArgs& layer, std::int32_t position, int piece,
                           Turn (&turns)[kLanes]) {
  constexpr int kGroups = kWarp / Lanes < kLanes ? kWarp / Lanes : kLanes;
  const int half = layer.inv_freq != nullptr ? layer.rotary_dim / 2 : 0;
  const bool rotates = piece * kLanes < half;
  const int group = static_cast<int>(threadIdx.x) % kWarp / Lanes;
#pragma unroll
  for (int first = 0; first < kLanes; first += kGroups) {
    const int i = first + group % kGroups;
    const int pair = layer.interleaved == 0
                         ? piece * kLanes + i
                         : piece * (kLanes / 2) + i % (kLanes / 2) + (i < kLanes / 2 ? 0 : half / 2);
    Turn by{1.0F, 0.0F};
    if (rotates) {
      by = turn_by(__fmul_rn(static_cast<float>(position), __ldg(layer.inv_freq + pair)));
      by.cos *= layer.rope_scale;
      by.sin *= layer.rope_scale;
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      turns[first + g].cos = __shfl_sync(kAllLanes, by.cos, g * Lanes + piece);
      turns[first + g].sin = __shfl_sync(kAllLanes, by.sin, g * Lanes + piece);
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

/// Sum over the lanes of a head; every lane of the warp takes part.
template <int Lanes>
__device__ float head_sum(float value) {
#pragma unroll
  for (int step = Lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
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

template <int Lanes, class Cache>
class Token {
 public:
  __device__ Token(const met::RopeKvDeviceArgs& args, int token)
      : args_(args), lane_(lane_of<Lanes>(args.layer)), slot_(args.slots[token]) {
    const met::AttentionLayerArgs& layer = args.layer;
    heads_ = layer.heads + 2 * layer.kv_heads;
    row_ = reinterpret_cast<uint4*>(args.qkv) +
           static_cast<std::int64_t>(token) * heads_ * (layer.head_dim / kLanes);
  }

  __device__ void run(std::int32_t position) {
    const int first = static_cast<int>(threadIdx.x) % kWarp / Lanes;
    const int begin = static_cast<int>(blockIdx.y) * kHeld * kHeadsAtOnce;
    const int stride = static_cast<int>(gridDim.y) * kHeld * kHeadsAtOnce;
    uint4 a[kHeld], b[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) load(begin + first + i * kHeadsAtOnce, a[i], b[i]);
    Turn turns[kLanes];
    make_turns<Lanes>(args_.layer, position, lane_.piece, turns);
#pragma unroll 1
    for (int base = begin; base < heads_; base += stride) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int head = base + first + i * kHeadsAtOnce;
        if (base + i * kHeadsAtOnce >= heads_) break;
        const Piece piece{unpack(a[i]), unpack(b[i])};
        load(head + stride, a[i], b[i]);
        finish(head, turns, piece);
      }
    }
  }

 private:
  static constexpr int kHeadsAtOnce = kWarp / Lanes;

  __device__ void load(int head, uint4& a, uint4& b) const {
    a = b = uint4{};
    if (!lane_.active || head >= heads_) return;
    const uint4* at = row_ + head * (args_.layer.head_dim / kLanes);
    a = at[lane_.first];
    b = at[lane_.second];
  }

  /// Normalises, turns and stores one piece.
  __device__ void finish(int head, const Turn (&turns)[kLanes], Piece p) const {
    const met::AttentionLayerArgs& layer = args_.layer;
    const bool is_query = head < layer.heads;
    const bool is_value = head >= layer.heads + layer.kv_heads;
    if (layer.q_norm != nullptr || layer.k_norm != nullptr) {
      const float* weights = is_query ? layer.q_norm : layer.k_norm;
      const float sum = head_sum<Lanes>(sum_of_squares(p.a) + sum_of_squares(p.b));
      const float factor = rsqrtf(sum / static_cast<float>(layer.head_dim) + layer.norm_eps);
      if (!is_value && weights != nullptr && lane_.active) {
        multiply(p.a, weights + lane_.first * kLanes, factor);
        multiply(p.b, weights + lane_.second * kLanes, factor);
      }
    }
    if (!lane_.active || head >= heads_) return;
    if (!is_value) turn_piece(p, layer.interleaved != 0, turns);
    if (is_query) {
      uint4* out = row_ + head * (layer.head_dim / kLanes);
      out[lane_.first] = pack(p.a);
      out[lane_.second] = pack(p.b);
    } else if (slot_ >= 0) {
      const int kv_head = head - layer.heads - (is_value ? layer.kv_heads : 0);
      const std::int64_t block = slot_ / kBlockTokens;
      const std::int64_t line = (block * layer.kv_heads + kv_head) * kBlockTokens + slot_ % kBlockTokens;
      Cache* out = static_cast<Cache*>(is_value ? layer.v_cache : layer.k_cache) + line * layer.head_dim;
      const float inverse_scale = 1.0F / (is_value ? layer.v_scale : layer.k_scale);
      store(out + lane_.first * kLanes, p.a, inverse_scale);
      store(out + lane_.second * kLanes, p.b, inverse_scale);
    }
  }

  const met::RopeKvDeviceArgs& args_;
  Lane lane_;
  std::int32_t slot_;
  int heads_;
  uint4* row_;
};

template <int Lanes, class Cache>
__device__ void walk(const met::RopeKvDeviceArgs& args) {
  constexpr int kWarps = kThreads / kWarp;
  const int end = args.counts->tokens;
  const int stride = static_cast<int>(gridDim.x) * kWarps;
  for (int t = args.counts->decode_rows +
               static_cast<int>(threadIdx.x) / kWarp * static_cast<int>(gridDim.x) +
               static_cast<int>(blockIdx.x);
       t < end; t += stride)
    Token<Lanes, Cache>(args, t).run(args.positions[t]);
}

template <class Cache>
__device__ void rope_kv(const met::RopeKvDeviceArgs& args) {
  launch_dependents();
  wait_for_producers();
  const int lanes = (args.layer.head_dim + kPiece - 1) / kPiece;
  if (lanes > 16)
    walk<32, Cache>(args);
  else if (lanes > 8)
    walk<16, Cache>(args);
  else if (lanes > 4)
    walk<8, Cache>(args);
  else if (lanes > 2)
    walk<4, Cache>(args);
  else if (lanes > 1)
    walk<2, Cache>(args);
  else
    walk<1, Cache>(args);
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads, kBlocks) void rope_kv_bf16(
    const __grid_constant__ met::RopeKvDeviceArgs args) {
  rope_kv<__nv_bfloat16>(args);
}

extern "C" __global__ __launch_bounds__(kThreads, kBlocks) void rope_kv_e4m3(
    const __grid_constant__ met::RopeKvDeviceArgs args) {
  rope_kv<__nv_fp8_storage_t>(args);
}
