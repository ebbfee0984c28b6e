// The rings of the CUDA products of many tokens and of experts, walked on the host as those of cuda_rings_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "tests/ops/support/ring_walk.h"

namespace met::ops {
namespace {

using ring_walk::Barrier;
using ring_walk::Block;
using ring_walk::Cursor;
using ring_walk::expect_held;
using ring_walk::fill;
using ring_walk::Stages;
using ring_walk::wait;
using ring_walk::Walk;

// ---- products of many tokens: kernels/hopper/common/gemm_kernel.cuh, gemm_tile.cuh ----

enum class Share { kNone, kPair, kSplit };

struct GemmTiles {
  int tiles;     // of a cluster
  int live;      // of them, from the first one on, that hold any row; the others are walked over
  int rows;      // groups of 64 rows that the first block's live tiles hold; the second of a pair: one less
  bool early;    // weights of the first tile are loaded before it is known which are live
  int share;     // stages of k of a block
  int together;  // stages that are summed before their sum is added up, which waits for all of them
};

class GemmWalk {
 public:
  GemmWalk(Share mode, int stages, const GemmTiles& work, std::uint32_t seed)
      : mode_(mode), stages_(stages), work_(work), block_(seed) {
    const int blocks = mode == Share::kNone ? 1 : 2;
    for (int b = 0; b < blocks; ++b)
      memory_.emplace_back(stages, mode == Share::kPair ? 2 * kGroups : kGroups);
    for (int b = 0; b < blocks; ++b) {
      block_.add(produce(b));
      for (int group = 0; group < kGroups; ++group) block_.add(consume(b, group));
    }
  }
  std::string run() {
    const std::string fault = block_.run();
    const bool overrun = std::ranges::any_of(memory_, [](const Memory& m) {
      return m.x.overrun() || m.empty.overrun() || m.summed.overrun() || m.taken.overrun();
    });
    return fault.empty() && overrun ? "a barrier was overrun" : fault;
  }

 private:
  static constexpr int kGroups = 2;
  /// Of a block. Weights come in halves where a pair shares them; all copies of a stage count at the barriers of `x`.
  struct Memory {
    Memory(int stages, int readers)
        : x(stages, 1),
          weights(2, std::vector<int>(static_cast<std::size_t>(stages), -2)),
          empty(stages, readers),
          summed(1),
          taken(kGroups) {}
    Stages x;
    std::vector<std::vector<int>> weights;
    Stages empty;
    Barrier summed, taken;
  };
  Memory& at(int b) { return memory_[static_cast<std::size_t>(b)]; }
  int early() const { return work_.early ? std::min(stages_, work_.share) : 0; }
  bool holds_rows(int b, int group) const {
    return group < work_.rows - (mode_ == Share::kPair && b == 1 ? 1 : 0);
  }

  void load_weights(int b, int stage, int number) {
    at(b).x[stage].expect(mode_ == Share::kPair ? 3 : 2);
    at(b).x.held(stage) = -1;
    const std::size_t half = mode_ == Share::kPair ? static_cast<std::size_t>(b) : 0;
    for (std::size_t to = 0; to < memory_.size(); ++to) {
      if (mode_ != Share::kPair && to != static_cast<std::size_t>(b)) continue;
      int& held = memory_[to].weights[half][static_cast<std::size_t>(stage)];
      held = -1;
      block_.copy(memory_[to].x[stage], [&held, number] { held = number; });
    }
  }
  Walk produce(int b) {
    int loaded = early();
    for (int i = 0; i < loaded; ++i) load_weights(b, i, i);
    Cursor cursor;
    int number = 0;
    for (int tile = 0; tile < work_.tiles; ++tile) {
      const int end = tile < work_.live ? work_.share : loaded;
      for (int i = 0; i < end; ++i, ++number, cursor.advance(stages_)) {
        if (loaded > 0) {
          --loaded;
        } else {
          co_await wait(at(b).empty[cursor.stage], cursor.round ^ 1);
          load_weights(b, cursor.stage, number);
        }
        block_.copy(at(b).x[cursor.stage],
                    [this, b, stage = cursor.stage, number] { at(b).x.held(stage) = number; });
      }
    }
  }
  void release(int b, int stage) {
    if (mode_ != Share::kPair) return at(b).empty[stage].arrive();
    for (Memory& memory : memory_) memory.empty[stage].arrive();
  }
  void read(int b, int stage, int number) {
    expect_held(block_, at(b).x, stage, number);
    for (std::size_t half = 0; half < (mode_ == Share::kPair ? 2U : 1U); ++half)
      if (at(b).weights[half][static_cast<std::size_t>(stage)] != number)
        block_.wrong("weights of another stage");
  }
  Walk consume(int b, int group) {
    Cursor cursor;
    int number = 0;
    unsigned round = 0;
    for (int tile = 0; tile < work_.tiles; ++tile) {
      const bool live = tile < work_.live;
      const bool multiplies = live && holds_rows(b, group);
      const int count = live ? work_.share : tile == 0 ? early() : 0;
      int before = -1;  // given back once the next one's products run
      for (int i = 0; i < count; ++i, ++number, cursor.advance(stages_)) {
        co_await wait(at(b).x[cursor.stage], cursor.round);
        if (multiplies) read(b, cursor.stage, number);
        if (before >= 0) release(b, before);
        before = multiplies ? cursor.stage : -1;
        if (!multiplies) release(b, cursor.stage);
        if (before >= 0 && (i + 1) % work_.together == 0) {
          release(b, before);
          before = -1;
        }
      }
      if (before >= 0) release(b, before);
      if (mode_ != Share::kSplit || !live) continue;
      if (group == 0) at(b).summed.expect(kGroups);
      co_await wait(at(b).taken, round ^ 1);
      block_.copy(at(b ^ 1).summed, [] {});
      co_await wait(at(b).summed, round);
      if (tile + 1 < work_.live) at(b ^ 1).taken.arrive();
      round ^= 1;
    }
  }

