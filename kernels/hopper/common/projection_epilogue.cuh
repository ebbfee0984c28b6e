// From the accumulators of a tile of the decode projection to memory.
#pragma once

#include "activation.cuh"
#include "e4m3.cuh"
#include "projection_ring.cuh"
#include "wgmma.cuh"

namespace {

using met::Bf16Bits;

__device__ inline std::uint32_t pack_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// `Count` neighbours in memory, of which the first `live` exist; `whole`: all do and the address is aligned to them.
template <int Count>
struct Neighbours {
  std::uint32_t pairs[Count / 2];  // BF16

  __device__ float value(int i) const {
    return __uint_as_float(i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000U);
  }
  __device__ void round(const float (&v)[Count]) {
#pragma unroll
    for (int i = 0; i < Count / 2; ++i) pairs[i] = pack_pair(v[2 * i], v[2 * i + 1]);
  }
  __device__ void load(const Bf16Bits* at, int live, bool whole) {
    if (whole) return copy(pairs, at);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const std::uint32_t bits = i < live ? at[i] : 0U;
      pairs[i / 2] = i % 2 == 0 ? bits : pairs[i / 2] | bits << 16;
    }
  }
  __device__ void store(Bf16Bits* at, int live, bool whole) const {
    if (whole) return copy(at, pairs);
#pragma unroll
    for (int i = 0; i < Count; ++i)
      if (i < live) at[i] = static_cast<Bf16Bits>(pairs[i / 2] >> (i % 2 * 16));
  }

 private:
  template <class To, class From>
  __device__ static void copy(To* to, const From* from) {
    if constexpr (Count == 8)
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    else if constexpr (Count == 4)
      *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(from);
    else
      *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
  }
};

/// Finishes the tiles of a consumer warp, 16 rows of W, slice by slice of x rows: a slice of the accumulators goes through
/// shared memory, so that a lane gets neighbours in n of one row t and the loop over slices is not unrolled (its code would
/// be fetched cold in every launch). `MayCode`: rows may go out as E4M3 codes.
template <int N, bool MayCode>
class TileEpilogue {
 public:
  static constexpr int kWidth = N < 16 ? 8 : 16;  // rows of x of a slice
  static constexpr int kSlices = N / kWidth;
  static constexpr int kEach = kWidth / 2;              // values of a lane
  static constexpr int kLanesEach = kWarpRows / kEach;  // lanes that share a row of x
  static constexpr bool kPrefetches = N <= 128;         // registers for the residual of all slices
  static constexpr bool kFetchesEarly = N <= 64;        // and for constants of the lane's rows of W
  static constexpr int kHeld = kPrefetches ? kSlices : 1;
  static constexpr int kFirstCodeBarrier = 4;

