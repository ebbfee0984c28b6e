// How prompts share a step: chunk zero, ragged and equal waves, the window of co-dispatch. Rules P1, P3 to P7.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

std::vector<PrefillMode> all_modes() {
  std::vector<PrefillMode> modes;
  for (int bits = 0; bits < 8; ++bits)
    modes.push_back(
        {.codispatch = (bits & 4) != 0, .first_chunk = (bits & 2) != 0, .varlen = (bits & 1) != 0});
  return modes;
}

std::string name_of(PrefillMode mode) {
  return std::string("codispatch ") + (mode.codispatch ? "on" : "off") + ", first chunk " +
         (mode.first_chunk ? "on" : "off") + ", varlen " + (mode.varlen ? "on" : "off");
}

void expect_solo(const Simulation& met) {
  for (const std::string& name : met.names()) EXPECT_EQ(met.got(name).ids, met.solo(name)) << name;
}

TEST(PrefillMode, ChunkZeroGoesInAWaveIffOneOfTheThreeSwitchesIsOn) {  // P4: the eight inputs
  const bool want[] = {false, true, true, true, true, true, true, true};
  for (std::size_t bits = 0; bits < 8; ++bits) {
    const PrefillMode mode = all_modes()[bits];
    EXPECT_EQ(batches_chunk_zero(mode), want[bits]) << name_of(mode);
    EXPECT_EQ(joins_wave(mode, {0, 16}, {0, 16}), want[bits]) << name_of(mode);
  }
}

TEST(PrefillMode, AWaveIsRaggedOrOfEqualRows) {  // P5, P6
  struct Case {
    PrefillRow first;
    PrefillRow row;
    bool equal;
  };
  for (const Case& c : {Case{{16, 16}, {16, 16}, true}, Case{{16, 16}, {32, 16}, false},
                        Case{{16, 16}, {16, 12}, false}, Case{{16, 16}, {0, 16}, false}}) {
    EXPECT_EQ(joins_wave({.varlen = false}, c.first, c.row), c.equal) << c.row.begin << "+" << c.row.tokens;
    EXPECT_TRUE(joins_wave({.varlen = true}, c.first, c.row));
  }
}

TEST(Prefill, ChunkZeroUnderEachOfTheEightModes) {  // P4, T5
  std::string traces;
  for (const PrefillMode mode : all_modes()) {
    SimOptions options = small_options(/*blocks=*/40);
    options.plan.prefill = mode;
    Simulation met(options);
    for (const char* name : {"A", "B", "C"})
      met.submit(name, {.prompt = name[0] == 'C' ? 6 : 4, .max_tokens = 1});
    traces += name_of(mode) + "\n" + met.run();
    expect_solo(met);
  }
  expect_trace("chunk_zero", traces);
}

TEST(Prefill, EqualRowsGoTogetherAndOthersOneAStep) {  // P6
  SimOptions options = small_options(/*blocks=*/60);
  options.plan.prefill = {.first_chunk = true, .varlen = false};
  Simulation met(options);
  met.submit("A", {.prompt = 20, .max_tokens = 2});
  met.submit("B", {.prompt = 20, .max_tokens = 2});
  met.submit("C", {.prompt = 30, .max_tokens = 2});
  expect_trace("equal_rows", met.run());
  expect_solo(met);
}

SimOptions codispatch_options() {
  SimOptions options = small_options(/*blocks=*/60, /*batch=*/6);
  options.plan.prefill.codispatch = true;
  options.plan.max_prefill_tokens = 64;
  return options;
}

TEST(Prefill, NewPromptsWaitForEachOtherWhenNothingRuns) {  // P7: 10 ms without an arrival
  Simulation met(codispatch_options());
  met.submit("A", {.prompt = 6, .max_tokens = 2});
  met.submit("B", {.prompt = 9, .max_tokens = 2});
  met.tick();
  EXPECT_EQ(met.loop().wake_us(), 10'000);
  met.clock().set(7'000);
  met.submit("C", {.prompt = 5, .max_tokens = 2});
  expect_trace("codispatch", met.run());
  EXPECT_EQ(met.loop().snapshot().stats.iteration_tokens.counts[5], 1) << "one step of 20 prompt tokens";
  expect_solo(met);
}

TEST(Prefill, TheWindowClosesAtTheFirstOfFourEnds) {  // P7
  const auto waits = [](Simulation& met) {
    met.tick();
    return met.loop().plan().rows.empty();
  };
  {  // 100 ms from the first arrival, whatever still comes
    Simulation met(codispatch_options());
    for (int i = 0; i < 2; ++i) met.submit("A" + std::to_string(i), {.prompt = 2, .max_tokens = 1});
    for (std::int64_t ms = 0; ms < 100; ms += 25) {
      met.clock().set(ms * 1000);
      if (ms > 0) met.submit("B" + std::to_string(ms), {.prompt = 2, .max_tokens = 1});
      EXPECT_TRUE(waits(met)) << ms;
      EXPECT_EQ(met.loop().wake_us(), std::min<std::int64_t>((ms + 10) * 1000, 100'000));
    }
    met.clock().set(100'000);
    EXPECT_FALSE(waits(met));
    met.run();
  }
  {  // the wave is full: tokens
    Simulation met(codispatch_options());
    for (int i = 0; i < 2; ++i) met.submit("A" + std::to_string(i), {.prompt = 32, .max_tokens = 1});
    EXPECT_FALSE(waits(met));
    met.run();
  }
  {  // the wave is full: rows
    Simulation met(codispatch_options());
    for (int i = 0; i < 2; ++i) met.submit("A" + std::to_string(i), {.prompt = 2, .max_tokens = 1, .n = 3});
    EXPECT_FALSE(waits(met));
    met.run();
  }
  {  // a deadline nearer than the window
    Simulation met(codispatch_options());
    met.submit("A", {.prompt = 2, .max_tokens = 1, .timeout_us = 9'000});
    met.submit("B", {.prompt = 2, .max_tokens = 1});
    EXPECT_FALSE(waits(met));
    met.run();
  }
  {  // one request alone, and one behind a running one, do not wait
    Simulation met(codispatch_options());
    met.submit("A", {.prompt = 2, .max_tokens = 3});
    EXPECT_FALSE(waits(met));
    for (int i = 0; i < 2; ++i) met.submit("B" + std::to_string(i), {.prompt = 2, .max_tokens = 1});
    met.tick();
    EXPECT_EQ(met.loop().plan().admit.size(), 2U);
    met.run();
  }
}

}  // namespace
}  // namespace met::scheduler::testing
