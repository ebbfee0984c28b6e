// Preemption by swap: to the host pool, from there to disk, and back. Rules S14 to S19, S25, B9.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

SimOptions swap_options(int blocks, int batch, int depth, int swap_blocks, int disk_blocks = 0) {
  SimOptions options = small_options(blocks, batch, depth);
  options.plan.kv_admit_watermark = 0;
  options.plan.swap_blocks = swap_blocks;
  options.plan.disk_blocks = disk_blocks;
  options.plan.swap_least_tokens = 0;
  return options;
}

void expect_solo(const Simulation& met) {
  for (const std::string& name : met.names()) EXPECT_EQ(met.got(name).ids, met.solo(name)) << name;
}

void submit_three(Simulation& met) {
  met.submit("A", {.prompt = 6, .max_tokens = 30});
  met.submit("B", {.prompt = 6, .max_tokens = 24});
  met.submit("C", {.prompt = 6, .max_tokens = 20});
}

TEST(Swap, AVictimGoesToTheHostPoolAndComesBack) {  // S17, S18, S19
  for (const int depth : {1, 2}) {
    Simulation met(swap_options(/*blocks=*/11, /*batch=*/3, depth, /*swap_blocks=*/20));
    submit_three(met);
    expect_trace("swap_depth" + std::to_string(depth), met.run());
    const Statistics& stats = met.loop().snapshot().stats;
    EXPECT_GE(met.loop().snapshot().preemptions, 2);
    EXPECT_EQ(stats.preemptions_swap, met.loop().snapshot().preemptions);
    EXPECT_EQ(stats.tokens[static_cast<std::size_t>(TokenClass::kRecomputed)], 0);
    EXPECT_GT(stats.swap_in_bytes, 0);
    expect_solo(met);
  }
}

TEST(Swap, APrefillThatWasSwappedGoesOnWhereItStopped) {  // S3, S18
  for (const int depth : {1, 2}) {
    SimOptions options = swap_options(/*blocks=*/12, /*batch=*/2, depth, /*swap_blocks=*/20);
    options.plan.mixed_prefill_tokens = 4;
    Simulation met(options);
    met.submit("A", {.prompt = 14, .max_tokens = 30});
    met.tick();
    met.submit("B", {.prompt = 26, .max_tokens = 3});
    met.tick_until("B", SeqState::kSwapped);
    EXPECT_EQ(met.got("B").ids.size(), 0U) << "it was prefilling";
    expect_trace("swap_prefill_depth" + std::to_string(depth), met.run());
    expect_solo(met);
  }
}

TEST(Swap, WhatTheHostPoolCannotTakeIsRecomputed) {  // S17
  Simulation met(swap_options(/*blocks=*/11, /*batch=*/3, 1, /*swap_blocks=*/2));
  submit_three(met);
  met.run();
  EXPECT_EQ(met.loop().snapshot().stats.preemptions_swap, 0);
  EXPECT_GE(met.loop().snapshot().preemptions, 2);
  expect_solo(met);
}

