// A prompt that a live sequence is computing already is waited for, and not for long. Rule P10.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

SimOptions producing(int depth = 1, std::int64_t tokens = 16) {
  SimOptions options = small_options(/*blocks=*/80, /*batch=*/6, depth);
  options.plan.max_prefill_tokens = 64;
  options.plan.producer_tokens = tokens;
  return options;
}

void expect_solo(const Simulation& met) {
  for (const std::string& name : met.names()) EXPECT_EQ(met.got(name).ids, met.solo(name)) << name;
}

std::int64_t prefilled(Simulation& met) {
  return met.loop().snapshot().stats.tokens[static_cast<std::size_t>(TokenClass::kPrefill)];
}

TEST(Producer, EqualPromptsAreComputedOnce) {  // in one tick, and behind a live one
  for (const int depth : {1, 2}) {
    std::string traces;
    for (const std::int64_t tokens : {0, 16}) {
      Simulation met(producing(depth, tokens));
      met.submit("A", {.prompt = 40, .max_tokens = 2, .shared = 40});
      met.submit("equal", {.prompt = 40, .max_tokens = 2, .shared = 40});
      met.at(2, [](Simulation& m) { m.submit("longer", {.prompt = 50, .max_tokens = 2, .shared = 40}); });
      traces += "== " + std::to_string(tokens) + "\n" + met.run();
      EXPECT_EQ(prefilled(met), tokens == 0 ? 40 + 40 + 10 : 40 + 4 + 10) << met.trace();
      expect_solo(met);
    }
    expect_trace("producer_depth" + std::to_string(depth), traces);
  }
}

TEST(Producer, WhoWaitsAndWhoDoesNot) {
  struct Case {
    std::string name;
    Ask first;
    Ask second;
    bool waits;
    std::function<void(SimOptions&)> change = [](SimOptions&) {};
  };
  const Ask kLong{.prompt = 40, .max_tokens = 2, .shared = 40};
  const std::vector<Case> kCases = {
      {"an equal prompt", kLong, kLong, true},
      {"16 tokens more than the index has", kLong, {.prompt = 21, .shared = 16}, true},
      {"less", kLong, {.prompt = 21, .shared = 15}, false},
      {"another text", kLong, {.prompt = 40, .shared = 40, .family = 1}, false},
      {"another tenant", kLong, {.prompt = 40, .shared = 40, .tenant = 3}, false},
      {"prompt log-probabilities use no hit",
       kLong,
       {.prompt = 40, .shared = 40, .prompt_logprobs = true},
       false},
      {"and publish none", {.prompt = 40, .shared = 40, .prompt_logprobs = true}, kLong, false},
      {"no prefix cache", kLong, kLong, false, [](SimOptions& o) { o.prefix_caching = false; }},
      {"no tick to wait for", kLong, kLong, false, [](SimOptions& o) { o.plan.producer_ticks_max = 0; }},
      {"recurrent state", kLong, kLong, false, [](SimOptions& o) { o.plan.recurrent.on = true; }},
      {"slai", kLong, kLong, true, [](SimOptions& o) { o.plan.policy = Policy::kSlai; }},
      {"several choices", kLong, {.prompt = 40, .shared = 40, .n = 3}, true},
  };
  for (const Case& c : kCases) {
    SimOptions options = producing();
    c.change(options);
    Simulation met(options);
    met.submit("first", c.first);
    met.submit("second", c.second);
    met.submit("behind", {.prompt = 3, .max_tokens = 1});
    met.tick();
    const auto& waits = met.loop().plan().waits;
    const bool waited =
        std::ranges::any_of(waits, [&](const Wait& w) { return w.reason == WaitReason::kProducer; });
    EXPECT_EQ(waited, c.waits) << c.name << "\n" << met.trace();
    if (c.waits && options.plan.policy == Policy::kFifo) {
      EXPECT_EQ(met.loop().plan().admit.size(), 1U) << c.name << ": nothing overtakes (S6)";
    }
    met.run();
  }
}

TEST(Producer, TheWaitEndsAfterEightTicks) {
  SimOptions options = producing();
  options.plan.blocks_total = 120;
  options.plan.max_seq_len = 300;
  options.plan.max_prefill_tokens = 4;
  Simulation met(options);
  met.submit("A", {.prompt = 160, .max_tokens = 2, .shared = 160});
  met.submit("B", {.prompt = 160, .max_tokens = 2, .shared = 160});
  int ticks = 0;
  do {
    ASSERT_LT(++ticks, 20) << met.trace();
    met.tick();
  } while (met.state("B") == SeqState::kQueued);
  EXPECT_EQ(ticks, 10) << met.trace() << "in the first one it waits for a token of the budget";
  met.run();
  EXPECT_EQ(met.got("B").terminal->cached, 36) << "what nine steps of 4 tokens have brought";
  expect_solo(met);
}

TEST(Producer, AProducerThatLeavesIsWaitedForNoLonger) {
  SimOptions options = producing();
  options.plan.max_prefill_tokens = 16;
  Simulation met(options);
  met.submit("A", {.prompt = 60, .max_tokens = 2, .shared = 60});
  met.submit("B", {.prompt = 60, .max_tokens = 2, .shared = 60});
  met.tick();
  met.tick();
  EXPECT_EQ(met.state("B"), SeqState::kQueued);
  EXPECT_EQ(met.loop().plan().waits.back().reason, WaitReason::kProducer);
  met.cancel("A");
  met.tick();
  EXPECT_EQ(met.state("B"), SeqState::kPrefilling);
  met.run();
  EXPECT_EQ(met.got("B").terminal->cached, 32) << "what it had computed";
  EXPECT_EQ(met.got("B").ids, met.solo("B"));
}

}  // namespace
}  // namespace met::scheduler::testing
