// The build tool from tree to table, with the compiler that built this test.
#include "kernelc/build.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "closure/schema.h"
#include "kernelc/elf_symbols.h"
#include "tests/closure/temp_tree.h"

namespace met::kernelc {
namespace {

using closure::said;
using closure::TempTree;
using testing::HasSubstr;
using testing::Not;

constexpr char kKernel[] = "#include \"met/cpu_kernel.h\"\nstruct Args { int* y; };\n";

std::string kernel(const std::string& name, const std::string& body) {
  return kKernel + ("MET_CPU_KERNEL(" + name + ", Args) { if (ctx->thread == 0) " + body + " }\n");
}

class Build : public testing::Test {
 protected:
  Build() {
    tree_.add("cpu/HARDWARE.toml",
              "[hardware]\nname = \"cpu\"\nvendor = \"cpu\"\n[build.isa.x86-64]\ngeneric = "
              "[]\navx2 = [\"-O1\"]\n");
    tree_.model("cpu/a", "supported_quants = [\"q\"]\n").model("cpu/b", "supported_quants = [\"q\"]\n");
    tree_.add("include/met/cpu_kernel.h",
              *closure::read_text(MET_SOURCE_DIR "/kernels/include/met/cpu_kernel.h"));
    tree_.add("cpu/common/one.cpp", kernel("one", "*args.y = 1;"))
        .add("cpu/common/two.cpp", kernel("two", "*args.y = 2;"));
    options_ = {.tree = tree_.root(),
                .out = tree_.folder() / "out",
                .cache = tree_.folder() / "cache",
                .hardware = {"cpu"},
                .implicit = {},
                .cxx = MET_TEST_CXX,
                .nvcc = MET_TEST_NVCC,
                .launcher = {},
                .extra_nvcc_flags = {},
                .jobs = 2};
  }

  /// Runs the tool: its log, then the error if it failed.
  std::string run() {
    std::ostringstream log;
    const auto done = build(options_, log);
    return log.str() + (done ? "" : "ERROR " + said(done));
  }
  std::string table() const {
    const auto text = closure::read_text(options_.out / "kernel_table.cpp");
    return text ? *text : "";
  }