TEST(Swap, MeasuredCostsChooseTheMode) {  // S17
  const PlanConfig config{.block_tokens = 16, .swap_blocks = 100, .swap_least_tokens = 512};
  struct Case {
    std::int64_t planned_len, swap_block_ns, prefill_token_ns, swap_free;
    SeqIndex fork_from;
    PreemptMode want;
  };
  constexpr auto kSwap = PreemptMode::kSwap;
  constexpr auto kRecompute = PreemptMode::kRecompute;
  const Case cases[] = {
      {512, 0, 0, 100, -1, kRecompute},         // nothing known: 512 tokens are not more than 512
      {513, 0, 0, 100, -1, kSwap},              //
      {513, 1000, 0, 100, -1, kSwap},           // half known is unknown
      {32, 15'999, 1000, 100, -1, kSwap},       // two blocks at 15,999 against 32 tokens at 1,000
      {32, 16'000, 1000, 100, -1, kRecompute},  // equal: no copy
      {1600, 16'001, 1000, 100, -1, kRecompute},
      {1600, 1, 1000, 99, -1, kRecompute},  // no room
      {1600, 1, 1000, 100, 3, kRecompute},  // it has not forked yet
      {0, 1, 1000, 100, -1, kRecompute},    // nothing to save
  };
  for (const Case& c : cases) {
    const LiveView victim{.fork_from = c.fork_from, .planned_len = c.planned_len};
    const CostModel cost{.prefill_token_ns = c.prefill_token_ns, .swap_block_ns = c.swap_block_ns};
    EXPECT_EQ(preempt_mode(victim, config, cost, c.swap_free), c.want)
        << c.planned_len << " " << c.swap_block_ns << " " << c.swap_free;
  }
}

TEST(Swap, EightStreamsInAPoolForOneAndAHalfRecomputeLittle) {  // S14 to S19: the pool holds 1.5 of them
  for (const int depth : {1, 2}) {
    for (const int swap_blocks : {0, 200}) {
      SimOptions options = swap_options(/*blocks=*/24, /*batch=*/8, depth, swap_blocks);
      options.plan.max_seq_len = 64;
      if (swap_blocks == 0) options.plan.kv_admit_watermark = 16;  // of 54 outputs
      Simulation met(options);
      for (char name = 'A'; name <= 'H'; ++name)
        met.submit(std::string(1, name), {.prompt = 10, .max_tokens = 54});
      met.run(5000);
      expect_solo(met);
      const Statistics& stats = met.loop().snapshot().stats;
      const auto count = [&](TokenClass kind) { return stats.tokens[static_cast<std::size_t>(kind)]; };
      const std::int64_t recomputed = count(TokenClass::kRecomputed);
      const std::int64_t all = recomputed + count(TokenClass::kPrefill) + count(TokenClass::kDecode);
      std::printf("depth %d, swap places %d: %lld preemptions, %lld of %lld tokens recomputed\n", depth,
                  swap_blocks, static_cast<long long>(met.loop().snapshot().preemptions),
                  static_cast<long long>(recomputed), static_cast<long long>(all));
      EXPECT_GT(met.loop().snapshot().preemptions, 0);
      EXPECT_LE(recomputed * 100, all * (swap_blocks > 0 ? 0 : 15)) << "at most 15 %, none with a swap pool";
    }
  }
}

/// Everything that a swapped sequence may pass through, seen once each: kLeaving at depth 2 only.
TEST(Swap, TheYoungestGoesToDiskAndIsLoadedBeforeItResumes) {  // S25
  for (const int depth : {1, 2}) {
    Simulation met(swap_options(/*blocks=*/24, /*batch=*/6, depth, /*swap_blocks=*/24, /*disk_blocks=*/100));
    for (char name = 'A'; name <= 'F'; ++name)
      met.submit(std::string(1, name), {.prompt = 10, .max_tokens = 50});
    expect_trace("swap_disk_depth" + std::to_string(depth), met.run(5000));
    const Statistics& stats = met.loop().snapshot().stats;
    EXPECT_GT(stats.disk_out_bytes, 0);
    EXPECT_EQ(stats.disk_in_bytes, stats.disk_out_bytes);
    EXPECT_EQ(stats.tokens[static_cast<std::size_t>(TokenClass::kRecomputed)], 0);
    expect_solo(met);
  }
}

TEST(Swap, AFailingDiskCostsRecomputationAndNothingElse) {  // S25, F1
  std::set<bool> recomputed;
  for (int fails_at = 0; fails_at < 6; ++fails_at) {
    Simulation met(swap_options(/*blocks=*/24, /*batch=*/6, 1, /*swap_blocks=*/24, /*disk_blocks=*/100));
    met.spill().fails_at = fails_at;
    for (char name = 'A'; name <= 'F'; ++name)
      met.submit(std::string(1, name), {.prompt = 10, .max_tokens = 50});
    met.run(5000);
    const Statistics& stats = met.loop().snapshot().stats;
    if (met.spill().moves() > fails_at) {
      EXPECT_EQ(stats.spill_failures, 1) << fails_at;
    }
    recomputed.insert(stats.tokens[static_cast<std::size_t>(TokenClass::kRecomputed)] > 0);
    expect_solo(met);
  }
  EXPECT_TRUE(recomputed.contains(true)) << "a load failed";
}

TEST(Swap, ACancelGivesThePlacesBackWhereverTheBlocksAre) {  // R4, R5, B9
  std::set<SwapPlace> seen;
  for (const int depth : {1, 2}) {
    for (int ticks = 1; ticks < 160; ++ticks) {
      Simulation met(
          swap_options(/*blocks=*/24, /*batch=*/6, depth, /*swap_blocks=*/24, /*disk_blocks=*/100));
      for (char name = 'A'; name <= 'F'; ++name)
        met.submit(std::string(1, name), {.prompt = 10, .max_tokens = 50});
      for (int i = 0; i < ticks; ++i) met.tick();
      const std::set<SwapPlace> before = seen;
      for (const Sequence& s : met.loop().sequences())
        if (s.record) seen.insert(s.place);
      if (seen == before) continue;
      for (char name = 'B'; name <= 'F'; ++name) met.cancel(std::string(1, name));
      met.run();  // checks every place, and that all are back in the end
      EXPECT_EQ(met.got("A").ids, met.solo("A"));
    }
  }
  EXPECT_EQ(seen.size(), 6U) << "none, leaving, host, storing, disk, loading";
}

}  // namespace
}  // namespace met::scheduler::testing
