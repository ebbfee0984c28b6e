#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace met::engine {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

MemoryInputs inputs() {
  return {.total = 16'000 * kMiB,
          .free = 8'000 * kMiB,
          .weights = 100 * kMiB,
          .arena = 50 * kMiB,
          .block = kMiB,
          .model_positions = 8192,
          .max_batch_size = 4};
}

TEST(MemoryPlan, HostPoolHoldsTheBatchAndNoMoreThanAQuarterOfMemory) {  // M7
  const auto plan = plan_memory(inputs());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->blocks, 2000);  // 25 % of 8,000 MiB is less than 4 * 513 + 1 blocks
  EXPECT_EQ(plan->max_seq_len, 8192);

  MemoryInputs small = inputs();
  small.max_seq_len = 160;
  EXPECT_EQ(plan_memory(small)->blocks, 4 * 11 + 1);  // the + 1 of S7 a sequence, and the null block
}

TEST(MemoryPlan, AutomaticLengthGivesWayAndSaysSo) {  // M5
  MemoryInputs in = inputs();
  in.kv_bytes = 66 * kMiB;
  const auto plan = plan_memory(in);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->seq_len_lowered);
  EXPECT_EQ(plan->max_seq_len, 64 * 16);
  EXPECT_THAT(describe(*plan), testing::HasSubstr("lowered"));
}

TEST(MemoryPlan, AnAskedLengthThatCannotFitIsRefusedByName) {  // M3, M5
  MemoryInputs in = inputs();
  in.kv_bytes = 66 * kMiB;
  in.max_seq_len = 4096;
  const auto plan = plan_memory(in);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("--max-seq-len"));
}

TEST(MemoryPlan, WeightsThatDoNotFitAreRefusedBeforeLoading) {
  MemoryInputs in = inputs();
  in.weights = 9'000 * kMiB;
  const auto plan = plan_memory(in);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("the largest is the weights"));
}

TEST(MemoryPlan, DeviceMemoryGoesToThePoolUpToTheUtilization) {
  MemoryInputs in = inputs();
  in.host_memory = false;
  in.utilization = 0.25;
  const auto plan = plan_memory(in);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->budget, 4'000 * kMiB);
  EXPECT_EQ(plan->blocks, 4'000 - 100 - 50 - 64);
}

}  // namespace
}  // namespace met::engine
