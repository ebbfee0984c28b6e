#include "closure/tree.h"

#include <gmock/gmock.h>

#include "tests/closure/temp_tree.h"

namespace met::closure {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Tree, SymbolicLinksAreRefused) {
  TempTree tree;
  tree.hardware("h").model("h/m").add("h/common/a.cu", "");
  ASSERT_TRUE(KernelTree::load(tree.root()));
  std::filesystem::create_symlink("a.cu", tree.root() / "h/common/b.cu");
  EXPECT_THAT(said(KernelTree::load(tree.root())), HasSubstr("kernels/h/common/b.cu: is a symbolic link"));
}

TEST(Tree, EveryFolderIsAHardwareOfItsOwnName) {
  TempTree tree;
  tree.add("include/met/x.h", "").add("h/common/a.cu", "");
  EXPECT_THAT(said(KernelTree::load(tree.root())), HasSubstr("kernels/h: holds no HARDWARE.toml"));
  tree.add("h/HARDWARE.toml", "[hardware]\nname = \"other\"\nvendor = \"nvidia\"\n");
  EXPECT_THAT(said(KernelTree::load(tree.root())), HasSubstr("key hardware.name is \"other\""));
}

TEST(Tree, ParentIsAnotherHardwareOfTheSameVendorWithoutAParent) {
  TempTree tree;
  tree.hardware("h", "p");
  EXPECT_THAT(said(KernelTree::load(tree.root())),
              HasSubstr("key hardware.inherits names \"p\", which is no other"));
  tree.hardware("h", "h");
  EXPECT_THAT(said(KernelTree::load(tree.root())), HasSubstr("which is no other hardware"));
  tree.hardware("h", "p").add("p/HARDWARE.toml", "[hardware]\nname = \"p\"\nvendor = \"cpu\"\n");
  EXPECT_THAT(said(KernelTree::load(tree.root())), HasSubstr("another vendor"));
  tree.hardware("p", "g").hardware("g");
  EXPECT_THAT(said(KernelTree::load(tree.root())), HasSubstr("one level only"));
  tree.hardware("p");
  EXPECT_EQ(said(KernelTree::load(tree.root())), "");
}

TEST(Tree, QuantsAreOwnAndInheritedFolders) {
  TempTree tree;
  tree.hardware("p").hardware("h", "p").model("h/m").add("h/m/fp8/a.cu", "").add("p/m/bf16/a.cu", "");
  tree.model("h/listed", "supported_quants = [\"gguf\"]\n").model("h/redirected", "kernel_source = \"m\"\n");
  const auto loaded = KernelTree::load(tree.root());
  ASSERT_TRUE(loaded) << said(loaded);
  EXPECT_THAT(loaded->quants("h", "m"), ElementsAre("bf16", "fp8"));
  EXPECT_THAT(loaded->quants("h", "listed"), ElementsAre("gguf"));
  EXPECT_THAT(loaded->quants("h", "redirected"), ElementsAre("bf16", "fp8"));
}

TEST(Tree, RedirectEndsAtAnotherModelWithSources) {
  TempTree tree;
  tree.hardware("h").model("h/a", "kernel_source = \"b\"\n");
  EXPECT_THAT(said(KernelTree::load(tree.root())),
              HasSubstr("key model.kernel_source names \"b\", which is no other"));
  tree.model("h/b", "kernel_source = \"a\"\n");
  EXPECT_THAT(said(KernelTree::load(tree.root())), HasSubstr("which is redirected itself"));
  tree.model("h/b").add("h/a/bf16/x.cu", "");
  EXPECT_THAT(said(KernelTree::load(tree.root())), HasSubstr("they would never be read"));
}

}  // namespace
}  // namespace met::closure
