// Start-up resolution on tables made here.
#include "kernels/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace met::kernels {
namespace {

using testing::HasSubstr;

constexpr Hardware kCpu{"cpu", "cpu", "x86-64", 0, {}};
constexpr Hardware kHopper{"hopper", "nvidia", "sm_90a", 132, {}};
constexpr ModelType kFamily[] = {{"llama", 0}};
constexpr ModelType k576[] = {{"llama", 576}};
constexpr ModelType kQwen[] = {{"qwen3", 0}, {"qwen3_moe", 0}};
constexpr Dim kDims[] = {{"hidden", 576}, {"layers", 30}};
constexpr std::string_view kSmol[] = {"SmolLM2-135M"};
constexpr std::string_view kTuned[] = {"tuned"};

Target target(const Hardware& hardware, std::string_view model, std::string_view quant,
              std::span<const ModelType> types, std::span<const std::string_view> names = {},
              std::span<const Dim> dims = {}) {
  Target out{};
  out.hardware = &hardware;
  out.model = model;
  out.quant = quant;
  out.model_types = types;
  out.match_names = names;
  out.dims = dims;
  return out;
}

const std::array kTargets{
    target(kCpu, "llama", "bf16", kFamily),
    target(kCpu, "llama", "gguf", kFamily),
    target(kCpu, "qwen3", "gguf", kQwen),
    target(kCpu, "smol", "gguf", k576, kSmol, kDims),
    target(kHopper, "llama", "bf16", kFamily),
    target(kHopper, "llama", "nvfp4", kFamily),
    target(kHopper, "tuned", "nvfp4", k576, kTuned),
};

struct Case {
  const char* what;
  Request request;
  const char* want;  // full name, or part of the error
};

class Resolve : public testing::TestWithParam<Case> {};

TEST_P(Resolve, PicksOneTargetOrSaysWhyNot) {
  const auto got = resolve(kTargets, GetParam().request);
  if (got)
    EXPECT_EQ(full_name(**got), GetParam().want);
  else
    EXPECT_THAT(got.error().field + ": " + got.error().message, HasSubstr(GetParam().want));
}

constexpr Dim kOtherDims[] = {{"layers", 12}};

INSTANTIATE_TEST_SUITE_P(
    Rules, Resolve,
    testing::Values(
        Case{"exact beats family",
             {.hardware = "cpu", .model_type = "llama", .hidden_size = 576, .storage = Storage::kGguf},
             "cpu/smol/gguf"},
        Case{"family serves every other size",
             {.hardware = "cpu", .model_type = "llama", .hidden_size = 64, .storage = Storage::kGguf},
             "cpu/llama/gguf"},
        Case{"an exact target of other sizes does not serve",
             {.hardware = "cpu",
              .model_type = "llama",
              .hidden_size = 576,
              .storage = Storage::kGguf,
              .dims = kOtherDims},
             "cpu/llama/gguf"},
        Case{"model type is normalised",
             {.hardware = "cpu", .model_type = "Qwen3-MoE", .hidden_size = 64, .storage = Storage::kGguf},
             "cpu/qwen3/gguf"},
        Case{"storage decides between quants",
             {.hardware = "cpu", .model_type = "llama", .hidden_size = 576, .storage = Storage::kFp16},
             "cpu/llama/bf16"},
        Case{"exact beats the nearer quant",
             {.hardware = "hopper", .model_type = "llama", .hidden_size = 576},
             "hopper/tuned/nvfp4"},
        Case{"the device's hardware comes first",
             {.hardware = "hopper", .model_type = "llama", .hidden_size = 64},
             "hopper/llama/bf16"},
        Case{"nvfp4 serves fp8",
             {.hardware = "hopper", .model_type = "llama", .hidden_size = 64, .storage = Storage::kFp8},
             "hopper/llama/nvfp4"},
        Case{"a pin takes the family",
             {.hardware = "cpu",
              .model_type = "llama",
              .hidden_size = 576,
              .storage = Storage::kGguf,
              .pinned = "llama"},
             "cpu/llama/gguf"},
        Case{
            "a pin by its full name",
            {.hardware = "hopper", .model_type = "llama", .hidden_size = 576, .pinned = "hopper/tuned/nvfp4"},
            "hopper/tuned/nvfp4"},
        Case{"a pin must be able to serve",
             {.hardware = "cpu",
              .model_type = "llama",
              .hidden_size = 576,
              .storage = Storage::kGguf,
              .pinned = "qwen3"},
             "--kernel-target: \"qwen3\" cannot serve this model; those that can: cpu/llama/gguf, "
             "cpu/smol/gguf"},
        Case{"a pin of another hardware",
             {.hardware = "cpu",
              .model_type = "llama",
              .hidden_size = 64,
              .storage = Storage::kGguf,
              .pinned = "hopper/llama/bf16"},
             "cannot serve this model"},
        Case{"no model type",
             {.hardware = "cpu", .model_type = "mamba", .hidden_size = 64},
             "model_type: no kernel target of this build serves model type mamba with hidden size 64 on cpu; "
             "there are: cpu/llama/bf16, cpu/llama/gguf"},
        Case{"no hardware",
             {.hardware = "gb10", .model_type = "llama", .hidden_size = 64},
             "on gb10; there are: "},
        Case{"storage that nothing reads",
             {.hardware = "cpu", .model_type = "llama", .hidden_size = 64, .storage = Storage::kNvfp4},
             "quantization: no kernel target for llama on cpu reads nvfp4 weights; there are: "
             "cpu/llama/bf16, cpu/llama/gguf"}),
    [](const auto& test) {
      std::string name = test.param.what;
      std::ranges::replace_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
      return name;
    });

TEST(Resolve, TieIsBrokenByNamesInAnyCaseAndIsAnErrorOtherwise) {
  constexpr std::string_view kBase[] = {"-base", "pretrained"};
  constexpr std::string_view kChat[] = {"Instruct"};
  const std::array rivals{target(kCpu, "base", "gguf", k576, kBase),
                          target(kCpu, "chat", "gguf", k576, kChat)};
  const auto pick = [&](std::vector<std::string_view> names) -> std::string {
    const auto got = resolve(rivals, {.hardware = "cpu",
                                      .model_type = "llama",
                                      .hidden_size = 576,
                                      .storage = Storage::kGguf,
                                      .identities = names});
    return got ? std::string((*got)->model) : got.error().field + ": " + got.error().message;
  };
  EXPECT_EQ(pick({"org/Model-INSTRUCT", "/models/m"}), "chat");
  EXPECT_EQ(pick({"org/Model", "my-Base"}), "base");
  EXPECT_THAT(pick({"org/Model"}),
              HasSubstr("--kernel-target: several kernel targets serve this model and its names (org/Model) "
                        "do not decide between cpu/base/gguf, cpu/chat/gguf"));
  EXPECT_THAT(pick({"instruct-base"}), HasSubstr("do not decide"));
}

TEST(ResolveDeathTest, UnknownNameOfASizeIsADefect) {
  constexpr Dim kMisnamed[] = {{"hidden_size", 576}};
  EXPECT_DEATH(
      (void)resolve(kTargets,
                    {.hardware = "cpu", .model_type = "llama", .hidden_size = 576, .dims = kMisnamed}),
      "hidden_size");
}

TEST(Resolve, SkippedBuildSaysThatThereIsNothing) {
  const auto got = resolve({}, {.hardware = "cpu", .model_type = "llama", .hidden_size = 576});
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("there are: none"));
}

TEST(Pairs, AreTheStoragesThatAQuantReads) {
  const std::pair<std::string_view, std::vector<Storage>> rows[] = {
      {"gguf", {Storage::kGguf}},
      {"bf16", {Storage::kBf16, Storage::kFp16, Storage::kFp32}},
      {"fp8", {Storage::kFp8}},
      {"nvfp4", {Storage::kNvfp4, Storage::kFp8, Storage::kBf16}},
      {"mxfp4", {}}};
  for (const auto& [quant, storages] : rows)
    for (const Storage storage :
         {Storage::kBf16, Storage::kFp16, Storage::kFp32, Storage::kFp8, Storage::kNvfp4, Storage::kGguf})
      EXPECT_EQ(pairs(quant, storage), std::ranges::find(storages, storage) != storages.end())
          << quant << " " << name(storage);
}

}  // namespace
}  // namespace met::kernels
