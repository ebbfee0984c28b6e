// Which (row, query tile, head) a block of prefill attention takes next. Tiles of the same number in all rows follow each
// other, the last numbers first: a fresh row's tile costs in proportion to its number, so the longest come first. The
// heads of a tile are neighbours, so that blocks that run together read the same keys. Blocks take items in turn, back and
// forth, which evens out the lengths.
#pragma once

#include <cstdint>

#include "met/cuda_ops.h"

namespace {

/// Queries [token, token + queries) of one head, at positions [position, …).
struct PrefillItem {
  std::int32_t token;
  std::int32_t queries;
  std::int32_t position;
  std::int32_t row_end;  // position behind the row's last token: keys from here on are not written
  std::int32_t table_begin;
  std::int32_t head;  // -1: no more work
};

/// The walk of one warp; all its lanes hold the same.
template <int Queries>
class PrefillItems {
 public:
  __device__ PrefillItems(const met::PrefillAttentionArgs& args)
      : rows_(args.rows + args.counts->decode_rows),
        row_count_(args.counts->rows - args.counts->decode_rows),
        heads_(args.layer.heads) {
    int longest = 0;
    for (int r = lane(); r < row_count_; r += kWarpLanes) longest = max(longest, tiles_of(r));
    level_ = static_cast<int>(__reduce_max_sync(kAll, static_cast<unsigned>(longest)));
    count_level();
  }

  __device__ PrefillItem next() {
    const int in_turn = static_cast<int>(turn_ % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    const int index = turn_++ * static_cast<int>(gridDim.x) + in_turn;
    const int tile = index / heads_;
    while (level_ > 0 && tile >= before_ + at_level_) {
      before_ += at_level_;
      --level_;
      count_level();
    }
    if (level_ == 0) return {.head = -1};
    const met::StepRow row = rows_[row_at(tile - before_)];
    const int first = (level_ - 1) * Queries;
    return {.token = row.token_begin + first,
            .queries = min(Queries, row.tokens - first),
            .position = row.position + first,
            .row_end = row.position + row.tokens,
            .table_begin = row.table_begin,
            .head = index % heads_};
  }

 private:
  static constexpr int kWarpLanes = 32;
  static constexpr unsigned kAll = 0xffffffffU;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
  __device__ int tiles_of(int row) const { return (rows_[row].tokens + Queries - 1) / Queries; }
  __device__ unsigned rows_at_level(int first) const {
    const int row = first + lane();
    return __ballot_sync(kAll, row < row_count_ && tiles_of(row) >= level_);
  }
  __device__ void count_level() {
    at_level_ = 0;
    for (int first = 0; first < row_count_; first += kWarpLanes) at_level_ += __popc(rows_at_level(first));
  }
  /// The row of number `skip` among those that reach the level.
  __device__ int row_at(int skip) const {
    for (int first = 0;; first += kWarpLanes) {
      unsigned reach = rows_at_level(first);
      const int count = __popc(reach);
      if (skip < count) {
        for (; skip > 0; --skip) reach &= reach - 1;
        return first + __ffs(static_cast<int>(reach)) - 1;
      }
      skip -= count;
    }
  }

  const met::StepRow* rows_;
  int row_count_;
  int heads_;
  int level_;       // tiles of number level_ - 1 come now; 0: all are taken
  int before_ = 0;  // tiles of higher levels
  int at_level_;
  int turn_ = 0;
};

}  // namespace
