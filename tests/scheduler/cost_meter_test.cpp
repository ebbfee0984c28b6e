// What the cost model learns from steps whose parts are known (S5).
#include "scheduler/cost_meter.h"

#include <gtest/gtest.h>

namespace met::scheduler {
namespace {

/// A device whose step takes a part for any step, one for each row, one for each prefill token, and one more where rows and
/// prefill meet.
struct Device {
  std::int64_t step_us = 4000, row_us = 20, token_us = 20, mixed_us = 1500;

  std::int64_t decode_us(int rows) const { return step_us + rows * row_us; }
  std::int64_t step(int rows, std::int64_t prefill) const {
    return decode_us(rows) + prefill * token_us + (rows > 0 && prefill > 0 ? mixed_us : 0);
  }
};

class CostMeterTest : public testing::Test {
 protected:
  void run(int rows, std::int64_t prefill, int times = 1) {
    StepPlan plan;
    plan.decode_rows = rows;
    plan.tokens.prefill = prefill;
    plan.rows.resize(1);
    for (int i = 0; i < times; ++i) meter_.observe(plan, device_.step(rows, prefill), 0);
  }
  /// The step that the model expects.
  std::int64_t expected(int rows, std::int64_t prefill) const {
    const CostModel cost = meter_.model(rows);
    return cost.decode_step_us + cost.prefill_us(prefill);
  }

  Device device_;
  CostMeter meter_;
};

TEST_F(CostMeterTest, AShortChunkTellsWhatALongOneTakes) {
  run(0, 150);
  run(1, 0, 10);
  run(50, 0, 10);
  run(50, 64, 20);
  for (const std::int64_t tokens : {16, 64, 200, 500})
    EXPECT_NEAR(expected(50, tokens), device_.step(50, tokens), 100) << tokens;
}

TEST_F(CostMeterTest, RowsThatNeverRunAloneAreKnownFromMixedSteps) {
  run(0, 150);
  run(1, 0, 10);
  run(40, 0, 10);
  run(40, 64, 20);
  run(200, 64, 100);
  EXPECT_NEAR(meter_.model(200).decode_step_us, device_.decode_us(200), 100) << "a width that was never seen";
  device_.row_us = 40;  // contexts grew
  run(200, 64, 100);
  EXPECT_NEAR(meter_.model(200).decode_step_us, device_.decode_us(200), 100);
  device_.row_us = 20;
  run(200, 0, 20);
  EXPECT_NEAR(meter_.model(200).decode_step_us, device_.decode_us(200), 100) << "steps of rows alone decide";
}

TEST_F(CostMeterTest, WithoutAStepOfPrefillAloneMixedOnesHaveToDo) {
  run(8, 0, 10);
  EXPECT_EQ(meter_.model(8).prefill_token_ns, 0) << "unknown";
  run(8, 128, 20);
  EXPECT_NEAR(expected(8, 128), device_.step(8, 128), 100);
  run(0, 512, 30);
  run(1, 0, 10);
  run(8, 0, 10);
  run(8, 128, 30);
  for (const std::int64_t tokens : {64, 512})
    EXPECT_NEAR(expected(8, tokens), device_.step(8, tokens), 100) << tokens;
}

TEST_F(CostMeterTest, PrefillThatTakesLittleIsNotFree) {
  device_.token_us = 0;
  run(0, 512, 5);
  run(1, 0, 10);
  EXPECT_GT(meter_.model(1).prefill_token_ns, 0);
}

}  // namespace
}  // namespace met::scheduler
