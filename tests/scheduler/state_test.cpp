// Prefix hits of models with recurrent state: the state at the end of a hit comes from a checkpoint. Rules H1 to H7, H9.
#include <gtest/gtest.h>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

SimOptions hybrid(TailCapture tail, int depth = 1, int blocks = 60) {
  SimOptions options = small_options(blocks, /*batch=*/4, depth);
  options.plan.recurrent = {.on = true, .tail = tail, .slots = 8, .interval_blocks = 100, .least_tokens = 4};
  return options;
}

void expect_solo(const Simulation& met) {
  for (const std::string& name : met.names()) EXPECT_EQ(met.got(name).ids, met.solo(name)) << name;
}

TEST(State, TheTailIsTheLastBoundaryStrictlyBelowTheEnd) {  // H5
  struct Case {
    std::int64_t tokens, block, want;
  };
  for (const Case& c : {Case{0, 16, -1}, Case{16, 16, -1}, Case{17, 16, 16}, Case{32, 16, 16},
                        Case{33, 16, 32}, Case{100, 0, -1}, Case{5, 1, 4}, Case{1, 1, -1}})
    EXPECT_EQ(tail_boundary(c.tokens, c.block), c.want) << c.tokens << " " << c.block;
}

TEST(State, ASecondTurnBeginsAtTheTailOfTheFirst) {  // H2, H6
  for (const int depth : {1, 2}) {
    std::string traces;
    for (const TailCapture tail : {TailCapture::kOff, TailCapture::kSplit, TailCapture::kMidchunk}) {
      Simulation met(hybrid(tail, depth));
      met.submit("first", {.prompt = 22, .max_tokens = 4, .shared = 22});
      met.at(8, [](Simulation& m) { m.submit("second", {.prompt = 30, .max_tokens = 3, .shared = 22}); });
      met.at(14, [](Simulation& m) { m.submit("other", {.prompt = 30, .max_tokens = 3}); });
      traces += "== " + std::to_string(static_cast<int>(tail)) + "\n" + met.run();
      EXPECT_EQ(met.got("second").terminal->cached, tail == TailCapture::kOff ? 0 : 20);
      EXPECT_EQ(met.got("other").terminal->cached, 0);
      expect_solo(met);
    }
    expect_trace("hybrid_tail_depth" + std::to_string(depth), traces);
  }
}

TEST(State, BlocksWithoutAStateAreNoHit) {  // H2: the match is deeper than the checkpoint
  SimOptions options = hybrid(TailCapture::kOff);
  options.plan.recurrent.interval_blocks = 4;
  Simulation met(options);
  met.submit("first", {.prompt = 44, .max_tokens = 2, .shared = 44});
  met.at(8, [](Simulation& m) { m.submit("second", {.prompt = 50, .max_tokens = 3, .shared = 44}); });
  expect_trace("hybrid_interval", met.run());
  EXPECT_EQ(met.got("second").terminal->cached, 32) << "chunks of 16: the checkpoint at 32, though 44 match";
  EXPECT_EQ(met.loop().snapshot().stats.checkpoints_restored, 1);
  expect_solo(met);
}

TEST(State, AFinishedTurnLeavesItsStateWhereABlockEnds) {  // H4: leaf
  Simulation met(hybrid(TailCapture::kOff));
  met.submit("first", {.prompt = 10, .max_tokens = 7, .shared = 10});  // 16 positions are computed
  met.run();
  // The next turn has the answer in its prompt: a sequence that computes the same ids.
  EXPECT_EQ(met.loop().snapshot().stats.checkpoints_stored, 0) << "the next step writes it";
  met.submit("next", {.prompt = 3, .max_tokens = 1});
  met.run();
  EXPECT_EQ(met.loop().snapshot().stats.checkpoints_stored, 1);
  expect_solo(met);
}

TEST(State, ARestoreThatSavesLittleIsSkipped) {  // H7
  for (const std::int64_t least : {20, 21}) {
    SimOptions options = hybrid(TailCapture::kSplit);
    options.plan.recurrent.least_tokens = least;
    Simulation met(options);
    met.submit("first", {.prompt = 22, .max_tokens = 2, .shared = 22});
    met.at(8, [](Simulation& m) { m.submit("second", {.prompt = 30, .max_tokens = 3, .shared = 22}); });
    met.run();
    EXPECT_EQ(met.got("second").terminal->cached, least == 20 ? 20 : 0);
    expect_solo(met);
  }
}

