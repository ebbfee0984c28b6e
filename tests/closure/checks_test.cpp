#include "closure/checks.h"

#include <gmock/gmock.h>

#include "tests/closure/temp_tree.h"

namespace met::closure {
namespace {

using testing::HasSubstr;

std::string check(const TempTree& tree) {
  const auto loaded = KernelTree::load(tree.root());
  return loaded ? said(check_tree(*loaded)) : said(loaded);
}

TEST(Checks, DeclaredDefaultsStateEveryRow) {
  TempTree tree;
  tree.hardware("h");
  EXPECT_EQ(check(tree), "");
  tree.add("h/HARDWARE.toml", "[hardware]\nname = \"h\"\nvendor = \"nvidia\"\n[defaults]\nblock_size = 16\n");
  EXPECT_THAT(check(tree), HasSubstr("kernels/h/HARDWARE.toml: key defaults.max_batch_size is missing"));
}

class Rivals : public testing::Test {
 protected:
  Rivals() { tree_.hardware("h"); }
  void model(const std::string& name, int hidden, const std::string& names) {
    std::string text = "model_types = [{model_type = \"llama\"";
    if (hidden > 0) text += ", hidden_size = " + std::to_string(hidden);
    text += "}]\n[model]\nname = \"" + name + "\"\nmatch_names = [" + names + "]\n";
    if (hidden > 0) text += "[model.dims]\nhidden = " + std::to_string(hidden) + "\n";
    tree_.add("h/" + name + "/MODEL.toml", text);
  }
  TempTree tree_;
};

TEST_F(Rivals, OfOneTypeAndSizeAllDeclareMatchNames) {
  model("a", 64, "\"alpha\"");
  model("b", 64, "");
  EXPECT_THAT(check(tree_), HasSubstr("kernels/h/b/MODEL.toml: key model.match_names is missing: a serves"));
  model("b", 64, "\"beta\"");
  EXPECT_EQ(check(tree_), "");
}

TEST_F(Rivals, OfOtherSizesNeedNone) {
  model("a", 64, "");
  model("b", 128, "");
  model("c", 0, "");
  EXPECT_EQ(check(tree_), "");
}

TEST_F(Rivals, NeedleThatARivalAlwaysMatchesIsRefused) {
  model("a", 64, "\"Smol-Alpha\"");
  model("b", 64, "\"smol\"");
  EXPECT_THAT(
      check(tree_),
      HasSubstr("kernels/h/a/MODEL.toml: key model.match_names can never win: whatever it matches, b"));
  model("a", 64, "\"Smol-Alpha\", \"alpha\"");  // "alpha" can win alone
  EXPECT_EQ(check(tree_), "");
}

}  // namespace
}  // namespace met::closure
