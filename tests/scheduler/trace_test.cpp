// Golden traces: each scenario pins what the scheduler does, tick by tick (T4, T5).
#include <gtest/gtest.h>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

void expect_solo(const Simulation& met) {
  for (const std::string& name : met.names()) EXPECT_EQ(met.got(name).ids, met.solo(name)) << name;
}

TEST(Trace, PlainDecode) {
  Simulation met(small_options(/*blocks=*/12));
  met.submit("A", {.prompt = 5, .max_tokens = 6});
  expect_trace("plain_decode", met.run());
  expect_solo(met);
}

TEST(Trace, PlainDecodeAtDepthTwoRunsOneStepAhead) {  // E6, R9, R10
  Simulation met(small_options(/*blocks=*/12, /*batch=*/4, /*depth=*/2));
  met.submit("A", {.prompt = 5, .max_tokens = 6});
  met.at(1, [](Simulation& m) { m.submit("B", {.prompt = 21, .max_tokens = 3}); });
  expect_trace("plain_decode_async", met.run());
  expect_solo(met);
}

TEST(Trace, AnEndOnTheDeviceCostsOneRowAtDepthTwo) {  // R9
  Simulation probe(small_options(12));
  probe.submit("A", {.prompt = 5, .max_tokens = 9});
  Simulation met(small_options(/*blocks=*/12, /*batch=*/4, /*depth=*/2));
  met.submit("A", {.prompt = 5, .max_tokens = 9, .eos = {probe.solo("A").at(3)}});
  expect_trace("overshoot", met.run());
  EXPECT_EQ(met.got("A").terminal->reason, FinishReason::kEos);
  EXPECT_EQ(met.got("A").terminal->completion_tokens, 4);
  EXPECT_EQ(met.loop().snapshot().overshoot_tokens, 1);
}

TEST(Trace, ChunkedPrefill) {  // P1: 40 tokens in steps of 16
  Simulation met(small_options(/*blocks=*/16));
  met.submit("A", {.prompt = 40, .max_tokens = 2});
  expect_trace("chunked_prefill", met.run());
  expect_solo(met);
}

TEST(Trace, PrefillMixesWithDecode) {  // S4, S5: 8 prefill tokens beside a decode row
  Simulation met(small_options(/*blocks=*/24));
  met.submit("A", {.prompt = 4, .max_tokens = 8});
  met.at(2, [](Simulation& m) { m.submit("B", {.prompt = 21, .max_tokens = 3}); });
  expect_trace("mixed", met.run());
  expect_solo(met);
}

TEST(Trace, AWaveOfUnequalPrompts) {  // P5: one step computes what fits of all of them, equal or not
  Simulation met(small_options(/*blocks=*/40));
  met.submit("A", {.prompt = 3, .max_tokens = 3});
  met.submit("B", {.prompt = 7, .max_tokens = 3});
  met.submit("C", {.prompt = 7, .max_tokens = 3});
  met.submit("D", {.prompt = 18, .max_tokens = 3});
  expect_trace("ragged_wave", met.run());
  expect_solo(met);
}

TEST(Trace, AWaveJoinsAWaveInProgressBesideDecodeRows) {  // S4, S5, P5
  for (const int depth : {1, 2}) {
    Simulation met(small_options(/*blocks=*/60, /*batch=*/6, depth));
    met.submit("A", {.prompt = 4, .max_tokens = 12});
    met.submit("B", {.prompt = 4, .max_tokens = 12});
    met.at(2, [](Simulation& m) { m.submit("C", {.prompt = 21, .max_tokens = 3}); });
    met.at(2, [](Simulation& m) { m.submit("D", {.prompt = 13, .max_tokens = 3}); });
    met.at(3, [](Simulation& m) { m.submit("E", {.prompt = 9, .max_tokens = 3}); });
    expect_trace("batched_mixed_depth" + std::to_string(depth), met.run());
    expect_solo(met);
  }
}

TEST(Trace, ARowWithAGrammarWaitsForItsTokenAndTheOthersRunOn) {  // E8
  for (const int depth : {1, 2}) {
    Simulation met(small_options(/*blocks=*/40, /*batch=*/4, depth));
    met.submit("grammar", {.prompt = 5, .max_tokens = 6, .grammar = true});
    met.submit("plain", {.prompt = 5, .max_tokens = 6});
    met.at(3, [](Simulation& m) { m.submit("late", {.prompt = 13, .max_tokens = 3, .grammar = true}); });
    expect_trace("grammar_depth" + std::to_string(depth), met.run());
    expect_solo(met);
  }
}

TEST(Trace, ALongPromptLeavesHalfOfTheStepToAnother) {  // S24
  Simulation met(small_options(/*blocks=*/40));
  met.submit("A", {.prompt = 56, .max_tokens = 2});
  met.at(1, [](Simulation& m) { m.submit("B", {.prompt = 20, .max_tokens = 2}); });
  expect_trace("shared_prefill", met.run());
  expect_solo(met);
}

