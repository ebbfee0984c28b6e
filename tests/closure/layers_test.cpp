// The resolver: one test a rule, each on the smallest tree that shows it.
#include "closure/layers.h"

#include <gmock/gmock.h>

#include "tests/closure/temp_tree.h"

namespace met::closure {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// "module file" of each source, with the folder that it came from.
std::vector<std::string> sources(const TempTree& tree, const Result<Target>& target) {
  std::vector<std::string> out;
  if (!target) return {said(target)};
  for (const Source& source : target->sources)
    out.push_back(source.module + " " + source.path.lexically_relative(tree.root()).generic_string());
  return out;
}

/// Parent p and child h, each with a common folder and a leaf for model m and quant q.
class Layers : public testing::Test {
 protected:
  Layers() { tree_.hardware("p").hardware("h", "p").model("h/m"); }
  Result<Target> target() { return tree_.resolved("h", "m", "q"); }
  TempTree tree_;
};

TEST_F(Layers, FourLayersAddUp) {
  tree_.add("p/common/a.cu", "").add("h/common/b.cu", "").add("p/m/q/c.cu", "").add("h/m/q/d.cu", "");
  EXPECT_THAT(sources(tree_, target()),
              ElementsAre("a p/common/a.cu", "b h/common/b.cu", "c p/m/q/c.cu", "d h/m/q/d.cu"));
}

TEST_F(Layers, WithoutAParentThereAreTwo) {
  tree_.hardware("h")
      .add("p/common/a.cu", "")
      .add("h/common/b.cu", "")
      .add("p/m/q/c.cu", "")
      .add("h/m/q/d.cu", "");
  EXPECT_THAT(sources(tree_, target()), ElementsAre("b h/common/b.cu", "d h/m/q/d.cu"));
}

TEST_F(Layers, OwnTierWinsByFileNameWithinARole) {
  for (const auto& [role, path] : {std::pair("common", "common"), std::pair("leaf", "m/q")}) {
    SCOPED_TRACE(role);
    const std::string folder(path);
    tree_.add("p/" + folder + "/a.cu", "")
        .add("h/" + folder + "/a.cu", "")
        .add("h/" + folder + "/KERNEL.toml", "[shadow]\n\"a.cu\" = \"faster\"\n");
    EXPECT_THAT(sources(tree_, target()), ElementsAre("a h/" + folder + "/a.cu"));
    tree_.remove("p/" + folder).remove("h/" + folder);
  }
}

TEST_F(Layers, OwnTierWinsForHeadersToo) {
  tree_.add("p/common/a.cu", "").add("p/common/x.cuh", "").add("h/common/x.cuh", "");
  EXPECT_THAT(said(target()), HasSubstr("kernels/h/common/x.cuh wins over kernels/p/common/x.cuh"));
  tree_.add("h/common/KERNEL.toml", "[shadow]\n\"x.cuh\" = \"narrower\"\n");
  const auto t = target();
  ASSERT_TRUE(t) << said(t);
  EXPECT_EQ(t->common.files.at("x.cuh"), tree_.root() / "h/common/x.cuh");
}

TEST_F(Layers, LeafWinsOverCommonByStem) {
  tree_.add("h/common/a.cu", "")
      .add("p/m/q/a.cu", "")
      .add("p/m/q/KERNEL.toml", "[shadow]\n\"a.cu\" = \"tuned\"\n");
  EXPECT_THAT(sources(tree_, target()), ElementsAre("a p/m/q/a.cu"));
}

TEST_F(Layers, LeafHeaderLeavesTheCommonOneToCommonSources) {
  tree_.add("h/common/a.cu", "").add("h/common/x.cuh", "").add("h/m/q/b.cu", "").add("h/m/q/x.cuh", "");
  const auto t = target();
  ASSERT_TRUE(t) << said(t);
  EXPECT_EQ(t->common.files.at("x.cuh"), tree_.root() / "h/common/x.cuh");
  EXPECT_EQ(t->leaf.files.at("x.cuh"), tree_.root() / "h/m/q/x.cuh");
}

TEST_F(Layers, UndeclaredWinIsAnError) {
  tree_.add("h/common/a.cu", "").add("h/m/q/a.cu", "");
  EXPECT_THAT(
      said(target()),
      HasSubstr("kernels/h/m/q/KERNEL.toml: kernels/h/m/q/a.cu wins over kernels/h/common/a.cu: declare"));
}

TEST_F(Layers, DeclarationInTheLosersFileDoesNotCount) {
  tree_.add("h/common/a.cu", "")
      .add("h/m/q/a.cu", "")
      .add("h/common/KERNEL.toml", "[shadow]\n\"a.cu\" = \"x\"\n");
  EXPECT_FALSE(target());
}

TEST_F(Layers, DeadShadowIsAnError) {
  tree_.add("h/common/a.cu", "")
      .add("h/m/q/b.cu", "")
      .add("h/m/q/KERNEL.toml", "[shadow]\n\"b.cu\" = \"x\"\n");
  EXPECT_THAT(said(target()), HasSubstr("kernels/h/m/q/KERNEL.toml: key shadow.b.cu shadows nothing"));
  tree_.add("h/m/q/KERNEL.toml", "[shadow]\n\"a.cu\" = \"a file that this layer lacks\"\n");
  EXPECT_THAT(said(target()), HasSubstr("key shadow.a.cu shadows nothing"));
}

TEST_F(Layers, SelfShadowIsAnError) {
  tree_.add("h/common/a.cu", "")
      .add("h/m/q/KERNEL.toml", "[sources]\nuse = [\"common/a.cu\"]\n[shadow]\n\"a.cu\" = \"x\"\n");
  EXPECT_THAT(said(target()), HasSubstr("key shadow.a.cu shadows itself"));
  tree_.add("h/m/q/KERNEL.toml", "[sources]\nuse = [\"common/a.cu\"]\n");
  const auto t = target();  // the same file, compiled with the leaf's headers: nothing is lost
  ASSERT_TRUE(t) << said(t);
  EXPECT_EQ(t->sources.at(0).role, Role::kLeaf);
}

TEST_F(Layers, UsePullsFilesAndFoldersOfTheSameHardware) {
  tree_.add("h/shared/a.cu", "").add("h/shared/x.cuh", "").add("h/other/b.cu", "");
  tree_.add("h/m/q/KERNEL.toml", "[sources]\nuse = [\"shared\", \"other/b.cu\"]\n");
  const auto t = target();
  EXPECT_THAT(sources(tree_, t), ElementsAre("a h/shared/a.cu", "b h/other/b.cu"));
  EXPECT_TRUE(t->leaf.files.contains("x.cuh"));
}

TEST_F(Layers, UseOutsideTheHardwareOrTwiceIsAnError) {
  tree_.add("p/common/a.cu", "").add("h/m/q/b.cu", "").add("h/s/b.cu", "");
  for (const auto& [use, want] : {std::pair("../p/common/a.cu", "which is not in kernels/h"),
                                  std::pair("gone.cu", "which is not in kernels/h"),
                                  std::pair("/etc/passwd", "which is not in kernels/h"),
                                  std::pair("m/q/b.cu", "which is in this layer already"),
                                  std::pair("s/b.cu", "brings b.cu twice into one layer")}) {
    tree_.add("h/m/q/KERNEL.toml", "[sources]\nuse = [\"" + std::string(use) + "\"]\n");
    EXPECT_THAT(said(target()), HasSubstr(want)) << use;
  }
}

TEST_F(Layers, KernelSourceRedirectsTheWholeLeaf) {
  tree_.model("h/twin", "kernel_source = \"m\"\n").add("h/m/q/a.cu", "").add("p/m/q/b.cu", "");
  EXPECT_THAT(sources(tree_, tree_.resolved("h", "twin", "q")), ElementsAre("a h/m/q/a.cu", "b p/m/q/b.cu"));
}

TEST_F(Layers, QuantOutsideSupportedQuantsIsRefused) {
  tree_.add("h/common/a.cu", "");
  EXPECT_THAT(sources(tree_, tree_.resolved("h", "m", "q")), ElementsAre("a h/common/a.cu"));
  tree_.model("h/m", "supported_quants = [\"bf16\"]\n");
  EXPECT_THAT(said(target()), HasSubstr("quant q is not one of supported_quants"));
}

TEST_F(Layers, ModuleIsTheStemUnlessRenamed) {
  tree_.add("p/common/rms_norm.cu", "").add("p/common/KERNEL.toml", "[modules]\nrms_norm = \"norm\"\n");
  EXPECT_THAT(sources(tree_, target()), ElementsAre("norm p/common/rms_norm.cu"));
  tree_.add("h/m/q/KERNEL.toml", "[modules]\nrms_norm = \"norm2\"\n");  // more specific wins per key
  EXPECT_THAT(sources(tree_, target()), ElementsAre("norm2 p/common/rms_norm.cu"));
  tree_.add("h/m/q/KERNEL.toml", "[modules]\nrope = \"r\"\n");
  EXPECT_THAT(said(target()), HasSubstr("key modules.rope of a KERNEL.toml names no source"));
}

TEST_F(Layers, TwoSourcesOfOneModuleAreAnError) {
  tree_.add("h/common/a.cu", "")
      .add("h/common/b.cu", "")
      .add("h/common/KERNEL.toml", "[modules]\na = \"b\"\n");
  EXPECT_THAT(said(target()), HasSubstr("module b has two sources"));
}

TEST_F(Layers, FlagsAppendLeastSpecificFirstWithoutRepeats) {
  const auto flags = [](const std::string& list) { return "[build]\nextra_nvcc_flags = [" + list + "]\n"; };
  tree_.add("h/HARDWARE.toml",
            "[hardware]\nname = \"h\"\nvendor = \"nvidia\"\narch = \"sm_90a\"\ninherits = \"p\"\n" +
                flags("\"-hw\""));
  tree_.add("p/HARDWARE.toml", "[hardware]\nname = \"p\"\nvendor = \"nvidia\"\n" + flags("\"-parent-hw\""));
  tree_.add("p/common/KERNEL.toml", flags("\"-pc\", \"-both\""))
      .add("h/common/KERNEL.toml", flags("\"-oc\", \"-hw\""));
  tree_.add("p/m/q/KERNEL.toml", flags("\"-pl\""))
      .add("h/m/q/KERNEL.toml", flags("\"-both\", \"-ol\""))
      .add("h/common/a.cu", "");
  const auto t = target();
  ASSERT_TRUE(t) << said(t);
  EXPECT_THAT(t->flags, ElementsAre("-hw", "-pc", "-both", "-oc", "-pl",
                                    "-ol"));  // the parent's HARDWARE.toml is not inherited
}

TEST_F(Layers, LostEntryPointsAreRecordedAndWarnedOfUnlessExempt) {
  const std::string lost =
      "extern \"C\" __global__ void kept(int a) {}\nextern \"C\" __global__ void gone(int a) {}\n";
  tree_.add("p/common/a.cu", lost).add("h/common/a.cu", "extern \"C\" __global__ void kept(int a) {}\n");
  tree_.add("h/common/KERNEL.toml", "[shadow]\n\"a.cu\" = \"faster\"\n[modules]\na = \"mod\"\n");
  auto t = target();
  ASSERT_TRUE(t) << said(t);
  ASSERT_EQ(t->dropped.size(), 1U);
  EXPECT_EQ(t->dropped[0].module + "." + t->dropped[0].kernel + ": " + t->dropped[0].reason,
            "mod.gone: faster");
  EXPECT_THAT(t->warnings, ElementsAre(HasSubstr("mod.gone")));
  tree_.add("p/common/KERNEL.toml", "[shadow_exempt]\nmod = [\"gone\"]\n");
  t = target();
  EXPECT_THAT(t->warnings, IsEmpty());
  EXPECT_EQ(t->dropped.size(), 1U);
}

TEST_F(Layers, UnknownFilesInALayerAreErrors) {
  tree_.add("h/common/a.cu", "");
  for (const auto& [file, want] : {std::pair("b.cpp", "is neither a source of vendor nvidia nor a header"),
                                   std::pair("target.h", "is the name of the generated header"),
                                   std::pair("KERNELS.toml", "is no file that a layer holds")}) {
    tree_.add("h/common/" + std::string(file), "");
    EXPECT_THAT(said(target()), HasSubstr(want)) << file;
    tree_.remove("h/common/" + std::string(file));
  }
}

TEST_F(Layers, InstructionSetsOfAModuleAreOnesThatTheHardwareLists) {
  TempTree tree;
  tree.add("c/HARDWARE.toml",
           "[hardware]\nname = \"c\"\nvendor = \"cpu\"\n[build.isa.x86-64]\ngeneric = []\navx2 = "
           "[]\n");
  tree.model("c/m").add("c/common/a.cpp", "").add("c/common/KERNEL.toml", "[isa]\na = [\"avx2\"]\n");
  const auto t = tree.resolved("c", "m", "q");
  ASSERT_TRUE(t) << said(t);
  EXPECT_THAT(t->sources.at(0).isa, ElementsAre("avx2"));
  tree.add("c/common/KERNEL.toml", "[isa]\na = [\"amx\"]\n");
  EXPECT_THAT(said(tree.resolved("c", "m", "q")), HasSubstr("key isa.a names \"amx\""));
}

TEST_F(Layers, UnknownNamesAreErrors) {
  tree_.add("h/common/a.cu", "");
  EXPECT_THAT(said(tree_.resolved("x", "m", "q")), HasSubstr("is no hardware"));
  EXPECT_THAT(said(tree_.resolved("h", "x", "q")), HasSubstr("is no model"));
  EXPECT_THAT(said(tree_.resolved("h", "m", "../q")), HasSubstr("is no name for a storage family"));
}

}  // namespace
}  // namespace met::closure
