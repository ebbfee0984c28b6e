// The rings of the CUDA kernels of a decode step, walked on the host with every stage count that a plan or an entry has: nobody
// stands still, nobody reads a stage that holds another's data. The walks are those of the kernels' sources, which each names.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/mock/mock_backend.h"
#include "ops/cuda/projection.h"
#include "tests/ops/support/ring_walk.h"

namespace met::ops {
namespace {

using cuda::plan_projection;
using ring_walk::Barrier;
using ring_walk::Block;
using ring_walk::Cursor;
using ring_walk::expect_held;
using ring_walk::fill;
using ring_walk::Stages;
using ring_walk::wait;
using ring_walk::Walk;

// ---- the decode projection: kernels/hopper/common/projection_kernel.cuh, projection_ring.cuh ----

struct Projection {
  int stages, flight;  // of the ring
  int teams, groups;   // warpgroups that take stages in turn, or share them
  bool holds;  // a stage is given back when the next one's products run (BF16), or its own have ended (E4M3)
  int tiles, share;  // of the block; stages of each
  int total() const { return tiles * share; }
};

class ProjectionWalk {
 public:
  ProjectionWalk(const Projection& shape, std::uint32_t seed)
      : p_(shape),
        block_(seed),
        weights_(p_.stages, 1),
        x_(p_.stages, 1),
        empty_(p_.stages, p_.groups),
        joined_(p_.teams) {
    block_.add(bring_weights());
    block_.add(bring_x());
    for (int i = 0; i < std::max(p_.teams, p_.groups); ++i) block_.add(consume(p_.teams > 1 ? i : 0));
  }
  std::string run() {
    const std::string fault = block_.run();
    const bool overrun = weights_.overrun() || x_.overrun() || empty_.overrun();
    return fault.empty() && overrun ? "a barrier was overrun" : fault;
  }

 private:
  Walk bring_weights() {
    Cursor slot, landed, released;
    int number = 0;
    for (; number < std::min(p_.flight, p_.total()); ++number, slot.advance(p_.stages))
      fill(block_, weights_, slot.stage, number);
    int free = p_.stages - p_.flight;
    for (; number < p_.total(); ++number, slot.advance(p_.stages), landed.advance(p_.stages)) {
      co_await wait(weights_[landed.stage], landed.round);
      if (--free < 0) {
        co_await wait(empty_[released.stage], released.round);
        released.advance(p_.stages);
      }
      fill(block_, weights_, slot.stage, number);
    }
  }
  Walk bring_x() {
    Cursor slot, released;
    for (int number = 0; number < p_.total(); ++number, slot.advance(p_.stages)) {
      if (number >= p_.stages) {
        co_await wait(empty_[released.stage], released.round);
        released.advance(p_.stages);
      }
      fill(block_, x_, slot.stage, number);
    }
  }
  Walk consume(int team) {
    Cursor tile_begins;
    for (int tile = 0; tile < p_.tiles; ++tile, tile_begins.advance(p_.stages, p_.share)) {
      Cursor cursor = tile_begins;
      cursor.advance(p_.stages, team);
      int before = -1;  // the stage to give back once the next one's products run
      for (int i = team; i < p_.share; i += p_.teams, cursor.advance(p_.stages, p_.teams)) {
        co_await wait(x_[cursor.stage], cursor.round);
        co_await wait(weights_[cursor.stage], cursor.round);
        expect_held(block_, x_, cursor.stage, tile * p_.share + i);
        expect_held(block_, weights_, cursor.stage, tile * p_.share + i);
        if (before >= 0) empty_[before].arrive();
        before = p_.holds ? cursor.stage : -1;
        if (!p_.holds) empty_[cursor.stage].arrive();
      }
      if (before >= 0) empty_[before].arrive();
      if (p_.teams > 1) {
        joined_.arrive();
        co_await wait(joined_, static_cast<unsigned>(tile) % 2);
      }
    }
  }

