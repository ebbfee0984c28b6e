// Admission between tenants, through the whole loop. Rule S23.
#include <gtest/gtest.h>

#include <string>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

std::size_t admitted_at(const std::string& trace, const std::string& name) {
  const std::size_t at = trace.find("admit " + name + " ");
  EXPECT_NE(at, std::string::npos) << name;
  return at;
}

TEST(Tenants, AFloodOfOneLeavesTurnsToTheOther) {  // S23
  SimOptions options = small_options(/*blocks=*/40, /*batch=*/1);
  options.plan.max_seq_len = 64;
  Simulation met(options);
  for (int i = 0; i < 60; ++i)
    met.submit("flood" + std::to_string(i), {.prompt = 60, .max_tokens = 2, .tenant = 1});
  met.submit("other0", {.prompt = 8, .max_tokens = 2, .tenant = 2});
  met.submit("other1", {.prompt = 8, .max_tokens = 2, .tenant = 2});
  const std::string trace = met.run(2000);
  // 62 tokens each: the flood's turn of 2,048 ends after 33 of them.
  EXPECT_LT(admitted_at(trace, "flood32"), admitted_at(trace, "other0"));
  EXPECT_LT(admitted_at(trace, "other0"), admitted_at(trace, "flood33"));
  EXPECT_LT(admitted_at(trace, "other1"), admitted_at(trace, "flood33"));
}

TEST(Tenants, ShortPromptsOfOneDoNotTakeTheTurnOfAnother) {  // S10 within a tenant, S23 between them
  const std::vector<std::int64_t> prompts = {64, 512, 300, 400, 40, 30, 20};
  const std::vector<std::uint64_t> tenants = {1, 1, 2, 1, 2, 2, 1};
  std::vector<WaitView> queued;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    queued.push_back({.seq = static_cast<SeqIndex>(i),
                      .tenant = tenants[i],
                      .prompt_len = prompts[i],
                      .len = prompts[i],
                      .outputs_left = 16});
  const std::vector<std::int32_t> refs(1001, 0);
  const View view = {.queued = queued,
                     .block_refs = refs,
                     .queued_total = std::ssize(queued),
                     .blocks_free = 1000,
                     .rows_free = 8};
  const PlanConfig config = {.blocks_total = 1001,
                             .max_batch_size = 8,
                             .max_seq_len = 4096,
                             .max_prefill_tokens = 4096,
                             .policy = Policy::kSlai};
  PlanScratch scratch;
  StepPlan plan;
  plan_step(view, config, 0, scratch, plan);
  std::vector<SeqIndex> order;
  for (const Admit& admit : plan.admit) order.push_back(admit.seq);
  // The head; then in the turns 1 2 1 2 2 1 the shortest that the tenant has left.
  EXPECT_EQ(order, (std::vector<SeqIndex>{0, 6, 5, 3, 4, 2, 1}));
}

}  // namespace
}  // namespace met::scheduler::testing
