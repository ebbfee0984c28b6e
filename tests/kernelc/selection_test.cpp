#include "kernelc/selection.h"

#include <gmock/gmock.h>

#include "tests/closure/temp_tree.h"

namespace met::kernelc {
namespace {

using closure::said;
using closure::TempTree;
using testing::ElementsAre;
using testing::HasSubstr;

class Selection : public testing::Test {
 protected:
  Selection() {
    tree_.add("parent/HARDWARE.toml", "[hardware]\nname = \"parent\"\nvendor = \"nvidia\"\n")
        .add("parent/common/a.cu", "");
    tree_.hardware("h", "parent").hardware("g", "parent");
    tree_.model("h/b").model("h/a").model("g/c", "supported_quants = [\"q2\"]\n");
    tree_.add("h/a/q2/x.cu", "").add("h/a/q1/x.cu", "").add("h/b/q1/x.cu", "");
  }
  std::vector<std::string> names(Strings hardware, Strings models = {"*"}, Strings quants = {"*"}) {
    auto loaded = closure::KernelTree::load(tree_.root());
    if (!loaded) return {said(loaded)};
    Options options{.tree = {},
                    .out = {},
                    .cache = {},
                    .hardware = hardware,
                    .models = models,
                    .quants = quants,
                    .implicit = {},
                    .nvcc = {},
                    .launcher = {},
                    .extra_nvcc_flags = {}};
    const auto targets = select_targets(*loaded, options);
    if (!targets) return {said(targets)};
    std::vector<std::string> out;
    for (const auto& target : *targets) out.push_back(target.name());
    return out;
  }
  TempTree tree_;
};

TEST_F(Selection, StarsExpandSortedByHardwareModelQuant) {
  EXPECT_THAT(names({"h", "g"}), ElementsAre("g/c/q2", "h/a/q1", "h/a/q2", "h/b/q1"));
  EXPECT_THAT(names({"h"}, {"a"}), ElementsAre("h/a/q1", "h/a/q2"));
  EXPECT_THAT(names({"h", "g"}, {"*"}, {"q2"}), ElementsAre("g/c/q2", "h/a/q2"));
  EXPECT_THAT(names({"h"}, {"b", "a"}, {"q1"}), ElementsAre("h/a/q1", "h/b/q1"));
}

TEST_F(Selection, ANamedModelFallsBackToCommonUnlessItListsItsQuants) {
  EXPECT_THAT(names({"h"}, {"b"}, {"q9"}), ElementsAre("h/b/q9"));
  EXPECT_THAT(names({"g"}, {"c"}, {"q9"}), ElementsAre(HasSubstr("quant q9 is not one of supported_quants")));
}

TEST_F(Selection, UnknownNamesSayWhatThereIs) {
  EXPECT_THAT(
      names({"hoper"}),
      ElementsAre(
          "MET_TARGET_HW: no hardware of the kernel tree is called \"hoper\"; there are: g, h, parent"));
  EXPECT_THAT(names({"h"}, {"lama"}),
              ElementsAre("MET_TARGET_MODEL: no model of h is called \"lama\"; there are: a, b"));
  EXPECT_THAT(names({"parent"}),
              ElementsAre(HasSubstr("it is a parent only; choose one that inherits it: g, h")));
  EXPECT_THAT(names({"h"}, {"*"}, {"q7"}),
              ElementsAre(HasSubstr("no target is selected by hardware h, model *, quant q7")));
}

TEST_F(Selection, TargetsWithoutSourcesAreErrors) {
  tree_.remove("parent/common").model("h/empty").add("h/empty/q1/KERNEL.toml", "");
  EXPECT_THAT(names({"h"}, {"empty"}), ElementsAre("h/empty/q1: has no sources"));
}

TEST(Announce, MarksWhatNobodyChose) {
  Options options{.tree = {},
                  .out = {},
                  .cache = {},
                  .hardware = {"cpu"},
                  .implicit = {"hw", "quant"},
                  .nvcc = {},
                  .launcher = {},
                  .extra_nvcc_flags = {}};
  EXPECT_EQ(announce(options, 3),
            "hardware cpu (default); model *; quant * (default): 3 targets; choose with MET_TARGET_HW, "
            "MET_TARGET_MODEL, MET_TARGET_QUANT");
  options.implicit.clear();
  EXPECT_EQ(announce(options, 3), "hardware cpu; model *; quant *: 3 targets");
}

}  // namespace
}  // namespace met::kernelc
