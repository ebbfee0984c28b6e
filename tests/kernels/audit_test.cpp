#include "kernels/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace met::kernels {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Hardware kHardware{"cpu", "cpu", "x86-64", 0, {}};
constexpr AbsentKernel kExpected[] = {{"norm", "fast", "not on this processor"}};
constexpr AbsentKernel kDropped[] = {{"rope", "wide", "the new file has no wide form"}};

Target target() {
  Target out{};
  out.hardware = &kHardware;
  out.model = "m";
  out.quant = "q";
  out.expected_absent = kExpected;
  out.dropped_by_shadow = kDropped;
  out.closure_hash = "abc";
  return out;
}

TEST(Audit, FoundAndExpectedAbsentLookupsPass) {
  KernelAudit audit;
  audit.record("norm", "rows", true);
  audit.record("norm", "fast", false);
  EXPECT_TRUE(audit.check(target()));
  EXPECT_EQ(audit.exit_status(target()), 0);
}

TEST(Audit, UnresolvedOnesRefuseTheStartWithCallSiteAndReason) {
  KernelAudit audit;
  audit.record("rope", "wide", false);
  audit.record("linear", "q9", false);
  audit.record("linear", "q9", false);
  const auto checked = audit.check(target());
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("target cpu/m/q lacks 2 kernels"));
  EXPECT_THAT(checked.error().message, HasSubstr("rope.wide, asked for at "));
  EXPECT_THAT(checked.error().message, HasSubstr("audit_test.cpp:"));
  EXPECT_THAT(checked.error().message, HasSubstr("(dropped by a shadow: the new file has no wide form)"));
  EXPECT_EQ(audit.lookups().size(), 2U);
  EXPECT_EQ(audit.lookups()[1].count, 2);
  EXPECT_TRUE(audit.check(target(), /*allowed=*/true));
}

TEST(Audit, ReportIsOneLineALookupAndOneOfJson) {
  KernelAudit audit;
  audit.record("norm", "rows", true);
  audit.record("norm", "fast", false);
  audit.record("linear", "q9", false);
  const std::string report = audit.report(target());
  EXPECT_THAT(report, HasSubstr("found    norm.rows"));
  EXPECT_THAT(report, HasSubstr("expected norm.fast"));
  EXPECT_THAT(report, HasSubstr("MISSING  linear.q9"));
  EXPECT_THAT(
      report,
      HasSubstr(
          R"({"metrale_kernel_check":{"target":"cpu/m/q","lookups":3,"unresolved":1,"missing":["linear.q9"],"closure":"abc"}})"));
}

TEST(Audit, ExitStatusIsTheCountClampedToAByte) {
  KernelAudit audit;
  for (int i = 0; i < 300; ++i) audit.record("m", "f" + std::to_string(i), false);
  EXPECT_EQ(audit.exit_status(target()), 255);
}

}  // namespace
}  // namespace met::kernels