TEST(Trace, SmallRequestDoesNotOvertakeTheOneThatWaits) {  // S6
  Simulation met(small_options(/*blocks=*/14));
  met.submit("A", {.prompt = 30, .max_tokens = 3});
  met.submit("B", {.prompt = 30, .max_tokens = 4});
  met.submit("C", {.prompt = 3, .max_tokens = 1});
  expect_trace("no_overtaking", met.run());
  expect_solo(met);
}

TEST(Trace, TwoEqualPromptsInOneTickShareTheirBlocksInTheEnd) {  // B4: the first writer wins
  Simulation met(small_options(/*blocks=*/16));
  met.submit("A", {.prompt = 6, .max_tokens = 4, .shared = 6});
  met.submit("B", {.prompt = 6, .max_tokens = 4, .shared = 6});
  met.tick();
  EXPECT_EQ(met.loop().snapshot().blocks_referenced, 3) << "a shared one, and a partial one each";
  expect_trace("equal_prompts", met.run());
  expect_solo(met);
}

TEST(Trace, HitMissAndFullPromptHit) {  // P2, B3
  Simulation met(small_options(/*blocks=*/30));
  met.submit("A", {.prompt = 16, .max_tokens = 2, .shared = 16});
  met.at(3, [](Simulation& m) { m.submit("hit", {.prompt = 20, .max_tokens = 2, .shared = 16}); });
  met.at(6, [](Simulation& m) { m.submit("full", {.prompt = 16, .max_tokens = 2, .shared = 16}); });
  met.at(9, [](Simulation& m) { m.submit("miss", {.prompt = 16, .max_tokens = 2}); });
  met.at(12, [](Simulation& m) {
    m.submit("tenant", {.prompt = 16, .max_tokens = 2, .shared = 16, .tenant = 7});
  });
  expect_trace("prefix_hits", met.run());
  EXPECT_EQ(met.got("hit").terminal->cached, 16);
  EXPECT_EQ(met.got("full").terminal->cached, 12) << "one position at least is computed";
  EXPECT_EQ(met.got("miss").terminal->cached, 0);
  EXPECT_EQ(met.got("tenant").terminal->cached, 0);
  expect_solo(met);
}

TEST(Trace, AProbeTellsItsHitAndLeavesNothing) {
  Simulation met(small_options(/*blocks=*/30));
  met.submit("A", {.prompt = 18, .max_tokens = 2, .shared = 18});
  met.at(3, [](Simulation& m) {
    m.submit("hit", {.prompt = 25, .shared = 18, .probe = true});
    m.submit("whole", {.prompt = 16, .shared = 16, .probe = true});
    m.submit("miss", {.prompt = 16, .probe = true});
    m.submit("tenant", {.prompt = 16, .shared = 16, .tenant = 7, .probe = true});
  });
  expect_trace("probe", met.run());
  const auto tell = [&](const char* name) {
    const Event& end = met.got(name).terminal.value();
    return std::pair(end.prompt_computed, end.cached);
  };
  EXPECT_EQ(tell("hit"), std::pair(std::int64_t{16}, std::int64_t{16}));
  EXPECT_EQ(tell("whole"), std::pair(std::int64_t{16}, std::int64_t{12})) << "P2";
  EXPECT_EQ(tell("miss"), std::pair(std::int64_t{0}, std::int64_t{0}));
  EXPECT_EQ(tell("tenant"), std::pair(std::int64_t{0}, std::int64_t{0}));
  EXPECT_EQ(met.loop().snapshot().stats.e2e_latency.count, 1) << "a probe is no request in the metrics";
}

TEST(Trace, EvictionTakesTheOldestChildFirst) {  // B7, B8
  Simulation met(small_options(/*blocks=*/10));
  met.submit("A", {.prompt = 16, .max_tokens = 2, .shared = 16});
  met.at(3, [](Simulation& m) { m.submit("B", {.prompt = 24, .max_tokens = 2}); });
  met.at(6, [](Simulation& m) { m.submit("C", {.prompt = 20, .max_tokens = 2, .shared = 16}); });
  expect_trace("eviction", met.run());
  EXPECT_EQ(met.got("C").terminal->cached, 12) << "the parents of what was evicted are still there";
  EXPECT_GT(met.loop().snapshot().stats.evictions, 0);
  expect_solo(met);
}

TEST(Trace, ThreeChoicesComputeTheirPromptOnce) {  // B6, B10
  for (const int depth : {1, 2}) {
    Simulation met(small_options(/*blocks=*/24, /*batch=*/4, depth));
    met.submit("A", {.prompt = 23, .max_tokens = 5, .n = 3});
    expect_trace("three_choices_depth" + std::to_string(depth), met.run());
    for (const int choice : {0, 1, 2}) EXPECT_EQ(met.got("A", choice).ids, met.solo("A", choice));
    EXPECT_NE(met.got("A", 0).ids, met.got("A", 1).ids);
  }
}

