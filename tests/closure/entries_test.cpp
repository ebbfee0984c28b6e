#include "closure/entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace met::closure {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Entries, AreFoundByTheirMarks) {
  EXPECT_THAT(entry_points("MET_CPU_KERNEL(rms_norm, met::RmsNormArgs) { }\nMET_CPU_KERNEL( rope ,X){}"),
              ElementsAre("rms_norm", "rope"));
  EXPECT_THAT(entry_points("extern \"C\" __global__ __launch_bounds__(256, f(2))\nvoid a(const int* x) {}"),
              ElementsAre("a"));
  EXPECT_THAT(entry_points("template <int N> __global__ void __launch_bounds__(N) b ( int x);"),
              ElementsAre("b"));
  EXPECT_THAT(entry_points("kernel void c(device float* x [[buffer(0)]]) {}"), ElementsAre("c"));
}

TEST(Entries, InCommentsAndStringsAreNone) {
  EXPECT_THAT(entry_points("// __global__ void a(int)\n/* MET_CPU_KERNEL(b, X) */ const char* s = "
                           "\"__global__ void c(int)\";"),
              IsEmpty());
  EXPECT_THAT(entry_points("struct kernel; int n = 1'000; __global__ void d(char c = '\"');"),
              ElementsAre("d"));
}

TEST(Entries, CommentsBecomeBlanksOfTheSameLength) {
  EXPECT_EQ(without_comments("a/*x\ny*/b//c\n\"q\\\"//\"d"), "a   \n   b   \n\"     \"d");
}

}  // namespace
}  // namespace met::closure
