// From the accumulators of a tile of the decode projection to memory.
#pragma once

#include "projection_ring.cuh"
#include "wgmma.cuh"

namespace {

using met::Bf16Bits;

__device__ inline std::uint32_t pack_pair(float2 v) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(v.x, v.y);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline float2 unpack_pair(std::uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000U)};
}

/// Pairs of neighbours in memory, of which the first `live` exist; `aligned`: as one access where both do.
__device__ inline std::uint32_t load_pair(const Bf16Bits* at, int live, bool aligned) {
  if (aligned && live == 2) return *reinterpret_cast<const std::uint32_t*>(at);
  std::uint32_t pair = live > 0 ? at[0] : 0U;
  if (live > 1) pair |= static_cast<std::uint32_t>(at[1]) << 16;
  return pair;
}
__device__ inline void store_pair(Bf16Bits* at, std::uint32_t pair, int live, bool aligned) {
  if (aligned && live == 2) {
    *reinterpret_cast<std::uint32_t*>(at) = pair;
    return;
  }
  if (live > 0) at[0] = static_cast<Bf16Bits>(pair);
  if (live > 1) at[1] = static_cast<Bf16Bits>(pair >> 16);
}
__device__ inline void store_pair(float* at, float2 pair, int live, bool aligned) {
  if (aligned && live == 2) {
    *reinterpret_cast<float2*>(at) = pair;
    return;
  }
  if (live > 0) at[0] = pair.x;
  if (live > 1) at[1] = pair.y;
}
__device__ inline float2 load_floats(const float* from, int at, int live, float otherwise) {
  float2 v{otherwise, otherwise};
  if (from != nullptr && live > 0) v.x = from[at];
  if (from != nullptr && live > 1) v.y = from[at + 1];
  return v;
}

/// An 8 x 8 block of FP32, held as WGMMA leaves it (thread: row lane / 4, columns 2 (lane % 4) and the next), transposed:
/// two 16-bit transpositions.
__device__ inline float2 transpose_block(float2 v) {
  const std::uint32_t x = __float_as_uint(v.x);
  const std::uint32_t y = __float_as_uint(v.y);
  std::uint32_t low = __byte_perm(x, y, 0x5410);
  std::uint32_t high = __byte_perm(x, y, 0x7632);
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(low));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(high));
  return {__uint_as_float(__byte_perm(low, high, 0x5410)), __uint_as_float(__byte_perm(low, high, 0x7632))};
}

__device__ inline float activate(float gate, bool gelu) {
  if (!gelu) return gate / (1.0F + __expf(-gate));
  constexpr float kRootTwoOverPi = 0.7978845608028654F;
  constexpr float kCubic = 0.044715F;
  return 0.5F * gate * (1.0F + tanhf(kRootTwoOverPi * (gate + kCubic * gate * gate * gate)));
}

/// Finishes tiles of one consumer thread. After transposition a thread has, of each group j of 8 rows of x and each half
/// h of its warp's 16 rows of W: t = 8 j + lane / 4, n = column(h) and the next.
template <int N>
class TileEpilogue {
 public:
  static constexpr int kBatch = 8;  // rows of x to a group
  static constexpr int kGroups = N / kBatch;
  static constexpr int kHeld = kGroups < 8 ? kGroups : 8;  // groups whose residual is in registers at a time
  static constexpr bool kPrefetches = kHeld == kGroups;