  TempTree tree_;
  Options options_;
};

TEST_F(Build, TargetsShareJobsAndOneIsCompiledAnInstructionSet) {
  EXPECT_THAT(run(), HasSubstr("4 jobs, 4 compiled"));  // two sources, two instruction sets, for both models
  for (const char* part : {"\"a\", \"q\"", "\"b\", \"q\"", "{\"one\", {one_generic_", ", one_avx2_",
                           ", nullptr, nullptr, nullptr, nullptr}}"})
    EXPECT_THAT(table(), HasSubstr(part));
  EXPECT_TRUE(std::filesystem::exists(options_.out / "libmet_kernel_objects.a"));
}

TEST_F(Build, OnlyWhatChangedIsCompiledAgain) {
  run();
  const std::string before = table();
  const auto time = std::filesystem::last_write_time(options_.out / "kernel_table.cpp");
  EXPECT_THAT(run(), HasSubstr("4 jobs, 0 compiled"));
  EXPECT_EQ(std::filesystem::last_write_time(options_.out / "kernel_table.cpp"), time);
  tree_.add("cpu/common/one.cpp", kernel("one", "*args.y = 3;"));
  EXPECT_THAT(run(), HasSubstr("4 jobs, 2 compiled"));
  EXPECT_NE(table(), before);
}

TEST_F(Build, TableIsTheSameInAnotherFolder) {
  run();
  const std::string first = table();
  options_.out = tree_.folder() / "elsewhere";
  run();
  EXPECT_EQ(table(), first);
}

TEST_F(Build, ExactTargetGetsItsSizesAndFamiliesShareTheirs) {
  tree_.add("cpu/common/one.cpp",
            "#include \"target.h\"\n" + kernel("one", "*args.y = met::target::kHidden;"));
  tree_.add("cpu/exact/MODEL.toml",
            "model_types = [{model_type = \"llama\", hidden_size = 576}]\n[model]\nname = "
            "\"exact\"\nsupported_quants = [\"q\"]\n[model.dims]\nhidden = 576\n");
  EXPECT_THAT(run(), HasSubstr("6 jobs, 6 compiled"));  // one: family and exact; two: shared
}

TEST_F(Build, AFailingKernelFailsTheBuildAfterAllJobsRan) {
  tree_.add("cpu/common/one.cpp", kernel("one", "*args.y = nothing;"));
  options_.jobs = 1;
  const std::string log = run();
  EXPECT_THAT(log, HasSubstr("kernels/cpu/common/one.cpp:3:"));  // the compiler names the original
  EXPECT_THAT(log, HasSubstr("4 jobs, 4 compiled"));
  EXPECT_THAT(log, HasSubstr("ERROR : 2 of 4 kernels failed to compile"));
  EXPECT_EQ(table(), "");
  tree_.add("cpu/common/one.cpp", kernel("one", "*args.y = 1;"));
  EXPECT_THAT(run(), HasSubstr("4 jobs, 2 compiled"));  // the others are kept
}

TEST_F(Build, WarningsAreErrors) {
  tree_.add("cpu/common/one.cpp", kernel("one", "{ int unused = 1; }"));
  EXPECT_THAT(run(), HasSubstr("unused"));
}

TEST_F(Build, VisibleSymbolsThatAreNoEntriesFailNamingSourceAndSymbol) {
  for (const auto& [text, want] :
       {std::pair("inline int shared(int x) { static int n; return n += x; }\nint (*use)(int) = shared;\n",
                  "symbol use is global"),
        std::pair("template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }\nnamespace { "
                  "int f() { return twice(2); } volatile int g = f(); }\n",
                  "symbol _Z5twiceIiET_S0_ is weak"),
        std::pair("int counter = 0;\n", "symbol counter is global")}) {
    tree_.add("cpu/common/one.cpp", text + kernel("one", "*args.y = 1;"));
    const std::string log = run();
    EXPECT_THAT(log, HasSubstr(want));
    EXPECT_THAT(log, HasSubstr("FAILED: kernels/cpu/common/one.cpp: "));
  }
}

TEST_F(Build, ASourceWithoutEntriesFails) {
  tree_.add("cpu/common/one.cpp", "namespace { [[maybe_unused]] int x = 0; }\n");
  EXPECT_THAT(run(), HasSubstr("kernels/cpu/common/one.cpp: has no entry point (generic)"));
}

TEST_F(Build, AUsedSourceIsCompiledWithTheHeadersOfTheLayerThatUsesIt) {
  tree_.add("cpu/lib/three.cpp", "#include \"value.h\"\n" + kernel("three", "*args.y = kValue;"))
      .add("cpu/lib/value.h", "#error \"the header beside the original\"\n");
  tree_.add("cpu/a/q/value.h", "constexpr int kValue = 3;\n")
      .add("cpu/a/q/KERNEL.toml", "[sources]\nuse = [\"lib/three.cpp\"]\n");
  EXPECT_THAT(run(), Not(HasSubstr("ERROR")));
  EXPECT_THAT(table(), HasSubstr("three_generic_"));
}

TEST_F(Build, SkippingStillBakesInTheDefaults) {
  tree_.add("cpu/HARDWARE.toml", *closure::read_text(MET_SOURCE_DIR "/kernels/cpu/HARDWARE.toml"));
  options_.skip = true;
  EXPECT_THAT(run(), HasSubstr("skipped"));
  EXPECT_THAT(table(), HasSubstr("{\"block_size\", \"16\"}"));
  EXPECT_THAT(table(), HasSubstr("targets() { return {}; }"));
  EXPECT_FALSE(std::filesystem::exists(options_.cache));
}

TEST_F(Build, AnExpectedAbsenceOfAKernelThatIsThereIsAnError) {
  tree_.model("cpu/a", "supported_quants = [\"q\"]\n[expected_absent.one]\none = \"not yet\"\n");
  EXPECT_THAT(run(), HasSubstr("cpu/a/q: key expected_absent.one.one names a kernel that is there"));
}

TEST_F(Build, DryRunPrintsTheCommandsAndRunsNone) {
  options_.dry_run = true;
  EXPECT_THAT(run(), HasSubstr("-ffp-contract=off"));
  EXPECT_FALSE(std::filesystem::exists(options_.cache));
}

TEST_F(Build, ACompilerForOtherProcessorsGetsTheirInstructionSets) {
  const auto compiler = tree_.folder() / "cross-c++";
  std::ofstream(compiler) << "#!/bin/sh\necho aarch64-linux-gnu\n";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  options_.cxx = compiler.string();
  options_.dry_run = true;
  EXPECT_THAT(run(), HasSubstr("ERROR kernels/cpu/HARDWARE.toml: has no [build.isa.aarch64]"));
  tree_.add("cpu/HARDWARE.toml",
            "[hardware]\nname = \"cpu\"\nvendor = \"cpu\"\n[build.isa.x86-64]\navx2 = [\"-O1\"]\n"
            "[build.isa.aarch64]\ngeneric = [\"-DG\"]\ni8mm = [\"-DM\"]\n");
  EXPECT_THAT(
      run(), testing::AllOf(HasSubstr("MET_KERNEL_SUFFIX=_generic_"), HasSubstr("-DG "),
                            HasSubstr("MET_KERNEL_SUFFIX=_i8mm_"), HasSubstr("-DM "), Not(HasSubstr("-O1"))));
}

TEST_F(Build, CudaKernelsBecomeCubinsWithTheirEntryNames) {
  if (options_.nvcc.empty()) GTEST_SKIP() << "no nvcc on this machine";
  tree_.hardware("h").model("h/a", "supported_quants = [\"q\"]\n");
  tree_.add("h/common/k.cu",
            "extern \"C\" __global__ void k(float* y) { y[threadIdx.x] = 1.0F; }\n__device__ float "
            "helper(float x) { return x; }\n");
  options_.hardware = {"h", "cpu"};
  EXPECT_THAT(run(), HasSubstr("5 jobs, 5 compiled"));
  EXPECT_THAT(table(), HasSubstr("{\"k\", {}, met_image_"));
  EXPECT_THAT(table(), Not(HasSubstr("helper")));
  tree_.add("h/common/k.cu",
            "extern \"C\" __global__ void k(float* y) { int unused; y[threadIdx.x] = 1.0F; }\n");
  EXPECT_THAT(run(), HasSubstr("was declared but never referenced"));
  options_.strict = false;
  EXPECT_THAT(run(), Not(HasSubstr("ERROR")));
}

TEST(ElfSymbols, OtherFilesAreRefused) {
  TempTree tree;
  for (const std::string& bytes : {std::string(),
                                   std::string("\x7f"
                                               "ELF"),
                                   std::string(100, 'x')}) {
    tree.add("f", bytes);
    EXPECT_THAT(said(defined_symbols(tree.root() / "f")), HasSubstr("is no 64-bit little-endian ELF file"));
  }
}

}  // namespace
}  // namespace met::kernelc
