// Commands of each vendor, and what is said where its toolchain is absent.
#include "kernelc/vendor.h"

#include <gmock/gmock.h>

#include <sstream>

#include "kernelc/build.h"
#include "tests/closure/temp_tree.h"

namespace met::kernelc {
namespace {

using closure::said;
using closure::TempTree;
using closure::Vendor;
using testing::HasSubstr;

Options plain_options() {
  return {.tree = {},
          .out = {},
          .cache = {},
          .hardware = {},
          .implicit = {},
          .nvcc = {},
          .launcher = {},
          .extra_nvcc_flags = {}};
}

TEST(Vendor, CommandsFollowTheirCompilers) {
  struct Case {
    Vendor vendor;
    const char* arch;
    const char* want;
  };
  const Stage stage{"h/common/a.src", {"include"}};
  for (const auto& [vendor, arch, want] :
       {Case{Vendor::kCpu, "avx2", "p -c -DMET_KERNEL_SUFFIX=_s -f -Iinclude h/common/a.src -o o"},
        Case{Vendor::kNvidia, "sm_90a", "p -cubin -arch=sm_90a -f -Iinclude h/common/a.src -o o"},
        Case{Vendor::kApple, "apple9",
             "p metal -c -f -Iinclude h/common/a.src -o o.air && p metallib o.air -o o"},
        Case{Vendor::kAmd, "gfx1151",
             "p --cuda-device-only -c -arch=gfx1151 -f -Iinclude h/common/a.src -o o"},
        Case{Vendor::kHip, "gfx1151", "p --genco --offload-arch=gfx1151 -f -Iinclude h/common/a.src -o o"}}) {
    const auto commands =
        compile_commands(plain_options(), {vendor, "p", "", true, {}}, arch, {"-f"}, "_s", stage, "/f", "o");
    std::string all;
    for (const Command& command : commands) all += (all.empty() ? "" : " && ") + to_string(command);
    EXPECT_EQ(all, want);
  }
}

TEST(Vendor, NvccWarningsAreErrorsUnlessTold) {
  Options options = plain_options();
  EXPECT_THAT(base_flags(options, Vendor::kNvidia), testing::IsSupersetOf({"--Werror", "all-warnings"}));
  options.strict = false;
  options.extra_nvcc_flags = {"-lineinfo"};
  EXPECT_THAT(base_flags(options, Vendor::kNvidia), testing::ElementsAre("-std=c++20", "-O3", "-lineinfo"));
}

TEST(Vendor, ACompilersMachineNamesItsArchitecture) {
  for (const auto& [machine, arch] :
       {std::pair("x86_64-linux-gnu", "x86-64"), std::pair("x86_64-pc-linux-gnu", "x86-64"),
        std::pair("aarch64-linux-gnu", "aarch64"), std::pair("arm64-apple-darwin23.1.0", "aarch64"),
        std::pair("riscv64-linux-gnu", "riscv64")})
    EXPECT_EQ(cpu_arch_of(machine), arch);
}

TEST(Vendor, AbsentToolchainFailsWithTheCommandsThatItWouldRun) {
  struct Case {
    const char* vendor;
    const char* file;
    const char* want;
  };
  for (const auto& [vendor, file, want] :
       {Case{"apple", "a.metal", "toolchain absent: apple (x9): xcrun is not on this machine"},
        Case{"amd", "a.cu",
             "toolchain absent: amd (x9): /opt/scale/targets/x9/bin/nvcc is not on this machine"},
        Case{"hip", "a.cu", "toolchain absent: hip (x9): hipcc is not on this machine"}}) {
    TempTree tree;
    tree.add("h/HARDWARE.toml",
             "[hardware]\nname = \"h\"\nvendor = \"" + std::string(vendor) + "\"\narch = \"x9\"\n");
    tree.model("h/m", "supported_quants = [\"q\"]\n")
        .add("h/common/" + std::string(file), "kernel void k() {}\n");
    Options options = plain_options();
    options.tree = tree.root();
    options.out = tree.folder() / "out";
    options.cache = tree.folder() / "cache";
    options.hardware = {"h"};
    std::ostringstream log;
    const auto done = build(options, log);
    EXPECT_THAT(log.str(), HasSubstr(want));
    EXPECT_THAT(log.str(), HasSubstr("h/common/" + std::string(file) + " -o "));
    EXPECT_THAT(
        said(done),
        HasSubstr("1 kernels need a toolchain that is absent; leave their hardware out of MET_TARGET_HW"));
  }
}

TEST(Process, OutputAndStatusComeBack) {
  EXPECT_EQ(run({{"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, {}}).output, "out\nerr\n");
  EXPECT_EQ(run({{"/bin/sh", "-c", "exit 3"}, {}}).status, 3);
  EXPECT_EQ(run({{"/bin/sh", "-c", "kill -9 $$"}, {}}).status, 137);
  EXPECT_EQ(run({{"/no/such/program"}, {}}).status, 127);
  EXPECT_EQ(run({{"pwd"}, "/usr"}).output, "/usr\n");
  EXPECT_TRUE(can_run("sh"));
  EXPECT_FALSE(can_run("no-such-program"));
  EXPECT_FALSE(can_run(""));
}

}  // namespace
}  // namespace met::kernelc
