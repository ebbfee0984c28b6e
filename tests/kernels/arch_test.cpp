#include "kernels/arch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

namespace met::kernels {
namespace {

using testing::HasSubstr;

Hardware hardware(std::string_view arch) { return {"h", "nvidia", arch, 132, {}}; }

TEST(Arch, RunsWhereItsSuffixLetsIt) {
  struct Case {
    const char* arch;
    int major, minor;
    bool runs;
  };
  for (const auto& [arch, major, minor, runs] :
       {Case{"sm_90a", 9, 0, true}, Case{"sm_90a", 10, 0, false}, Case{"sm_121a", 12, 1, true},
        Case{"sm_121a", 12, 0, false}, Case{"sm_120a", 12, 1, false}, Case{"sm_120f", 12, 1, true},
        Case{"sm_80", 8, 9, true}, Case{"sm_89", 8, 6, false}, Case{"sm_80", 9, 0, false},
        Case{"x86-64", 9, 0, false}, Case{"sm_90x", 9, 0, false}})
    EXPECT_EQ(check_arch(hardware(arch), major, minor).has_value(), runs)
        << arch << " on " << major << "." << minor;
}

TEST(Arch, MismatchSaysWhatToBuild) {
  EXPECT_THAT(check_arch(hardware("sm_90a"), 12, 1).error().message,
              HasSubstr("compute capability 12.1: build with MET_TARGET_HW=gb10"));
  EXPECT_THAT(check_arch(hardware("sm_90a"), 10, 0).error().message,
              HasSubstr("no kernel tree is for it yet"));
}

TEST(Arch, MapOfCapabilitiesEqualsTheTree) {
  const std::regex line("\\ncompute_capability = \"(\\d+)\\.(\\d+)\"");
  int trees = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MET_SOURCE_DIR "/kernels")) {
    std::ifstream in(entry.path() / "HARDWARE.toml");
    const std::string text(std::istreambuf_iterator<char>(in), {});
    std::smatch match;
    if (!std::regex_search(text, match, line)) continue;
    ++trees;
    EXPECT_EQ(hardware_for_capability(std::stoi(match[1]), std::stoi(match[2])),
              entry.path().filename().string());
  }
  EXPECT_EQ(trees, 2);
}

TEST(Arch, OtherNumberOfMultiprocessorsIsOneWarning) {
  EXPECT_EQ(sm_count_warning(hardware("sm_90a"), 132), "");
  EXPECT_THAT(sm_count_warning(hardware("sm_90a"), 114),
              HasSubstr("the device has 114 multiprocessors, kernels/h/HARDWARE.toml says 132"));
}

}  // namespace
}  // namespace met::kernels
