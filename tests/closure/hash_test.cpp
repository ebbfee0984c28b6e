#include "closure/hash.h"

#include <gmock/gmock.h>

#include "tests/closure/temp_tree.h"

namespace met::closure {
namespace {

class Hash : public testing::Test {
 protected:
  Hash() {
    tree_.hardware("p").hardware("h", "p").model("h/m").add("include/met/x.h", "// shared\n");
    tree_.add("p/common/a.cu", "#include \"b.cuh\"\n#include <met/x.h>\n").add("p/common/b.cuh", "// b\n");
    tree_.add("p/common/unused.cuh", "// nobody includes me\n").add("h/common/KERNEL.toml", "");
  }
  std::string hash(const std::string& compiler = "nvcc 13") {
    const auto target = tree_.resolved("h", "m", "q");
    if (!target) return said(target);
    const auto out = closure_hash(tree_.tree(), *target, compiler);
    return out ? *out : said(out);
  }
  TempTree tree_;
};

TEST_F(Hash, ChangesWithWhateverTheKernelsAreMadeOf) {
  const std::string before = hash();
  EXPECT_EQ(before.size(), 64U);
  const std::pair<const char*, const char*> edits[] = {
      {"p/common/a.cu", "#include \"b.cuh\"\n#include <met/x.h>\n// edited\n"},
      {"p/common/b.cuh", "// edited\n"},
      {"include/met/x.h", "// edited\n"},
      {"h/common/KERNEL.toml", "[build]\nextra_nvcc_flags = [\"-x\"]\n"},
      {"h/m/MODEL.toml", "model_types = [{model_type = \"llama\"}]\n[model]\nname = \"edited\"\n"},
      {"h/HARDWARE.toml",
       "[hardware]\nname = \"h\"\nvendor = \"nvidia\"\narch = \"sm_100a\"\ninherits = \"p\"\n"},
  };
  std::string last = before;
  for (const auto& [path, text] : edits) {
    tree_.add(path, text);
    const std::string now = hash();
    EXPECT_EQ(now.size(), 64U) << now;
    EXPECT_NE(now, last) << path;
    last = now;
  }
  EXPECT_NE(hash("nvcc 14"), last);
}

TEST_F(Hash, StaysWithWhatTheyAreNotMadeOf) {
  const std::string before = hash();
  tree_.add("p/common/unused.cuh", "// edited\n")
      .add("h/m/BENCH.toml", "[[gates]]\nname = \"g\"\nbenchmark = \"b\"\n");
  tree_.model("h/another").add("h/another/q/z.cu", "");
  EXPECT_EQ(hash(), before);
}

TEST_F(Hash, IncludesAreFollowedAsTheCompilerWould) {
  tree_.add("h/m/q/leaf.cu",
            "#include \"own.cuh\"\n#include \"b.cuh\"\n#include \"../deep/d.cuh\"\n// #include "
            "\"none.cuh\"\n#include <vector>\n");
  tree_.add("h/m/q/own.cuh", "")
      .add("h/m/deep/d.cuh", "#include \"e.cuh\"\n")
      .add("h/m/deep/e.cuh", "#  include \"target.h\"\n");
  const auto target = tree_.resolved("h", "m", "q");
  ASSERT_TRUE(target) << said(target);
  const auto reached = reach(tree_.tree(), *target, target->sources.back());
  ASSERT_TRUE(reached) << said(reached);
  std::vector<std::string> labels;
  for (const auto& file : reached->files) labels.push_back(file.label);
  EXPECT_THAT(labels,
              testing::ElementsAre("kernels/h/m/q/leaf.cu", "kernels/h/m/q/own.cuh", "kernels/p/common/b.cuh",
                                   "kernels/h/m/deep/d.cuh", "kernels/h/m/deep/e.cuh"));
  EXPECT_TRUE(reached->uses_target_header);
}

TEST_F(Hash, AUsedSourceSeesTheHeadersOfTheLayerThatUsesIt) {
  tree_.add("h/m/q/KERNEL.toml", "[sources]\nuse = [\"lib/s.cu\"]\n").add("h/m/q/w.cuh", "// leaf\n");
  tree_.add("h/lib/s.cu", "#include \"w.cuh\"\n").add("h/lib/w.cuh", "// beside\n");
  const auto target = tree_.resolved("h", "m", "q");
  ASSERT_TRUE(target) << said(target);
  const auto reached = reach(tree_.tree(), *target, target->sources.back());
  ASSERT_TRUE(reached);
  EXPECT_EQ(reached->files.back().label, "kernels/h/m/q/w.cuh");
}

TEST_F(Hash, IncludeByMacroIsAnError) {
  tree_.add("p/common/b.cuh", "#include WHAT\n");
  EXPECT_THAT(hash(), testing::HasSubstr("kernels/p/common/b.cuh: includes a file named by a macro"));
}

TEST_F(Hash, JobKeyIgnoresTheOrderOfFlagsAndTargetsThatItDoesNotUse) {
  const Reach plain{{{"a.cpp", "", "text"}}, false};
  const Reach uses{{{"a.cpp", "", "text"}}, true};
  ModelManifest family;
  ModelManifest exact;
  exact.dims = {{"hidden", 576}};
  EXPECT_EQ(job_key(plain, family, "avx2", {"-a", "-b"}, "gcc"),
            job_key(plain, exact, "avx2", {"-b", "-a"}, "gcc"));
  EXPECT_NE(job_key(uses, family, "avx2", {}, "gcc"), job_key(uses, exact, "avx2", {}, "gcc"));
  EXPECT_NE(job_key(plain, family, "avx2", {}, "gcc"), job_key(plain, family, "amx", {}, "gcc"));
  EXPECT_NE(job_key(plain, family, "avx2", {}, "gcc"), job_key(plain, family, "avx2", {}, "gcc 13"));
}

TEST(TargetHeader, HoldsTheSizesOfAnExactModelAndZeroesForAFamily) {
  ModelManifest exact;
  exact.dims = {{"hidden", 576}, {"kv_heads", 3}};
  exact.constants = {{"rows_per_cta", 4}};
  const std::string text = target_header(exact);
  for (const char* line :
       {"constexpr bool kExact = true;", "constexpr int kHidden = 576;", "constexpr int kKvHeads = 3;",
        "constexpr int kVocab = 0;", "constexpr long long kKernelRowsPerCta = 4;"})
    EXPECT_THAT(text, testing::HasSubstr(line));
  EXPECT_THAT(target_header({}), testing::HasSubstr("kExact = false"));
}

}  // namespace
}  // namespace met::closure