  Projection p_;
  Block block_;
  Stages weights_, x_, empty_;
  Barrier joined_;
};

/// As a block of the plan's launch walks: number 0, which has the most tiles.
Projection shape_of(const cuda::ProjectionPlan& plan) {
  const ProjectionTile& tile = plan.tile;
  const bool e4m3 = plan.shape.weights == DType::kF8E4M3;
  const auto up = [](std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); };
  const int stages = up(plan.shape.k, std::int64_t{tile.chunks} * (e4m3 ? 128 : 64));
  return {.stages = tile.stages,
          .flight = tile.flight,
          .teams = tile.teams,
          .groups = tile.teams > 1 ? 1 : up(tile.rows, 64),
          .holds = !e4m3,
          .tiles = up(plan.squares_count, static_cast<int>(plan.grid.x) / tile.split),
          .share = up(stages, tile.split)};
}

struct Matrix {
  int n, k;
};

// Of Qwen3-8B, Qwen3-30B-A3B, Qwen3-1.7B, Llama-3.2-1B, Gemma-3-27B, SmolLM2-135M, and k that is no whole number of stages.
constexpr Matrix kMatrices[] = {{6144, 4096},  {4096, 4096},   {24576, 4096},  {4096, 12288}, {151936, 4096},
                                {5120, 2048},  {2048, 4096},   {151936, 2048}, {2048, 2048},  {2048, 6144},
                                {2048, 8192},  {12288, 2048},  {8192, 5376},   {5376, 4096},  {43008, 5376},
                                {5376, 21504}, {262208, 5376}, {960, 576},     {576, 576},    {576, 1536},
                                {128, 64},     {64, 160},      {384, 128},     {1024, 896}};

TEST(CudaRings, EveryPlannedProjectionComesToItsEnd) {
  gpu::mock::MockBackend device({.multiprocessors = 132});
  // What the decoder asks for: all shared memory, or room beside attention.
  constexpr int kShared[] = {0, 128 << 10, 160 << 10};
  std::set<std::tuple<int, int, int, int, bool, int, int>> known;
  for (const DType weights : {DType::kBF16, DType::kF8E4M3})
    for (const Matrix& m : kMatrices)
      for (const int tokens : {1, 16, 32, 64, 128, 256})
        for (const int shared : kShared) {
          if (weights == DType::kF8E4M3 && (m.k % kE4m3Granule != 0 || tokens > cuda::kProjectionTokensE4m3))
            continue;
          if (shared > 0 && tokens > 8) continue;
          const auto plan = plan_projection(device, {.n = m.n,
                                                     .k = m.k,
                                                     .tokens = tokens,
                                                     .tokens_max = 256,
                                                     .weights = weights,
                                                     .epilogue = Epilogue::kStore,
                                                     .shared_max = shared});
          ASSERT_TRUE(plan) << plan.error().message;
          const Projection p = shape_of(*plan);
          if (!known.insert({p.stages, p.flight, p.teams, p.groups, p.holds, p.tiles, p.share}).second)
            continue;
          for (std::uint32_t seed = 1; seed <= 3; ++seed)
            ASSERT_EQ(ProjectionWalk(p, seed).run(), "")
                << m.n << " x " << m.k << ", " << tokens << " tokens, " << shared
                << " bytes at most: tiles of " << plan->tile.rows << " rows, " << p.stages << " stages, "
                << p.teams << " teams";
        }
  EXPECT_GT(known.size(), 20U);
}

// Each team needs a stage beside the one whose products run, and a stage must always belong to one team.
TEST(CudaRings, ATeamThatHasOneStageStandsStill) {
  EXPECT_EQ(ProjectionWalk(
                {.stages = 2, .flight = 2, .teams = 2, .groups = 1, .holds = true, .tiles = 1, .share = 4}, 1)
                .run(),
            "stands still");
  EXPECT_EQ(ProjectionWalk(
                {.stages = 4, .flight = 2, .teams = 2, .groups = 1, .holds = true, .tiles = 1, .share = 4}, 1)
                .run(),
            "");
}

TEST(CudaRings, AStageThatTwoTeamsTakeInTurnIsMisread) {
  int wrong = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed)
    wrong +=
        ProjectionWalk(
            {.stages = 5, .flight = 5, .teams = 2, .groups = 1, .holds = true, .tiles = 1, .share = 40}, seed)
                .run()
                .empty()
            ? 0
            : 1;
  EXPECT_GT(wrong, 0);
}

}  // namespace
}  // namespace met::ops
