// Faults at every moment of a crowded run: each proves that nothing is left behind and that nobody else's text
// changes. The run has all states in it: two streams that fill the pool, one that waits, prefills, is swapped to
// the host and to disk, and comes back. Rules R2, R5, R6, R7, F2, F4, S25.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

constexpr std::int64_t kHourUs = 3'600'000'000;

struct Crowd {
  int depth = 1;
  bool swaps = false;
  int refuses_at = -1;
  int fails_at = -1;
  std::int64_t timeout_us = -1;  ///< of every request
};

SimOptions crowd_options(const Crowd& crowd) {
  SimOptions options = small_options(/*blocks=*/24, /*batch=*/4, crowd.depth);
  options.plan.kv_admit_watermark = 0;
  options.device.refuses_at = crowd.refuses_at;
  options.device.fails_at = crowd.fails_at;
  if (!crowd.swaps) return options;
  options.plan.swap_blocks = 14;
  options.plan.disk_blocks = 60;
  options.plan.swap_least_tokens = 0;
  return options;
}

const std::vector<std::string> kNames = {"A", "B", "C", "D", "E"};

/// An id of D's text, so that at depth 2 its end is seen while its next row is in flight.
TokenId early_end() {
  static const TokenId id = [] {
    Simulation probe(crowd_options({}));
    for (const std::string& name : kNames)
      probe.submit(name, {.prompt = name == "C" ? 30 : 10, .max_tokens = 28});
    const TokenId wanted = probe.solo("D").at(19);
    for (const std::string& name : kNames) probe.destroy(name);
    return wanted;
  }();
  return id;
}

void submit_all(Simulation& met, std::int64_t timeout_us = -1) {
  for (const std::string& name : kNames) {
    Ask ask{.prompt = name == "C" ? 30 : 10, .max_tokens = 28, .timeout_us = timeout_us};
    if (name == "D") ask.eos = {early_end()};
    met.submit(name, ask);
  }
}

std::unique_ptr<Simulation> crowd(const Crowd& how) {
  auto met = std::make_unique<Simulation>(crowd_options(how));
  submit_all(*met, how.timeout_us);
  return met;
}

/// Every place of pools, tables and lists is as at the start, but for what the prefix cache keeps.
void expect_nothing_left(Simulation& met, const std::string& when) {
  const Snapshot& s = met.loop().snapshot();
  EXPECT_EQ(met.open(), 0) << when;
  EXPECT_EQ(s.running + s.waiting, 0) << when;
  EXPECT_EQ(s.blocks_referenced, 0) << when;
  EXPECT_EQ(s.blocks_free + s.blocks_evictable + 1, s.blocks_total) << when;
  // A step that never settled and a move that runs may still write to their places of the swap tiers (F4, B9).
  if (!s.faulted) {
    EXPECT_EQ(s.swap_blocks_used, 0) << when;
    EXPECT_EQ(s.disk_blocks_used, 0) << when;
  }
  met.loop().check();
}

void expect_texts(const Simulation& met, const std::string& but, const std::string& when) {
  for (const std::string& name : met.names()) {
    if (name == but) continue;
    EXPECT_EQ(met.got(name).ids, met.solo(name)) << name << ": " << when;
  }
}

int ticks_of(const Crowd& how) {
  auto met = crowd(how);
  met->run();
  return met->ticks();
}

/// A run whose tick `tick` begins with `fault`.
template <class Fault>
std::unique_ptr<Simulation> with_fault(const Crowd& how, int tick, const Fault& fault) {
  auto met = crowd(how);
  met->at(tick, fault);
  met->run();
  return met;
}

class Faults : public ::testing::TestWithParam<Crowd> {
 protected:
  std::string when(std::string_view what, int moment) const {
    return std::string(what) + " " + std::to_string(moment) + " at depth " +
           std::to_string(GetParam().depth) + (GetParam().swaps ? ", with swap" : "");
  }
};

TEST_P(Faults, AClientVanishesInAnyTick) {  // R5, R6
  const int ticks = ticks_of(GetParam());
  std::set<SeqState> seen;
  for (const std::string& name : kNames) {
    for (int tick = 1; tick < ticks; ++tick) {
      std::optional<SeqState> state;
      auto met = with_fault(GetParam(), tick, [&](Simulation& m) {
        state = m.state(name);
        m.destroy(name);
      });
      if (state) seen.insert(*state);
      expect_nothing_left(*met, when(name + " vanished in tick", tick));
      expect_texts(*met, name, when(name + " vanished in tick", tick));
      ASSERT_FALSE(HasFailure());
    }
  }
  std::set<SeqState> wanted = {SeqState::kQueued, SeqState::kPrefilling, SeqState::kDecoding,
                               SeqState::kEnding};
  wanted.insert(GetParam().swaps ? SeqState::kSwapped : SeqState::kParked);
  if (GetParam().depth == 1) wanted.erase(SeqState::kEnding);
  for (const SeqState state : wanted)
    EXPECT_TRUE(seen.contains(state)) << "no client vanished in state " << static_cast<int>(state);
}

