// How requests end before their text does: cancel, timeout, slow reader, shutdown, faults; in every state and
// at both depths. Rules R2, R4 to R7, R11, F2 to F5, F7.
#include <gtest/gtest.h>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

/// "B" reaches each of these states beside "A", the older one.
const std::vector<SeqState> kStates = {SeqState::kQueued, SeqState::kPrefilling, SeqState::kDecoding,
                                       SeqState::kParked, SeqState::kSwapped};

std::string state_name(SeqState state) {
  switch (state) {
    case SeqState::kQueued:
      return "queued";
    case SeqState::kPrefilling:
      return "prefilling";
    case SeqState::kDecoding:
      return "decoding";
    case SeqState::kParked:
      return "parked";
    case SeqState::kSwapped:
      return "swapped";
    case SeqState::kEnding:
      return "ending";
  }
  return "unknown";
}

/// A pool in which B comes into `state` within a few ticks.
std::unique_ptr<Simulation> until(SeqState state, int depth, std::int64_t timeout_us = -1) {
  SimOptions options = small_options(/*blocks=*/11, /*batch=*/state == SeqState::kQueued ? 1 : 3, depth);
  options.plan.kv_admit_watermark = 0;
  if (state == SeqState::kSwapped) {
    options.plan.swap_blocks = 20;
    options.plan.swap_least_tokens = 0;
  }
  auto met = std::make_unique<Simulation>(options);
  met->submit("A", {.prompt = 6, .max_tokens = 30});
  if (state != SeqState::kPrefilling) {
    met->submit("B", {.prompt = 6, .max_tokens = 30, .timeout_us = timeout_us});
    met->tick();
  } else {
    met->tick();
    met->submit("B", {.prompt = 22, .max_tokens = 3, .timeout_us = timeout_us});
  }
  met->tick_until("B", state);
  return met;
}

class Ends : public ::testing::TestWithParam<int> {
 protected:
  std::string suffix() const { return "_depth" + std::to_string(GetParam()); }
};

TEST_P(Ends, ACancelGivesEverythingBackInItsTick) {  // R4, R5
  std::string traces;
  for (const SeqState state : kStates) {
    auto met = until(state, GetParam());
    met->cancel("B");
    met->cancel("B");
    met->tick();
    traces += "== " + state_name(state) + "\n" + met->trace();
    ASSERT_TRUE(met->got("B").terminal) << state_name(state);
    EXPECT_EQ(met->got("B").terminal->kind, Event::Kind::kCancelled);
    EXPECT_EQ(met->state("B"), std::nullopt) << "its row comes back in the tick of its cancel";
    met->cancel("B");  // after its end: nothing
    met->run();
    EXPECT_EQ(met->got("A").ids, met->solo("A")) << "R4: the others do not notice";
    EXPECT_EQ(met->loop().snapshot().stats.ended[static_cast<std::size_t>(EndClass::kAbort)], 1);
  }
  expect_trace("cancel" + suffix(), traces);
}

TEST_P(Ends, ADestroyedHandleCancels) {  // R6
  for (const SeqState state : kStates) {
    auto met = until(state, GetParam());
    met->destroy("B");
    met->tick();
    EXPECT_EQ(met->state("B"), std::nullopt);
    EXPECT_EQ(met->open(), 1);
    met->run();
  }
}

