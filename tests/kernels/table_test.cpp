// The table that this build generated.
#include <gtest/gtest.h>

#include "core/json.h"
#include "kernels/isa.h"
#include "kernels/lookup.h"
#include "kernels/resolve.h"

namespace met::kernels {
namespace {

TEST(Table, ServesSmolLm2ExactlyAndOtherLlamasByFamily) {
  if (targets().empty()) GTEST_SKIP() << "this build skipped its kernels";
  for (const auto& [hidden, storage, want] :
       {std::tuple(576, Storage::kGguf, "cpu/smollm2-135m/gguf"),
        std::tuple(576, Storage::kBf16, "cpu/llama/bf16"), std::tuple(2048, Storage::kGguf, "cpu/llama/gguf"),
        std::tuple(64, Storage::kFp32, "cpu/llama/bf16")}) {
    const auto target = resolve(
        targets(), {.hardware = "cpu", .model_type = "llama", .hidden_size = hidden, .storage = storage});
    ASSERT_TRUE(target) << target.error().message;
    EXPECT_EQ(full_name(**target), want);
  }
}

TEST(Table, EveryCpuFunctionHasAVersionForTheWeakestProcessor) {
  for (const Target& target : targets()) {
    if (target.hardware->vendor != "cpu") continue;
    EXPECT_FALSE(target.modules.empty()) << full_name(target);
    for (const Module& module : target.modules)
      for (const CpuFunction& function : module.functions)
        EXPECT_NE(find_cpu_kernel(target, module.name, function.name, CpuIsa::kGeneric), nullptr)
            << full_name(target) << " " << module.name << "." << function.name;
  }
}

TEST(Table, DefaultsAreBakedInPerHardware) {
  const Hardware* cpu = find_hardware("cpu");
  ASSERT_NE(cpu, nullptr);
  EXPECT_EQ(default_of(*cpu, "block_size"), "16");
  EXPECT_EQ(default_of(*cpu, "nothing"), "");
  EXPECT_EQ(cpu->arch, targets().empty() ? "" : cpu_arch());
}

TEST(Table, ClosuresNameEveryTargetWithWhatItWasMadeOf) {
  const auto parsed = json::parse(closures_json(targets()));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->as_object().size(), targets().size());
  for (const auto& [name, row] : parsed->as_object()) {
    EXPECT_EQ(row.find("hash")->as_string().size(), 64U) << name;
    EXPECT_FALSE(row.find("compiler")->as_string().empty()) << name;
  }
  Target scale{};
  EXPECT_EQ(closures_json({&scale, 1}), "{}");
}

}  // namespace
}  // namespace met::kernels
