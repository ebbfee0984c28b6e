#include "kernelc/options.h"

#include <gmock/gmock.h>

namespace met::kernelc {
namespace {

using testing::ElementsAre;

Result<Options> parse(std::vector<const char*> more) {
  std::vector<const char*> all{"--tree", "t", "--out", "o", "--cache", "c", "--hw", "cpu"};
  all.insert(all.end(), more.begin(), more.end());
  return parse_options(all);
}

TEST(Options, ListsAreSplitAtCommasSemicolonsAndBlanks) {
  const auto o = parse({"--hw", "cpu,hopper;gb10 x", "--model", "*", "--no-strict", "-j", "3"});
  ASSERT_TRUE(o);
  EXPECT_THAT(o->hardware, ElementsAre("cpu", "hopper", "gb10", "x"));
  EXPECT_FALSE(o->strict);
  EXPECT_EQ(o->jobs, 3);
  EXPECT_TRUE(o->tree.is_absolute());
}

TEST(Options, MistakesNameTheFlag) {
  EXPECT_EQ(parse({"--speed", "9"}).error().field, "--speed");
  EXPECT_EQ(parse({"--jobs", "many"}).error().field, "--jobs");
  EXPECT_EQ(parse({"--nvcc"}).error().field, "--nvcc");
  EXPECT_EQ(parse_options(std::vector<const char*>{"--out", "o"}).error().field, "--tree");
}

}  // namespace
}  // namespace met::kernelc