  __device__ TileEpilogue(const ProjectionArgs& args, const ProjectionMemory& memory, const Work& work)
      : args_(args),
        memory_(memory),
        work_(work),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % kWarp),
        warp_(thread_ / kWarp),
        aligned_(args.ldy % 2 == 0) {}

  /// Fetches what the tile needs beside its sums; the first time around it waits for the kernels in front.
  __device__ void begin(int tile) {
    const int row = warp_ * kWarpRows;
    column_ = tile * args_.tile.rows + row + 2 * (lane_ % 4);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = column_ + h * kBatch;
      live_[h] = row < args_.tile.rows ? max(0, min(2, args_.n - at)) : 0;
      bias_[h] = load_floats(args_.bias, at, live_[h], 0.0F);
      next_norm_[h] = load_floats(args_.next_norm, at, live_[h], 0.0F);
    }
    wait_for_producers();
    rows_ = rows_of(args_, N);
    if (kPrefetches && args_.epilogue == met::Epilogue::kResidual) load_residual(0);
  }

  __device__ void finish(int tile, float (&sums)[N / 2]) {
    if (args_.tile.split > 1) exchange(sums);
    if (args_.norm.parts != nullptr) barrier_wait(memory_.scales_ready(), 0);
    switch (args_.epilogue) {
      case met::Epilogue::kStore:
        return store(sums);
      case met::Epilogue::kResidual:
        return add_to_residual(tile, sums);
      default:
        return gate(sums, args_.epilogue == met::Epilogue::kGeluMul);
    }
  }

 private:
  static constexpr int kWarpRows = 16;

  __device__ int consumers() const { return memory_.groups() * kGroupThreads; }
  /// The block of the cluster that finishes a group of rows of x.
  __device__ int groups_each() const { return max(kGroups / args_.tile.split, 1); }
  __device__ bool mine(int j) const {
    return kBatch * j < rows_ && (args_.tile.split == 1 || j / groups_each() == work_.rank);
  }
  __device__ int row_of(int j) const { return kBatch * j + lane_ / 4; }

  /// Sums of the blocks of a cluster, added in the order of their ranks by the block that finishes them.
  __device__ void exchange(float (&sums)[N / 2]) {
    const ProjectionTile& tile = args_.tile;
    const bool holds_rows = warp_ * kWarpRows < tile.rows;
    const int each = groups_each();
    const std::uint32_t buffer = memory_.base() + tile.exchange;
    const auto place = [&](int from, int to, int j) {
      const int slot = from < to ? from : from - 1;
      return buffer + (((slot * each + j - to * each) * consumers()) + thread_) * 16;
    };
    __syncwarp();
    if (tile.exchange == 0) cluster_arrive();
    cluster_wait();
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const int owner = j / each;
      if (owner == work_.rank || !holds_rows || kBatch * j >= rows_) continue;
      peer_store(peer_address(place(work_.rank, owner, j), owner),
                 make_float4(sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]));
    }
    __syncwarp();
    cluster_sync();
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      if (!mine(j) || !holds_rows) continue;
      const float own[4] = {sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]};
      float total[4] = {};
      for (int rank = 0; rank < tile.split; ++rank) {
        float4 part = make_float4(own[0], own[1], own[2], own[3]);
        if (rank != work_.rank) part = shared_load(place(rank, work_.rank, j));
        total[0] += part.x;
        total[1] += part.y;
        total[2] += part.z;
        total[3] += part.w;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[4 * j + i] = total[i];
    }
  }

  /// s[t, n] of group j and half h.
  __device__ float2 scaled_sums(const float (&sums)[N / 2], int j, int h) const {
    float2 s = transpose_block({sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]});
    const float scale = args_.norm.parts != nullptr ? shared_load_float(memory_.scale(row_of(j))) : 1.0F;
    s.x = s.x * scale + bias_[h].x;
    s.y = s.y * scale + bias_[h].y;
    return s;
  }

  __device__ void store(const float (&sums)[N / 2]) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      if (!mine(j)) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float2 s = scaled_sums(sums, j, h);
        if (row_of(j) >= rows_) continue;
        const std::int64_t at = row_of(j) * args_.ldy + column_ + h * kBatch;
        if (args_.y_f32 != 0)
          store_pair(static_cast<float*>(args_.y) + at, s, live_[h], aligned_);
        else
          store_pair(static_cast<Bf16Bits*>(args_.y) + at, pack_pair(s), live_[h], aligned_);
      }
    }
  }

  __device__ void gate(const float (&sums)[N / 2], bool gelu) {
    const int column = (column_ - 2 * (lane_ % 4)) / 2 + 2 * (lane_ % 4);
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      if (!mine(j)) continue;
      const float2 g = scaled_sums(sums, j, 0);
      const float2 up = scaled_sums(sums, j, 1);
      if (row_of(j) >= rows_) continue;
      const float2 y{activate(g.x, gelu) * up.x, activate(g.y, gelu) * up.y};
      store_pair(static_cast<Bf16Bits*>(args_.y) + row_of(j) * args_.ldy + column, pack_pair(y), live_[1],
                 aligned_);
    }
  }

  __device__ void load_residual(int first) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int t = row_of(first + i);
        const bool wanted = mine(first + i) && t < rows_;
        residual_[i][h] =
            wanted ? load_pair(args_.residual + t * args_.ldy + column_ + h * kBatch, live_[h], aligned_)
                   : 0U;
      }
    }
  }

  __device__ void add_to_residual(int tile, const float (&sums)[N / 2]) {
    if (args_.squares != nullptr && tile != work_.first) named_barrier(1, consumers());
#pragma unroll
    for (int first = 0; first < kGroups; first += kHeld) {
      if (!kPrefetches) load_residual(first);
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        if (mine(first + i)) add_group(sums, first + i, residual_[i]);
    }
    if (args_.squares == nullptr) return;
    named_barrier(1, consumers());
    const int warps = min(args_.tile.rows / kWarpRows, consumers() / kWarp);
    for (int t = thread_; t < rows_; t += consumers()) {
      if (!mine(t / kBatch)) continue;
      float sum = 0.0F;
      for (int w = 0; w < warps; ++w) sum += shared_load_float(memory_.squares(w, t));
      args_.squares[static_cast<std::int64_t>(t) * args_.squares_count + tile] = sum;
    }
  }

  __device__ void add_group(const float (&sums)[N / 2], int j, const std::uint32_t (&residual)[2]) {
    float squares = 0.0F;
    const int t = row_of(j);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float2 s = scaled_sums(sums, j, h);
      const float2 was = unpack_pair(residual[h]);
      const std::uint32_t stored = pack_pair({was.x + s.x, was.y + s.y});
      if (t >= rows_) continue;
      const std::int64_t at = t * args_.ldy + column_ + h * kBatch;
      store_pair(args_.residual + at, stored, live_[h], aligned_);
      if (args_.scaled == nullptr) continue;
      const float2 v = unpack_pair(stored);
      store_pair(args_.scaled + at, pack_pair({v.x * next_norm_[h].x, v.y * next_norm_[h].y}), live_[h],
                 aligned_);
      if (live_[h] > 0) squares = fmaf(v.x, v.x, squares);
      if (live_[h] > 1) squares = fmaf(v.y, v.y, squares);
    }
    squares += __shfl_xor_sync(0xffffffffU, squares, 1);
    squares += __shfl_xor_sync(0xffffffffU, squares, 2);
    if (lane_ % 4 == 0) shared_store_float(memory_.squares(warp_, t), squares);
  }

  const ProjectionArgs& args_;
  const ProjectionMemory& memory_;
  const Work& work_;
  int thread_, lane_, warp_;
  bool aligned_;
  int rows_ = 0;
  int column_ = 0;
  int live_[2] = {};
  float2 bias_[2] = {};
  float2 next_norm_[2] = {};
  std::uint32_t residual_[kHeld][2] = {};
};

}  // namespace
