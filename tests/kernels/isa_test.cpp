#include "kernels/isa.h"

#include <gmock/gmock.h>

namespace met::kernels {
namespace {

using testing::HasSubstr;

TEST(Isa, ChosenSetIsOneThatTheProcessorHas) {
  EXPECT_EQ(choose_isa("auto").value(), detect_isa());
  EXPECT_EQ(choose_isa("generic").value(), CpuIsa::kGeneric);
  EXPECT_TRUE(is_isa_of(cpu_arch(), name(detect_isa())));
}

TEST(Isa, ArmsSetFollowsTheSystemsTwoWords) {
  constexpr unsigned long kAsimd = 1UL << 1;
  constexpr unsigned long kAsimdDp = 1UL << 20;
  constexpr unsigned long kSve = 1UL << 22;
  constexpr unsigned long kI8mm = 1UL << 13;
  constexpr unsigned long kBf16 = 1UL << 14;
  struct Case {
    unsigned long features;
    unsigned long more;
    CpuIsa want;
  };
  for (const auto& [features, more, want] : {
           Case{kAsimd, 0, CpuIsa::kGeneric},                             // Cortex-A72
           Case{kAsimd | kAsimdDp, 0, CpuIsa::kDotprod},                  // Neoverse N1
           Case{kAsimd | kAsimdDp | kSve, kI8mm | kBf16, CpuIsa::kI8mm},  // Neoverse V1
           Case{kAsimd | kAsimdDp, kBf16, CpuIsa::kDotprod},
           Case{kAsimd | kSve, kI8mm, CpuIsa::kGeneric},  // i8mm's code multiplies by dot too
           Case{0, 0, CpuIsa::kGeneric},
       })
    EXPECT_EQ(arm_isa(features, more), want) << std::hex << features << " " << more;
}

TEST(Isa, AWantedSetIsOfTheArchitectureAndNotBeyondTheProcessor) {
  EXPECT_EQ(choose_isa("", "aarch64", CpuIsa::kI8mm).value(), CpuIsa::kI8mm);
  EXPECT_EQ(choose_isa("dotprod", "aarch64", CpuIsa::kI8mm).value(), CpuIsa::kDotprod);
  EXPECT_EQ(choose_isa("generic", "aarch64", CpuIsa::kGeneric).value(), CpuIsa::kGeneric);
  EXPECT_EQ(choose_isa("avx2", "x86-64", CpuIsa::kAvx512).value(), CpuIsa::kAvx2);
  struct Case {
    const char* wanted;
    const char* arch;
    CpuIsa best;
    const char* said;
  };
  for (const auto& [wanted, arch, best, said] : {
           Case{"i8mm", "aarch64", CpuIsa::kDotprod, "offers dotprod at most, not i8mm"},
           Case{"amx", "x86-64", CpuIsa::kAvx2, "offers avx2 at most, not amx"},
           Case{"avx2", "aarch64", CpuIsa::kI8mm,
                "avx2 is a set of x86-64 processors; this one may have generic, dotprod, i8mm"},
           Case{"dotprod", "x86-64", CpuIsa::kAmx, "dotprod is a set of aarch64 processors"},
           Case{"sse9", "aarch64", CpuIsa::kI8mm, "\"sse9\" is not one of auto, generic, dotprod, i8mm"},
       }) {
    const auto chosen = choose_isa(wanted, arch, best);
    ASSERT_FALSE(chosen) << wanted;
    EXPECT_EQ(chosen.error().field, "--cpu-isa");
    EXPECT_THAT(chosen.error().message, HasSubstr(said));
  }
}

}  // namespace
}  // namespace met::kernels