TEST_P(Faults, AllClientsVanishAtOnceInAnyTick) {
  const int ticks = ticks_of(GetParam());
  for (int tick = 1; tick < ticks; ++tick) {
    auto met = with_fault(GetParam(), tick, [](Simulation& m) {
      for (const std::string& name : m.names()) m.destroy(name);
    });
    expect_nothing_left(*met, when("all vanished in tick", tick));
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(Faults, AStepThatCannotStartEndsEveryRequestOnce) {  // F4
  for (int step = 0; step < 200; ++step) {
    Crowd how = GetParam();
    how.refuses_at = step;
    auto met = crowd(how);
    met->run();
    if (met->loop().fault()) return;  // the run has no such step
    expect_nothing_left(*met, when("no memory for step", step));
    for (const std::string& name : met->names()) EXPECT_TRUE(met->got(name).terminal) << name;
    ASSERT_FALSE(HasFailure());
  }
  ADD_FAILURE() << "the run does not end";
}

TEST_P(Faults, AStepThatFailsEndsEveryRequestOnce) {  // F4
  for (int step = 0; step < 200; ++step) {
    Crowd how = GetParam();
    how.fails_at = step;
    auto met = crowd(how);
    met->run();
    if (met->loop().fault()) return;
    expect_nothing_left(*met, when("failed step", step));
    for (const std::string& name : met->names()) EXPECT_TRUE(met->got(name).terminal) << name;
    ASSERT_FALSE(HasFailure());
  }
  ADD_FAILURE() << "the run does not end";
}

TEST_P(Faults, ARowFlaggedAtAnyPositionFailsItsRequestAlone) {  // F2, F3
  for (const std::string& name : kNames) {
    for (std::int64_t position = 10; position < 58; ++position) {
      SimOptions options = crowd_options(GetParam());
      std::vector<TokenId> flagged;
      options.device.flags = [&](const std::vector<TokenId>& prompt, int, std::int64_t at) {
        return prompt == flagged && at == position ? kFlagNonFinite : 0U;
      };
      Simulation met(options);
      const int prompt = name == "C" ? 30 : 10;
      for (int i = 0; i < prompt; ++i)  // as Simulation::submit makes it
        flagged.push_back(2000 + 64 * (100 + static_cast<int>(name[0] - 'A')) + i % 64);
      submit_all(met);
      met.run();
      const bool reached = position >= prompt && position < prompt + std::ssize(met.solo(name));
      EXPECT_EQ(met.got(name).terminal->kind == Event::Kind::kFailed, reached) << name << " " << position;
      expect_nothing_left(met, when(name + " flagged at", static_cast<int>(position)));
      expect_texts(met, name, when(name + " flagged at", static_cast<int>(position)));
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_P(Faults, TheClockJumpsInAnyTick) {  // R7: it moves forward only, however far
  const int ticks = ticks_of(GetParam());
  for (int tick = 1; tick < ticks; ++tick) {
    const auto jump = [](Simulation& m) { m.clock().set(m.clock().now_us() + kHourUs); };
    auto met = with_fault(GetParam(), tick, jump);
    expect_nothing_left(*met, when("jump in tick", tick));
    expect_texts(*met, "", when("jump in tick", tick));
    Crowd bounded = GetParam();
    bounded.timeout_us = kHourUs / 2;
    auto late = with_fault(bounded, tick, jump);
    expect_nothing_left(*late, when("jump past the deadline in tick", tick));
    for (const std::string& name : late->names()) {
      const Event& end = late->got(name).terminal.value();
      EXPECT_TRUE(end.reason == FinishReason::kTimeout || late->got(name).ids == late->solo(name)) << name;
    }
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(Faults, TheDiskFailsAtAnyMove) {  // S25
  if (!GetParam().swaps) GTEST_SKIP() << "no disk in this run";
  int moves = 0;
  for (int move = 0; move <= moves; ++move) {
    auto met = crowd(GetParam());
    met->spill().fails_at = move;
    met->run();
    moves = std::max(moves, std::min(met->spill().moves(), 60));
    expect_nothing_left(*met, when("failed move", move));
    expect_texts(*met, "", when("failed move", move));
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(moves, 0);
}

TEST_P(Faults, APoolOfAnySizeChangesNoText) {  // S7, S14: what cannot be allocated waits or preempts
  for (int blocks = 17; blocks <= 60; ++blocks) {
    SimOptions options = crowd_options(GetParam());
    options.plan.blocks_total = blocks + 1;
    options.plan.swap_blocks = std::min(options.plan.swap_blocks, blocks / 2);
    Simulation met(options);
    submit_all(met);
    met.run(3000);
    expect_nothing_left(met, when("blocks", blocks));
    expect_texts(met, "", when("blocks", blocks));
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(Run, Faults,
                         ::testing::Values(Crowd{.depth = 1}, Crowd{.depth = 2},
                                           Crowd{.depth = 1, .swaps = true},
                                           Crowd{.depth = 2, .swaps = true}));

}  // namespace
}  // namespace met::scheduler::testing