TEST(Trace, PreemptedByRecomputeAndAgain) {  // S14, S15, S18, S19
  for (const int depth : {1, 2}) {
    SimOptions options = small_options(/*blocks=*/11, /*batch=*/3, depth);
    options.plan.kv_admit_watermark = 0;
    Simulation met(options);
    met.submit("A", {.prompt = 6, .max_tokens = 30});
    met.submit("B", {.prompt = 6, .max_tokens = 24});
    met.submit("C", {.prompt = 6, .max_tokens = 20});
    expect_trace("preempt_depth" + std::to_string(depth), met.run());
    EXPECT_GE(met.loop().snapshot().preemptions, 2);
    expect_solo(met);
  }
}

TEST(Trace, FortyBlocksAndEightStreams) {
  for (const int depth : {1, 2}) {
    SimOptions options = small_options(/*blocks=*/40, /*batch=*/8, depth);
    options.plan.kv_admit_watermark = 4;
    Simulation met(options);
    for (char name = 'A'; name <= 'H'; ++name)
      met.submit(std::string(1, name), {.prompt = 10, .max_tokens = 40});
    expect_trace("forty_blocks_depth" + std::to_string(depth), met.run());
    EXPECT_GT(met.loop().snapshot().preemptions, 0);
    expect_solo(met);
  }
}

TEST(Trace, LimitsOfTheText) {                   // R8, R13
  Simulation met(small_options(/*blocks=*/16));  // max_seq_len 63
  met.submit("context", {.prompt = 60, .max_tokens = 100});
  met.submit("length", {.prompt = 3, .max_tokens = 3});
  met.submit("one", {.prompt = 3, .max_tokens = 1});
  const TokenId third = [&] {
    Simulation probe(small_options(16));
    for (int i = 0; i < 3; ++i) probe.submit("x" + std::to_string(i), {.prompt = 1});
    probe.submit("stop", {.prompt = 3, .max_tokens = 9});
    return probe.solo("stop").at(2);
  }();
  met.submit("stop", {.prompt = 3, .max_tokens = 9, .stop = {third}});
  met.submit("none", {.prompt = 9, .max_tokens = 0, .prompt_logprobs = true});
  expect_trace("limits", met.run());
  EXPECT_EQ(met.got("context").terminal->reason, FinishReason::kContext);
  EXPECT_EQ(met.got("length").terminal->reason, FinishReason::kLength);
  EXPECT_EQ(met.got("stop").terminal->reason, FinishReason::kStopToken);
  EXPECT_EQ(met.got("none").terminal->reason, FinishReason::kLength);
  EXPECT_EQ(met.got("none").prompt_logprobs, 8);
  expect_solo(met);
}

TEST(Trace, PromptLogprobsComeInBoundedChunks) {  // P9: 8 positions a step, no hit, nothing published
  Simulation met(small_options(/*blocks=*/16));
  met.submit("A", {.prompt = 21, .max_tokens = 2, .shared = 21, .prompt_logprobs = true, .logprobs = true});
  met.at(6, [](Simulation& m) {
    m.submit("B", {.prompt = 9, .max_tokens = 2, .shared = 9, .prompt_logprobs = true});
  });
  expect_trace("prompt_logprobs", met.run());
  EXPECT_EQ(met.loop().snapshot().blocks_evictable, 0);
  expect_solo(met);
}

TEST(Trace, StopAtDropsLaterIds) {  // E3, R8
  Simulation met(small_options(/*blocks=*/16));
  met.submit("late", {.prompt = 5, .max_tokens = 12});
  met.submit("early", {.prompt = 5, .max_tokens = 12});
  met.at(4, [](Simulation& m) {
    m.stop_at("late", 2);
    m.stop_at("early", 6);
  });
  expect_trace("stop_at", met.run());
  EXPECT_EQ(met.got("late").terminal->completion_tokens, 2);
  EXPECT_EQ(met.got("early").terminal->completion_tokens, 6);
  EXPECT_EQ(met.got("early").ids.size(), 6U);
}

TEST(Trace, AStepIsCutToItsTimeOnceCostsAreKnown) {  // S5
  SimOptions options = small_options(/*blocks=*/200, /*batch=*/4);
  options.plan.max_seq_len = 700;
  options.plan.max_prefill_tokens = 256;
  options.plan.step_max_us = 20'000;
  options.device.token_us = 150;  // 256 tokens would take 38 ms, 128 take 19 ms
  Simulation met(options);
  met.submit("A", {.prompt = 640, .max_tokens = 2});
  expect_trace("step_time", met.run());
}

}  // namespace
}  // namespace met::scheduler::testing