TEST_P(Ends, ATimeoutEndsInTheFirstTickBehindIt) {  // R7
  std::string traces;
  for (const SeqState state : kStates) {
    auto met = until(state, GetParam(), 40'000);
    met->clock().set(met->clock().now_us() + 40'000);
    met->tick();
    traces += "== " + state_name(state) + "\n" + met->trace();
    ASSERT_TRUE(met->got("B").terminal) << state_name(state);
    EXPECT_EQ(met->got("B").terminal->kind, Event::Kind::kFinished);
    EXPECT_EQ(met->got("B").terminal->reason, FinishReason::kTimeout);
    met->run();
    EXPECT_EQ(met->got("A").ids, met->solo("A"));
  }
  expect_trace("timeout" + suffix(), traces);
}

TEST(EndsAtDepthTwo,
     ACancelOfWhatEndsAlreadyIsNothing) {  // R4: the sixth state, while its last row is in flight
  SimOptions options = small_options(12, 2, 2);
  Simulation probe(options);
  probe.submit("A", {.prompt = 5, .max_tokens = 9});
  Simulation met(options);
  met.submit("A", {.prompt = 5, .max_tokens = 9, .eos = {probe.solo("A").at(3)}});
  met.submit("B", {.prompt = 5, .max_tokens = 9});
  met.tick_until("A", SeqState::kEnding);
  met.cancel("A");
  met.run();
  EXPECT_EQ(met.got("A").terminal->reason, FinishReason::kEos);
  EXPECT_EQ(met.got("B").ids, met.solo("B"));
}

TEST_P(Ends, ASlowReaderIsCancelledAndHoldsNobodyUp) {  // R11
  SimOptions options = small_options(/*blocks=*/20, /*batch=*/3, GetParam());
  options.channel_tokens = 4;
  options.slow_consumer_us = 20'000;
  Simulation met(options);
  met.submit("slow", {.prompt = 5, .max_tokens = 40});
  met.submit("fast", {.prompt = 5, .max_tokens = 40});
  met.read("slow", false);
  met.at(45, [](Simulation& m) { m.read("slow", true); });
  expect_trace("slow_consumer" + suffix(), met.run());
  EXPECT_EQ(met.got("slow").terminal->kind, Event::Kind::kCancelled);
  EXPECT_NE(met.got("slow").terminal->error.message.find("slow_consumer"), std::string::npos);
  EXPECT_EQ(met.got("fast").ids, met.solo("fast"));
}

TEST_P(Ends, AReaderThatComesBackInTimeLosesNothing) {  // R11
  SimOptions options = small_options(/*blocks=*/20, /*batch=*/3, GetParam());
  options.channel_tokens = 4;
  Simulation met(options);
  met.submit("slow", {.prompt = 5, .max_tokens = 30});
  met.read("slow", false);
  met.at(12, [](Simulation& m) { m.read("slow", true); });
  met.run();
  EXPECT_EQ(met.got("slow").ids, met.solo("slow"));
}

TEST_P(Ends, ShutdownLetsRequestsRunUntilItsDeadline) {  // F7
  Simulation met(small_options(/*blocks=*/30, /*batch=*/2, GetParam()));
  met.submit("short", {.prompt = 5, .max_tokens = 4});
  met.submit("long", {.prompt = 5, .max_tokens = 50});
  met.submit("queued", {.prompt = 5, .max_tokens = 50});
  met.at(2, [](Simulation& m) {
    m.shutdown(10'000);
    m.submit("late", {.prompt = 5});
  });
  expect_trace("shutdown" + suffix(), met.run());
  EXPECT_EQ(met.names().size(), 3U) << "the late one is refused";
  EXPECT_EQ(met.got("short").ids, met.solo("short"));
  EXPECT_EQ(met.got("long").terminal->kind, Event::Kind::kCancelled);
  EXPECT_EQ(met.got("queued").terminal->kind, Event::Kind::kCancelled);
}

TEST_P(Ends, AFlagOfOneRowFailsItsRequestAlone) {  // F2, F3
  SimOptions options = small_options(/*blocks=*/30, /*batch=*/3, GetParam());
  std::vector<TokenId> flagged;
  options.device.flags = [&flagged](const std::vector<TokenId>& prompt, int, std::int64_t position) {
    return prompt == flagged && position == 8 ? kFlagNonFinite : 0U;
  };
  Simulation met(options);
  met.submit("A", {.prompt = 5, .max_tokens = 9});
  met.submit("B", {.prompt = 5, .max_tokens = 9});
  for (int i = 0; i < 5; ++i) flagged.push_back(2000 + 64 * 101 + i);  // B's prompt
  expect_trace("row_flag" + suffix(), met.run());
  EXPECT_EQ(met.got("B").terminal->kind, Event::Kind::kFailed);
  EXPECT_EQ(met.got("B").ids.size(), 3U);
  EXPECT_EQ(met.got("A").ids, met.solo("A"));
}

TEST_P(Ends, ARequestThatLeavesNoTokenIsAtFaultItself) {  // F2
  const std::pair<std::uint32_t, ErrorCode> kinds[] = {
      {kFlagEmptyMask, ErrorCode::kInvalidArgument},
      {kFlagNonFinite, ErrorCode::kInternal},
      {kFlagEmptyMask | kFlagNonFinite, ErrorCode::kInternal},
      {kFlagEmptyMask | kFlagMaskBound, ErrorCode::kUnavailable}};
  for (const auto& [flags, code] : kinds) {
    const std::uint32_t flag = flags;
    SimOptions options = small_options(/*blocks=*/30, /*batch=*/3, GetParam());
    options.device.flags = [flag](const std::vector<TokenId>&, int, std::int64_t position) {
      return position == 8 ? flag : 0U;
    };
    Simulation met(options);
    met.submit("A", {.prompt = 5, .max_tokens = 9});
    met.run();
    ASSERT_EQ(met.got("A").terminal->kind, Event::Kind::kFailed);
    EXPECT_EQ(met.got("A").terminal->error.code, code) << flag;
  }
}

TEST_P(Ends, ADeviceFailureEndsEveryRequestOnce) {  // F4
  SimOptions options = small_options(/*blocks=*/11, /*batch=*/2, GetParam());
  options.device.fails_at = 4;
  Simulation met(options);
  for (const char* name : {"A", "B", "C"}) met.submit(name, {.prompt = 5, .max_tokens = 30});
  expect_trace("device_failure" + suffix(), met.run());
  for (const char* name : {"A", "B", "C"}) {
    ASSERT_TRUE(met.got(name).terminal);
    EXPECT_EQ(met.got(name).terminal->error.code, ErrorCode::kDevice);
  }
  EXPECT_TRUE(met.loop().snapshot().faulted);
}

TEST_P(Ends, AStepThatIsNotDoneInTimeIsADeviceFailure) {  // F5
  SimOptions options = small_options(/*blocks=*/11, /*batch=*/2, GetParam());
  options.step_timeout_us = 1'000'000;
  options.device.step_us_at[3] = 2'000'000;
  Simulation met(options);
  met.submit("A", {.prompt = 5, .max_tokens = 30});
  met.run();
  EXPECT_EQ(met.got("A").terminal->error.code, ErrorCode::kDevice);
  EXPECT_EQ(met.got("A").terminal->error.field, "step-timeout-s");
}

INSTANTIATE_TEST_SUITE_P(Depth, Ends, ::testing::Values(1, 2));

}  // namespace
}  // namespace met::scheduler::testing
