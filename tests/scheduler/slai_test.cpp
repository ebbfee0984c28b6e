// Admission under SLAI: what is skipped, for how long, and who comes first. Rules S10 to S13, S22.
#include <gtest/gtest.h>

#include <vector>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

constexpr std::int64_t kDeadlineUs = 100'000;

/// One running stream and a queue, planned at `now_us`.
struct Scene {
  std::int64_t now_us = 1'000'000;
  std::int64_t last_token_us = 1'000'000;
  CostModel cost;
  std::int64_t step_left_us = 0;
  int skips = 0;
  std::int64_t accepted_us = 1'000'000;
  std::vector<std::int64_t> prompts = {512};
  std::int64_t blocks_free = 900;
};

StepPlan plan_of(const Scene& scene) {
  const std::vector<BlockId> table = {1, 2, 3};
  const std::vector<std::int32_t> refs(1001, 1);
  const std::vector<LiveView> live = {{.seq = 0,
                                       .state = SeqState::kDecoding,
                                       .prompt_len = 20,
                                       .len = 40,
                                       .planned_len = 39,
                                       .outputs_max = 400,
                                       .last_token_us = scene.last_token_us,
                                       .blocks = table}};
  std::vector<WaitView> queued;
  for (const std::int64_t prompt : scene.prompts)
    queued.push_back({.seq = static_cast<SeqIndex>(queued.size()) + 1,
                      .prompt_len = prompt,
                      .len = prompt,
                      .outputs_left = 16,
                      .accepted_us = scene.accepted_us});
  const View view = {.live = live,
                     .queued = queued,
                     .block_refs = refs,
                     .queued_total = std::ssize(queued),
                     .blocks_free = scene.blocks_free,
                     .rows_free = 8,
                     .slai_skips = scene.skips,
                     .step_left_us = scene.step_left_us,
                     .cost = scene.cost};
  const PlanConfig config = {.blocks_total = 1001,
                             .max_batch_size = 9,
                             .max_seq_len = 4096,
                             .max_prefill_tokens = 4096,
                             .mixed_prefill_tokens = 4096,
                             .policy = Policy::kSlai,
                             .tbt_deadline_us = kDeadlineUs};
  PlanScratch scratch;
  StepPlan plan;
  plan_step(view, config, scene.now_us, scratch, plan);
  return plan;
}