  __device__ TileEpilogue(const ProjectionArgs& args, const ProjectionMemory& memory, const Work& work)
      : args_(args),
        memory_(memory),
        work_(work),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % kWarp),
        warp_(thread_ / kWarp),
        gated_(args.epilogue == met::Epilogue::kSiluMul || args.epilogue == met::Epilogue::kGeluMul) {
    const int each = max(kSlices / args.tile.split, 1);
    begin_ = args.tile.split == 1 ? 0 : min(work.rank * each, kSlices);
    end_ = args.tile.split == 1 ? kSlices : min(begin_ + each, kSlices);
  }

  /// Fetches what the tile needs beside its sums; the first time around it waits for the kernels in front.
  __device__ void begin(int tile) {
    holds_rows_ = warp_ * kWarpRows < args_.tile.rows;
    first_ = tile * args_.tile.rows + warp_ * kWarpRows;
    live_ = holds_rows_ ? max(0, min(kEach, args_.n - first_ - row_of(0))) : 0;
    whole_ = live_ == kEach && args_.ldy % 8 == 0;
    if constexpr (kFetchesEarly) load_constants();
    wait_for_producers();
    rows_ = rows_of(args_, N);
    if constexpr (kPrefetches) {
      if (args_.epilogue != met::Epilogue::kResidual) return;
#pragma unroll
      for (int s = 0; s < kSlices; ++s)
        if (s >= begin_ && s < end_) load_residual(residual_[s], s);
    }
  }

  /// Adds the sums of all teams in the first one's registers, in order; false for the others.
  __device__ bool join_teams(float (&sums)[N / 2]) {
    const int teams = args_.tile.teams;
    if (teams == 1) return true;
    const int team = thread_ / kGroupThreads;
    const int threads = teams * kGroupThreads;
    if (team > 0) {
#pragma unroll
      for (int j = 0; j < N / 8; ++j)
        shared_store(team_sums(team, j),
                     make_uint4(__float_as_uint(sums[4 * j]), __float_as_uint(sums[4 * j + 1]),
                                __float_as_uint(sums[4 * j + 2]), __float_as_uint(sums[4 * j + 3])));
    }
    named_barrier(2, threads);
    for (int from = 1; from < teams && team == 0; ++from) {
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
        const float4 part = shared_load(team_sums(from, j));
        sums[4 * j] += part.x;
        sums[4 * j + 1] += part.y;
        sums[4 * j + 2] += part.z;
        sums[4 * j + 3] += part.w;
      }
    }
    if (work_.first + work_.step < work_.tiles)
      named_barrier(3, threads);  // before they write the next tile's
    return team == 0;
  }

  __device__ void finish(int tile, float (&sums)[N / 2]) {
    if constexpr (!kFetchesEarly) load_constants();
    if (args_.tile.split > 1) exchange(sums);
    if (args_.norm.parts != nullptr) barrier_wait(memory_.scales_ready(), 0);
    const bool squares = args_.epilogue == met::Epilogue::kResidual && args_.squares != nullptr;
    if (squares && tile != work_.first) named_barrier(1, consumers());
#pragma unroll 1
    for (int s = begin_; s < end_ && s * kWidth < rows_; ++s) {
      if (!holds_rows_) break;
      spread<0, kSlices>(sums, s);
      if (!kPrefetches && args_.epilogue == met::Epilogue::kResidual) load_residual(residual_[0], s);
      __syncwarp();
      finish_slice(s);
      __syncwarp();
    }
    if (squares) add_squares(tile);
    turn_ ^= 1;
  }

 private:
  /// Whether sums are still to be scaled, one factor a row of W.
  __device__ bool row_scales() const { return args_.weight_scales != nullptr && args_.block_scales == 0; }
  __device__ int consumers() const { return memory_.finishers() * kGroupThreads; }
  /// Row of the warp's 16 whose value i this lane finishes: neighbours, or half of them gate and half up.
  __device__ int row_of(int i) const {
    const int part = lane_ % kLanesEach;
    if (!gated_) return part * kEach + i;
    return part * (kEach / 2) + (i < kEach / 2 ? i : kWarpRows / 2 + i - kEach / 2);
  }
  /// What a lane's rows of W need beside their sums.
  __device__ void load_constants() {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int n = first_ + row_of(i);
      const bool there = holds_rows_ && n < args_.n;
      bias_[i] = there && args_.bias != nullptr ? args_.bias[n] : 0.0F;
      factor_[i] = there && args_.next_norm != nullptr ? args_.next_norm[n] : 1.0F;
      if (row_scales()) weight_scale_[i] = there ? args_.weight_scales[n] : 0.0F;
    }
  }

  __device__ int token_of(int slice) const { return slice * kWidth + lane_ / kLanesEach; }

  /// Where the sums of the teams but the first wait, one group of 8 columns after the other.
  __device__ std::uint32_t team_sums(int team, int j) const {
    return memory_.base() + args_.tile.exchange +
           (((team - 1) * (N / 8) + j) * kGroupThreads + lane_thread()) * 16;
  }
  __device__ int lane_thread() const { return thread_ % kGroupThreads; }

  /// The other block's share of this block's slices comes here, this block's share of its slices goes there.
  __device__ void exchange(float (&sums)[N / 2]) {
    constexpr int kGroupsEach = kWidth / 8;
    constexpr int kBytes = 16;
    const int live = min((rows_ + 7) / 8, N / 8);  // groups of 8 rows of x
    const int begin = min(begin_ * kGroupsEach, live);
    const int end = min(end_ * kGroupsEach, live);
    const int team_bytes = (args_.tile.teams - 1) * (N / 8) * kGroupThreads * kBytes;
    const std::uint32_t buffer = memory_.base() + args_.tile.exchange + team_bytes + thread_ * kBytes;
    const std::uint32_t peer = peer_address(buffer, work_.rank ^ 1);
    const std::uint32_t peer_barrier = peer_address(memory_.sums_arrived(), work_.rank ^ 1);
    const std::uint32_t stride = consumers() * kBytes;
    if (thread_ == 0)
      barrier_expect(memory_.sums_arrived(), (end - begin) * (args_.tile.rows / kWarpRows * kWarp * kBytes));
    if (!holds_rows_) return;
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      if (j >= live || (j >= begin && j < end)) continue;
      const int place = work_.rank != 0 ? j : j - end;
      peer_store_counted(peer + place * stride,
                         make_float4(sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]),
                         peer_barrier);
    }
    barrier_wait(memory_.sums_arrived(), 0);
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      if (j < begin || j >= end) continue;
      const float4 part = shared_load(buffer + (j - begin) * stride);
      sums[4 * j] += part.x;
      sums[4 * j + 1] += part.y;
      sums[4 * j + 2] += part.z;
      sums[4 * j + 3] += part.w;
    }
  }

  /// A slice of the fragment, [x row][W row], into the warp's own piece of shared memory. Registers have no run-time index:
  /// a tree of branches finds the slice among [Begin, End).
  template <int Begin, int End>
  __device__ void spread(const float (&sums)[N / 2], int slice) {
    if constexpr (End - Begin > 1) {
      constexpr int kMiddle = (Begin + End) / 2;
      if (slice < kMiddle)
        spread<Begin, kMiddle>(sums, slice);
      else
        spread<kMiddle, End>(sums, slice);
    } else {
      const std::uint32_t to = memory_.spread(warp_, 2 * (lane_ % 4)) + lane_ / 4 * 4;
      if constexpr (kPrefetches) residual_[0] = residual_[Begin];
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        const int column = i / 4 * 8 + i % 2;
        const int row = i / 2 % 2 * 8;
        shared_store_float(to + column * kSpreadBytes + row * 4, sums[Begin * kWidth / 2 + i]);
      }
    }
  }

  /// s[t, n] of a lane's values.
  __device__ void read_sums(float (&v)[kEach], int slice) const {
    constexpr int kHalf = kEach / 2;
    const std::uint32_t from = memory_.spread(warp_, lane_ / kLanesEach);
    const float scale =
        args_.norm.parts != nullptr ? shared_load_float(memory_.scale(token_of(slice))) : 1.0F;
#pragma unroll
    for (int i = 0; i < kEach; i += kHalf) {
      const std::uint32_t at = from + row_of(i) * 4;
      if constexpr (kHalf == 4) {
        const float4 four = shared_load(at);
        v[i] = four.x;
        v[i + 1] = four.y;
        v[i + 2] = four.z;
        v[i + 3] = four.w;
      } else {
        v[i] = shared_load_float(at);
        v[i + 1] = shared_load_float(at + 4);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float sum = v[i] * scale;
      v[i] = (row_scales() ? sum * weight_scale_[i] : sum) + bias_[i];
    }
  }

  __device__ void finish_slice(int slice) {
    float v[kEach];
    read_sums(v, slice);
    const int t = token_of(slice);
    const bool live = t < rows_;
    const std::int64_t row = t * args_.ldy;
    switch (args_.epilogue) {
      case met::Epilogue::kStore:
        if (live) store(v, row + first_ + row_of(0));
        return;
      case met::Epilogue::kResidual:
        return add_to_residual(v, t, row + first_ + row_of(0));
      default:
        gate(v, t, row + first_ / 2 + row_of(0));
    }
  }

  __device__ void store(const float (&v)[kEach], std::int64_t at) const {
    if (args_.y_f32 == 0) {
      Neighbours<kEach> y;
      y.round(v);
      return y.store(static_cast<Bf16Bits*>(args_.y) + at, live_, whole_);
    }
    float* y = static_cast<float*>(args_.y) + at;
#pragma unroll
    for (int i = 0; i < kEach; i += 4) {
      if (whole_) {
        *reinterpret_cast<float4*>(y + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
        continue;
      }
#pragma unroll
      for (int j = i; j < i + 4; ++j)
        if (j < live_) y[j] = v[j];
    }
  }

  __device__ void gate(const float (&v)[kEach], int t, std::int64_t at) const {
    constexpr int kHalf = kEach / 2;
    const bool gelu = args_.epilogue == met::Epilogue::kGeluMul;
    float y[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) y[i] = activate(v[i], gelu) * v[i + kHalf];
    if constexpr (MayCode) {
      constexpr int kWarps = kScaleValues / (kWarpRows / 2);
      if (args_.coded.codes != nullptr) return store_codes<kWarps>(y, t, first_ / 2 + row_of(0));
    }
    if (t >= rows_) return;
    Neighbours<kHalf> rounded;
    rounded.round(y);
    rounded.store(static_cast<Bf16Bits*>(args_.y) + at, live_ / 2, whole_);
  }

  __device__ void load_residual(Neighbours<kEach>& to, int slice) const {
    const int t = token_of(slice);
    if (t < rows_ && live_ > 0) to.load(args_.residual + t * args_.ldy + first_ + row_of(0), live_, whole_);
  }

  __device__ void add_to_residual(float (&v)[kEach], int t, std::int64_t at) {
    float squares = 0.0F;
    if (t < rows_) {
      Neighbours<kEach> h = residual_[0];
#pragma unroll
      for (int i = 0; i < kEach; ++i) v[i] += h.value(i);
      h.round(v);
      h.store(args_.residual + at, live_, whole_);
      if (args_.squares != nullptr) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const float rounded = h.value(i);
          if (i < live_) squares = fmaf(rounded, rounded, squares);
          v[i] = rounded * factor_[i];
        }
        if (args_.scaled != nullptr) {
          h.round(v);
          h.store(args_.scaled + at, live_, whole_);
        }
      }
    }
    if constexpr (MayCode) {
      constexpr int kWarps = kScaleValues / kWarpRows;
      if (args_.coded.codes != nullptr) store_codes<kWarps>(v, t, first_ + row_of(0));
    }
#pragma unroll
    for (int step = kLanesEach / 2; step > 0; step /= 2)
      squares += __shfl_xor_sync(0xffffffffU, squares, step);
    if (lane_ % kLanesEach == 0) shared_store_float(memory_.squares(warp_, t), squares);
  }

  /// Writes a lane's values of row t, the first in column `column`, as codes; `Warps` neighbours share a scale. Lanes of dead
  /// rows come along.
  template <int Warps, int Count>
  __device__ void store_codes(const float (&v)[Count], int t, int column) const {
    float most = 0.0F;
#pragma unroll
    for (int i = 0; i < Count; ++i) most = fmaxf(most, fabsf(v[i]));
#pragma unroll
    for (int step = kLanesEach / 2; step > 0; step /= 2)
      most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, step));
    if (lane_ % kLanesEach == 0) shared_store_float(memory_.largest(turn_, warp_, t), most);
    const int first = warp_ / Warps * Warps;
    named_barrier(kFirstCodeBarrier + warp_ / Warps, Warps * kWarp);