  Share mode_;
  int stages_;
  GemmTiles work_;
  std::deque<Memory> memory_;
  Block block_;
};

TEST(CudaProductRings, ProductsOfManyTokensComeToTheirEnd) {
  for (const Share mode : {Share::kNone, Share::kPair, Share::kSplit})
    for (const int stages : {4, 5, 6, 7, 8})
      for (const int share : {1, 3, stages, 20})
        for (const bool early : {false, true})
          for (const int live : {0, 1, 2, 3})
            for (const int rows : {1, 2})
              for (const int together : {1, 4, 20})
                for (std::uint32_t seed = 1; seed <= 3; ++seed)
                  ASSERT_EQ(GemmWalk(mode, stages,
                                     {.tiles = 3,
                                      .live = live,
                                      .rows = rows,
                                      .early = early,
                                      .share = share,
                                      .together = together},
                                     seed)
                                .run(),
                            "")
                      << "mode " << static_cast<int>(mode) << ", " << stages << " stages, " << share
                      << " of a tile, " << live << " tiles with rows, " << rows << " groups, early " << early
                      << ", " << together << " together";
}

// ---- products of a mixture's experts: kernels/hopper/common/moe_gemm_kernel.cuh ----

class MoeWalk {
 public:
  MoeWalk(int stages, int lag, int groups, int tiles, int share, std::uint32_t seed)
      : stages_(stages),
        lag_(lag),
        tiles_(tiles),
        share_(share),
        block_(seed),
        full_(stages, 2),
        gathered_(static_cast<std::size_t>(stages), -1),
        empty_(stages, groups) {
    block_.add(bring_weights());
    block_.add(gather());
    for (int i = 0; i < groups; ++i) block_.add(multiply());
  }
  std::string run() {
    const std::string fault = block_.run();
    return fault.empty() && (full_.overrun() || empty_.overrun()) ? "a barrier was overrun" : fault;
  }

 private:
  Walk bring_weights() {
    Cursor cursor;
    for (int number = 0; number < tiles_ * share_; ++number, cursor.advance(stages_)) {
      co_await wait(empty_[cursor.stage], cursor.round ^ 1);
      fill(block_, full_, cursor.stage, number);
    }
  }
  Walk gather() {
    Cursor cursor, oldest;
    int announced = 0;
    const auto announce = [&] {
      gathered_[static_cast<std::size_t>(oldest.stage)] = announced++;
      full_[oldest.stage].arrive();
      oldest.advance(stages_);
    };
    for (int number = 0; number < tiles_ * share_; ++number, cursor.advance(stages_)) {
      co_await wait(empty_[cursor.stage], cursor.round ^ 1);
      if (number + 1 - announced == lag_) announce();
    }
    while (announced < tiles_ * share_) announce();
  }
  Walk multiply() {
    Cursor cursor;
    for (int tile = 0; tile < tiles_; ++tile) {
      int before = -1;
      for (int i = 0; i < share_; ++i, cursor.advance(stages_)) {
        co_await wait(full_[cursor.stage], cursor.round);
        expect_held(block_, full_, cursor.stage, tile * share_ + i);
        if (gathered_[static_cast<std::size_t>(cursor.stage)] != tile * share_ + i)
          block_.wrong("x is not that of the stage");
        if (before >= 0) empty_[before].arrive();
        before = cursor.stage;
      }
      empty_[before].arrive();
    }
  }

  int stages_, lag_, tiles_, share_;
  Block block_;
  Stages full_;
  std::vector<int> gathered_;
  Stages empty_;
};

TEST(CudaProductRings, ProductsOfExpertsComeToTheirEnd) {
  struct Entry {
    int stages, groups;
  };
  constexpr int kLag = 3;
  for (const Entry entry : {Entry{6, 1}, {5, 1}, {4, 1}, {4, 2}, {6, 2}, {12, 1}, {10, 1}, {8, 1}, {8, 2}})
    for (const int share : {1, 2, 3, 8, 12, 32})
      for (std::uint32_t seed = 1; seed <= 5; ++seed)
        ASSERT_EQ(MoeWalk(entry.stages, kLag, entry.groups, 7, share, seed).run(), "")
            << entry.stages << " stages, " << share << " of a tile";
  EXPECT_EQ(MoeWalk(kLag, kLag + 1, 1, 1, 8, 1).run(), "stands still");
}

}  // namespace
}  // namespace met::ops
