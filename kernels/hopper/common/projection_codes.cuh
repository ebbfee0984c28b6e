// x of the decode projection as E4M3, made in each block from the BF16 that the copy engine brought.
//
// A row of a pair of chunks, 128 of k in two lines of 128 bytes, becomes one line of codes in the place of the first; the
// row's scale takes a word of the second. A crew of warps makes a stage, crews take stages in turn.
#pragma once

#include "e4m3.cuh"
#include "projection_ring.cuh"

namespace {

constexpr int kLineLanes = 8;                  // lanes that share a row: 16 values, a unit of 16 codes each
constexpr int kLineRows = kWarp / kLineLanes;  // rows of a warp at a time
constexpr int kUnitBytes = 16;
constexpr int kUnitWords = 4;

/// Scales of a pair of chunks at `x`: that of row r in its second line, rows 0 … 31 in different banks.
template <int N>
class XScales {
 public:
  /// From row `first` below 8 on.
  __device__ XScales(std::uint32_t x, int first)
      : at_(x + N * kChunkBytes + first * (kChunkBytes + kScaleBytes)) {}
  /// Of the first row but 8 `group` + `row`.
  __device__ std::uint32_t at(int group, int row = 0) const {
    return at_ + (8 * group + row) * kChunkBytes + (8 * group % 32 + row) * kScaleBytes;
  }

 private:
  static constexpr int kScaleBytes = 4;
  std::uint32_t at_;
};

/// A lane's share of a row: 16 values that become one unit of codes.
class RowShare {
 public:
  /// `line`: the row's first line. Lanes of the second line take their two units the other way around: no bank twice.
  template <int N>
  __device__ void load(std::uint32_t line, int row, int lane) {
    const int second = lane / (kLineLanes / 2);
    const std::uint32_t from = line + second * N * kChunkBytes;
    const int unit = 2 * (lane % (kLineLanes / 2)) + second;
    const uint4 one = shared_load_bits(from + (unit ^ row % 8) * kUnitBytes);
    const uint4 other = shared_load_bits(from + ((unit ^ 1) ^ row % 8) * kUnitBytes);
    set(0, second != 0 ? other : one);
    set(kUnitWords, second != 0 ? one : other);
  }
  /// The largest magnitude of the row.
  __device__ float largest() const {
    __nv_bfloat162 most = __habs2(pair(0));
#pragma unroll
    for (int i = 1; i < 2 * kUnitWords; ++i) most = __hmax2(most, __habs2(pair(i)));
    float value = fmaxf(__low2float(most), __high2float(most));
#pragma unroll
    for (int step = kLineLanes / 2; step > 0; step /= 2)
      value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, step));
    return value;
  }
  __device__ uint4 codes(float inverse) const {
    std::uint32_t four[kUnitWords];
#pragma unroll
    for (int i = 0; i < kUnitWords; ++i) {
      const float2 low = __bfloat1622float2(pair(2 * i));
      const float2 high = __bfloat1622float2(pair(2 * i + 1));
      four[i] = e4m3_codes(low.x * inverse, low.y * inverse, high.x * inverse, high.y * inverse);
    }
    return make_uint4(four[0], four[1], four[2], four[3]);
  }

 private:
  __device__ void set(int at, uint4 unit) {
    words_[at] = unit.x;
    words_[at + 1] = unit.y;
    words_[at + 2] = unit.z;
    words_[at + 3] = unit.w;
  }
  __device__ __nv_bfloat162 pair(int i) const { return *reinterpret_cast<const __nv_bfloat162*>(&words_[i]); }

  std::uint32_t words_[2 * kUnitWords];
};

/// Turns `Turns` groups of four rows of pairs of chunks into codes; `first`, first + step, … number the groups of a stage,
/// `groups` a pair.
template <int N, int Turns>
__device__ void code_rows(std::uint32_t x, int first, int step, int groups) {
  const int lane = static_cast<int>(threadIdx.x) % kLineLanes;
  const int row_in_group = static_cast<int>(threadIdx.x) % kWarp / kLineLanes;
  RowShare shares[Turns];
  std::uint32_t pairs[Turns];
  int rows[Turns];
#pragma unroll
  for (int i = 0; i < Turns; ++i) {
    const int group = first + i * step;
    pairs[i] = x + group / groups * (2 * N * kChunkBytes);
    rows[i] = group % groups * kLineRows + row_in_group;
    shares[i].template load<N>(pairs[i] + rows[i] * kChunkBytes, rows[i], lane);
  }
  __syncwarp();  // who writes a row's line has seen all of it
#pragma unroll
  for (int i = 0; i < Turns; ++i) {
    const float scale = e4m3_scale(shares[i].largest());
    const std::uint32_t line = pairs[i] + rows[i] * kChunkBytes;
    shared_store(line + (lane ^ rows[i] % 8) * kUnitBytes, shares[i].codes(1.0F / scale));
    if (lane == 0) shared_store_float(XScales<N>(pairs[i], rows[i] % 8).at(rows[i] / 8), scale);
  }
}

/// A warp that makes codes, number `coder` of them; `Crew` warps share a stage.
template <int N, int Crew>
__device__ void code_x(const ProjectionArgs& args, const ProjectionMemory& memory, const Work& work,
                       int coder) {
  constexpr int kTurns = 2;  // groups of rows that a warp has in hand
  const ProjectionTile& tile = args.tile;
  const int crews = tile.coders * (kGroupThreads / kWarp) / Crew;
  const int crew = coder / Crew;
  wait_for_producers();
  const int groups = (rows_of(args, N) + kLineRows - 1) / kLineRows;
  const int total = stages_of(work);
  RingCursor cursor;
  cursor.advance(tile.stages, crew);
  for (int i = crew; i < total; i += crews) {
    barrier_wait(memory.x_full(cursor.slot), cursor.phase);
    const std::uint32_t x = memory.x(cursor.slot);
    int group = coder % Crew;
    for (; group + Crew < tile.chunks * groups; group += kTurns * Crew)
      code_rows<N, kTurns>(x, group, Crew, groups);
    if (group < tile.chunks * groups) code_rows<N, 1>(x, group, Crew, groups);
    async_proxy_fence();
    __syncwarp();
    if (threadIdx.x % kWarp == 0) barrier_arrive(memory.x_coded(cursor.slot));
    cursor.advance(tile.stages, crews);
  }
}

}  // namespace