TEST(Slai, NoAdmissionFromEightyPercentOfTheDeadlineOn) {  // S10
  for (const auto& [waited_us, skipped] : std::vector<std::pair<std::int64_t, bool>>{
           {0, false}, {79'999, false}, {80'000, true}, {500'000, true}}) {
    const StepPlan plan = plan_of({.last_token_us = 1'000'000 - waited_us});
    EXPECT_EQ(plan.slai_skipped, skipped) << waited_us;
    EXPECT_EQ(plan.admit.empty(), skipped) << waited_us;
    EXPECT_EQ(plan.decode_rows, 1);
    if (!skipped) continue;
    ASSERT_EQ(plan.waits.size(), 1U);
    EXPECT_EQ(plan.waits[0].reason, WaitReason::kDeadline);
  }
}

TEST(Slai, SkipsAreBounded) {  // S11
  EXPECT_TRUE(plan_of({.last_token_us = 900'000, .skips = 7}).slai_skipped);
  EXPECT_FALSE(plan_of({.last_token_us = 900'000, .skips = 8}).slai_skipped);
  const std::int64_t long_ago = 1'000'000 - 20 * kDeadlineUs;
  EXPECT_TRUE(plan_of({.last_token_us = 900'000, .accepted_us = long_ago + 1}).slai_skipped);
  EXPECT_FALSE(plan_of({.last_token_us = 900'000, .accepted_us = long_ago}).slai_skipped);
}

TEST(Slai, TheWaitIsTheProjectedOneWithACostModel) {  // S12
  // 20 ms of decode and 192 tokens (S5) of 100 us: 39.2 ms.
  const CostModel cost = {.decode_step_us = 20'000, .prefill_token_ns = 100'000};
  EXPECT_FALSE(plan_of({.last_token_us = 970'000, .cost = cost}).slai_skipped);
  EXPECT_TRUE(plan_of({.last_token_us = 955'000, .cost = cost}).slai_skipped);
  EXPECT_TRUE(plan_of({.last_token_us = 970'000, .cost = cost, .step_left_us = 20'000}).slai_skipped);
  EXPECT_FALSE(plan_of({.last_token_us = 955'000, .cost = cost, .prompts = {64}}).slai_skipped);
  const StepPlan late = plan_of({.last_token_us = 919'999, .cost = cost});
  EXPECT_TRUE(late.slai_infeasible);
  EXPECT_FALSE(late.slai_skipped) << "a skip would not help";
}

TEST(Slai, AMixedStepKeepsItsDecodeRowsInsideTheDeadline) {  // S13
  // 15 ms are left at 50 us a token: 300 tokens, and so 256.
  const CostModel cost = {.decode_step_us = 20'000, .prefill_token_ns = 50'000};
  const StepPlan plan =
      plan_of({.cost = {.decode_step_us = 20'000, .prefill_token_ns = 10'000}, .prompts = {4000}});
  EXPECT_EQ(plan.tokens.prefill, 1984) << "S5: twice a decode step";
  const StepPlan tight = plan_of({.last_token_us = 955'000, .cost = cost, .prompts = {4000}});
  EXPECT_EQ(tight.tokens.prefill, 256);
}

TEST(Slai, TheHeadThenTheShortestAndTheRestIfItFits) {  // S10
  const StepPlan plan = plan_of({.prompts = {600, 300, 100, 300}});
  std::vector<SeqIndex> admitted;
  for (const Admit& admit : plan.admit) admitted.push_back(admit.seq);
  EXPECT_EQ(admitted, (std::vector<SeqIndex>{1, 3, 2, 4}));
  // 45 blocks: the head takes 39, the one of 600 does not fit, the one of 60 does.
  const StepPlan tight = plan_of({.prompts = {600, 600, 60}, .blocks_free = 45});
  ASSERT_EQ(tight.admit.size(), 2U);
  EXPECT_EQ(tight.admit[1].seq, 3);
  ASSERT_EQ(tight.waits.size(), 1U);
  EXPECT_EQ(tight.waits[0].seq, 2);
  // A head that does not fit closes the round.
  EXPECT_TRUE(plan_of({.prompts = {1000, 60}, .blocks_free = 45}).admit.empty());
}

SimOptions slai_options(int batch) {
  SimOptions options = small_options(/*blocks=*/40, batch);
  options.plan.policy = Policy::kSlai;
  return options;
}

TEST(Slai, PriorityOrdersTheQueueAndWaitingRaisesIt) {  // S22
  Simulation met(slai_options(/*batch=*/1));
  met.submit("running", {.prompt = 4, .max_tokens = 6});
  met.tick();
  met.submit("late", {.prompt = 4, .max_tokens = 2, .priority = 1});
  met.submit("first", {.prompt = 4, .max_tokens = 2});
  met.submit("urgent", {.prompt = 4, .max_tokens = 2, .priority = -1});
  const std::string trace = met.run();
  EXPECT_LT(trace.find("admit urgent"), trace.find("admit first"));
  EXPECT_LT(trace.find("admit first"), trace.find("admit late"));

  Simulation aged(slai_options(1));
  aged.submit("running", {.prompt = 4, .max_tokens = 6});
  aged.tick();
  aged.submit("waited", {.prompt = 4, .max_tokens = 2, .priority = 1});
  aged.clock().set(6'000'000);
  aged.submit("fresh", {.prompt = 4, .max_tokens = 2});
  const std::string after = aged.run();
  EXPECT_LT(after.find("admit waited"), after.find("admit fresh")) << "one level in five seconds";
}

TEST(Slai, SkipTrace) {  // S10, S12: the measured prefill cost would hold up A
  SimOptions options = slai_options(/*batch=*/4);
  options.plan.tbt_deadline_us = 6'000;
  options.device.token_us = 500;
  Simulation met(options);
  met.submit("A", {.prompt = 16, .max_tokens = 24});
  met.at(4, [](Simulation& m) { m.submit("B", {.prompt = 32, .max_tokens = 2}); });
  met.at(4, [](Simulation& m) { m.submit("C", {.prompt = 4, .max_tokens = 2}); });
  expect_trace("slai_skip", met.run());
}

TEST(Slai, InfeasibleTrace) {  // S12: a decode step alone is longer than the deadline
  SimOptions options = slai_options(/*batch=*/4);
  options.plan.tbt_deadline_us = 600;
  Simulation met(options);
  met.submit("A", {.prompt = 16, .max_tokens = 8});
  met.at(4, [](Simulation& m) { m.submit("B", {.prompt = 32, .max_tokens = 2}); });
  expect_trace("slai_infeasible", met.run());
}

}  // namespace
}  // namespace met::scheduler::testing