#pragma unroll
    for (int w = 0; w < Warps; ++w)
      most = fmaxf(most, shared_load_float(memory_.largest(turn_, first + w, t)));
    const int live = min(Count, args_.coded.width - column);
    if (t >= rows_ || live <= 0) return;
    const float scale = e4m3_scale(most);
    const float inverse = 1.0F / scale;
    std::uint8_t* to = args_.coded.codes + static_cast<std::int64_t>(t) * args_.coded.width + column;
    if constexpr (Count >= 4) {
      if (live == Count && args_.coded.width % Count == 0) {
#pragma unroll
        for (int i = 0; i < Count; i += 4)
          reinterpret_cast<std::uint32_t*>(to)[i / 4] =
              e4m3_codes(v[i] * inverse, v[i + 1] * inverse, v[i + 2] * inverse, v[i + 3] * inverse);
      } else {
        store_each(to, v, inverse, live);
      }
    } else {
      store_each(to, v, inverse, live);
    }
    if (warp_ == first && lane_ % kLanesEach == 0) *scale_place(args_.coded, t, column) = scale;
  }
  template <int Count>
  __device__ static void store_each(std::uint8_t* to, const float (&v)[Count], float inverse, int live) {
#pragma unroll
    for (int i = 0; i < Count; ++i)
      if (i < live) to[i] = e4m3_code(v[i] * inverse);
  }

  /// Sums of squares of the tile's warps, in order.
  __device__ void add_squares(int tile) const {
    named_barrier(1, consumers());
    const int warps = args_.tile.rows / kWarpRows;
    const int end = min(end_ * kWidth, rows_);
    for (int t = begin_ * kWidth + thread_; t < end; t += consumers()) {
      float sum = 0.0F;
      for (int w = 0; w < warps; ++w) sum += shared_load_float(memory_.squares(w, t));
      args_.squares[static_cast<std::int64_t>(t) * args_.squares_count + tile] = sum;
    }
  }

  const ProjectionArgs& args_;
  const ProjectionMemory& memory_;
  const Work& work_;
  int thread_, lane_, warp_;
  bool gated_;
  int turn_ = 0;     // of the places where warps tell each other their largest
  int begin_, end_;  // slices that this block finishes
  int rows_ = 0;
  int first_ = 0;  // row of W
  int live_ = 0;
  bool holds_rows_ = false;
  bool whole_ = false;
  float bias_[kEach] = {};
  float factor_[kEach] = {};
  float weight_scale_[kEach] = {};
  Neighbours<kEach> residual_[kHeld] = {};
};

}  // namespace