TEST(State, TheLeastRecentCheckpointIsGivenUp) {  // H7
  SimOptions options = hybrid(TailCapture::kSplit);
  options.plan.recurrent.slots = 2;
  Simulation met(options);
  const auto ask = [](int family, int prompt) {
    return Ask{.prompt = prompt, .max_tokens = 1, .shared = 22, .family = family};
  };
  int tick = 0;
  const auto at = [&](const std::string& name, int family, int prompt) {
    met.at(tick, [=](Simulation& m) { m.submit(name, ask(family, prompt)); });
    tick += 6;
  };
  at("a", 0, 22);
  at("b", 1, 22);
  at("a2", 0, 23);  // touches a's; its own tail is the same boundary
  at("c", 2, 22);   // gives up b's
  at("a3", 0, 22);
  at("b2", 1, 22);
  met.run();
  EXPECT_EQ(met.got("a2").terminal->cached, 20);
  EXPECT_EQ(met.got("a3").terminal->cached, 20);
  EXPECT_EQ(met.got("b2").terminal->cached, 0);
  const Snapshot& numbers = met.loop().snapshot();
  EXPECT_EQ(numbers.stats.checkpoints_stored, 4) << "a, b, c, b again";
  EXPECT_EQ(numbers.stats.checkpoints_evicted, 2) << "b for c, c for b";
  EXPECT_EQ(numbers.checkpoint_slots_used, 2);
  EXPECT_EQ(numbers.checkpoint_slots_total, 2);
  EXPECT_EQ(numbers.state_slots_used, 0);
  EXPECT_EQ(numbers.state_slots_total, 4);
  expect_solo(met);
}

TEST(State, WhatTwoWriteAtOnceIsStoredOnce) {  // H4
  SimOptions options = hybrid(TailCapture::kSplit);
  options.plan.producer_ticks_max = 0;
  Simulation met(options);
  for (const char* name : {"one", "two", "three"})
    met.submit(name, {.prompt = 22, .max_tokens = 1, .shared = 22});
  met.run();
  const Snapshot& numbers = met.loop().snapshot();
  EXPECT_EQ(numbers.checkpoint_slots_used, 1);
  EXPECT_EQ(numbers.stats.checkpoints_stored, 1) << "what is stored and not evicted is there";
  expect_solo(met);
}

TEST(State, HermeticRestoresWithinASessionAlone) {  // H9
  for (const bool hermetic : {false, true}) {
    SimOptions options = hybrid(TailCapture::kSplit);
    options.plan.recurrent.hermetic = hermetic;
    Simulation met(options);
    met.submit("first", {.prompt = 22, .max_tokens = 2, .shared = 22});
    met.at(8, [](Simulation& m) { m.submit("same", {.prompt = 22, .max_tokens = 2, .shared = 22}); });
    met.at(16, [](Simulation& m) { m.submit("longer", {.prompt = 30, .max_tokens = 2, .shared = 22}); });
    met.run();
    EXPECT_EQ(met.got("same").terminal->cached, 20) << "the same beginning is the same session";
    EXPECT_EQ(met.got("longer").terminal->cached, hermetic ? 0 : 20);
    expect_solo(met);
  }
}

TEST(State, AFlaggedRowLeavesNoCheckpoint) {  // B5, F2
  SimOptions options = hybrid(TailCapture::kMidchunk);
  bool once = true;
  options.device.flags = [&once](const std::vector<TokenId>&, int, std::int64_t) {
    return std::exchange(once, false) ? kFlagNonFinite : 0U;
  };
  Simulation met(options);
  met.submit("bad", {.prompt = 14, .max_tokens = 2, .shared = 14});
  met.at(4, [](Simulation& m) { m.submit("good", {.prompt = 14, .max_tokens = 2, .shared = 14}); });
  met.run();
  EXPECT_EQ(met.got("bad").terminal->kind, Event::Kind::kFailed);
  EXPECT_EQ(met.got("good").terminal->cached, 0);
  EXPECT_EQ(met.got("good").ids, met.solo("good"));
}

TEST(State, PreemptedByRecomputeEvenWithASwapPool) {  // S17: the blocks alone do not bring the state back
  SimOptions options = hybrid(TailCapture::kSplit, 1, /*blocks=*/11);
  options.plan.kv_admit_watermark = 0;
  options.plan.swap_blocks = 40;
  options.plan.swap_least_tokens = 0;
  Simulation met(options);
  met.submit("A", {.prompt = 6, .max_tokens = 30});
  met.submit("B", {.prompt = 6, .max_tokens = 24});
  met.run();
  EXPECT_GT(met.loop().snapshot().preemptions, 0);
  EXPECT_EQ(met.loop().snapshot().stats.preemptions_swap, 0);
  expect_solo(met);
}

TEST(State, MoreChoicesThanOneAreRefusedByName) {
  EngineConfig config;
  config.plan = hybrid(TailCapture::kSplit).plan;
  const Result<> refused = validate(Request{.prompt = {1, 2, 3}, .n = 2}, config);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "n");
}

}  // namespace
}  // namespace met::scheduler::testing
