#include "closure/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace met::closure {
namespace {

TEST(Toml, BecomesJsonInAnyNesting) {
  const auto value = parse_toml("a = 1\nb = [true, 2.5, \"x\"]\n[t.u]\nv = \"w\"\n[[r]]\nn = 7\n", "f");
  ASSERT_TRUE(value);
  EXPECT_EQ(json::write(*value), R"({"a":1,"b":[true,2.5,"x"],"r":[{"n":7}],"t":{"u":{"v":"w"}}})");
}

TEST(Toml, FaultsNameFileAndLine) {
  for (const auto& [text, want] :
       {std::pair("a = \nb = 2\n", "line 1"), std::pair("a = 1\na = 2\n", "line 2"),
        std::pair("\n\nd = 2020-01-01\n", "line 3"), std::pair("[t\n", "line 1")}) {
    const auto value = parse_toml(text, "kernels/x/KERNEL.toml");
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().field, "kernels/x/KERNEL.toml");
    EXPECT_THAT(value.error().message, testing::HasSubstr(want));
  }
}

}  // namespace
}  // namespace met::closure
