// Every checkpoint of the supported families against the reference's logits and greedy texts, and against
// itself: whole, chunked, batched with others and continued from the cache give the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/golden/fp8_mixture.h"
#include "tests/golden/mixed_checkpoint.h"
#include "tests/golden/support.h"

namespace met::golden {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> golden_names() {
  const std::vector<std::string> families = {
      "gemma3-a",        "gemma3-b",          "llama-a",          "llama-b",         "llama-c",
      "mistral-a",       "mistral-b",         "qwen2-a",          "qwen2-b",         "qwen3-a",
      "qwen3-b",         "qwen3-c",           "smollm3-a",        "smollm3-b",       "llama-fp8-tensor",
      "llama-fp8-block", "llama-fp8-channel", "qwen3-fp8-tensor", "qwen3-fp8-block", "qwen3-fp8-channel",
      "qwen3_moe-a",     "qwen3_moe-b"};
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_root())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("gguf-") || std::ranges::find(families, name) != families.end())
      names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

config::Settings host_settings(const std::string& name, const std::string& activations) {
  config::Settings settings;
  settings.model = checkpoint_path(name);
  settings.device = "cpu";
  settings.cpu_activations = activations;
  settings.threads = 2;
  settings.max_seq_len = 512;
  settings.max_batch_size = 8;
  settings.max_prefill_tokens = 1024;
  settings.kv_cache_gb = 0.25;
  return settings;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, FloatActivationsMeetTheReference) {
  TestModel model(host_settings(GetParam(), "f32"));
  int sequence = 0;
  for (const Prompt& prompt : read_prompts(GetParam())) {
    const auto logits = model.step({{.sequence = ++sequence, .ids = prompt.ids}});
    EXPECT_LE(max_error(logits[0], prompt.last_logits), 1e-3) << prompt.ids.size() << " tokens";
    std::vector<float> now = logits[0];
    for (std::size_t i = 0; i < prompt.greedy.size(); ++i) {
      ASSERT_EQ(argmax(now), prompt.greedy[i]) << "step " << i << ", margin " << prompt.margins[i];
      now = model.step({{.sequence = sequence, .ids = {prompt.greedy[i]}}})[0];
    }
  }
}

TEST_P(Golden, IntegerActivationsStayInsideTheirNoise) {
  TestModel model(host_settings(GetParam(), "int8"));
  int sequence = 0;
  for (const Prompt& prompt : read_prompts(GetParam())) {
    std::vector<float> now = model.step({{.sequence = ++sequence, .ids = prompt.ids}})[0];
    EXPECT_LE(relative_rms(now, prompt.last_logits), 0.06) << prompt.ids.size() << " tokens";
    const double noise = max_error(now, prompt.last_logits);
    for (std::size_t i = 0; i < prompt.greedy.size(); ++i) {
      if (prompt.margins[i] >= 2 * noise) {
        ASSERT_EQ(argmax(now), prompt.greedy[i])
            << "step " << i << ", margin " << prompt.margins[i] << ", noise " << noise;
      }
      now = model.step({{.sequence = sequence, .ids = {prompt.greedy[i]}}})[0];
    }
  }
}

TEST_P(Golden, ChunksBatchesAndCachedPrefixesGiveTheSameBits) {
  TestModel model(host_settings(GetParam(), "int8"));
  std::vector<Prompt> prompts = read_prompts(GetParam());
  int sequence = 0;
  for (const Prompt& prompt : prompts) {
    const auto whole = model.step({{.sequence = ++sequence, .ids = prompt.ids}})[0];
    const int first = sequence;
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{64}}) {
      const std::vector<float> last = model.step_in_chunks(++sequence, prompt.ids, chunk);
      ASSERT_EQ(last, whole) << "chunks of " << chunk;
    }
    if (const std::size_t cached = (prompt.ids.size() - 1) / 16 * 16; cached > 0) {
      model->share(first, ++sequence, static_cast<std::int64_t>(cached));
      const Ids rest(prompt.ids.begin() + static_cast<std::ptrdiff_t>(cached), prompt.ids.end());
      ASSERT_EQ(model.step({{.sequence = sequence, .ids = rest}})[0], whole) << "continued from " << cached;
    }
    std::vector<TestModel::Feed> batch;
    for (const Prompt& other : prompts) batch.push_back({.sequence = ++sequence, .ids = other.ids});
    batch.push_back({.sequence = ++sequence, .ids = prompt.ids});
    ASSERT_EQ(model.step(batch).back(), whole) << "batched";
  }
}

/// The greatest error that the reference sees in the last logits of all prompts, under a cache. `folder`: of another checkpoint
/// that means the same.
double cache_error(const std::string& name, const std::string& type, const std::string& wide,
                   const std::string& folder = {}) {
  config::Settings settings = host_settings(name, "f32");
  if (!folder.empty()) settings.model = folder;
  settings.kv_cache_dtype = type;
  settings.kv_high_precision_layers = wide;
  TestModel model(settings);
  double worst = 0;
  int sequence = 0;
  for (const Prompt& prompt : read_prompts(name)) {
    ++sequence;
    Ids text = prompt.ids;  // the last token reads what the others left in the cache
    const std::int32_t last = text.back();
    text.pop_back();
    if (!text.empty()) model.step({{.sequence = sequence, .ids = text}});
    const auto logits = model.step({{.sequence = sequence, .ids = {last}}})[0];
    worst = std::max(worst, relative_rms(logits, prompt.last_logits));
  }
  return worst;
}

TEST(GoldenCache, LayersInBf16AreNearerToTheReferenceThanTheOthers) {  // M8
  for (const std::string name : {"gemma3-b", "smollm3-a"}) {           // 3 and 4 layers
    const double bf16 = cache_error(name, "bf16", "0");
    for (const std::string type : {"fp8", "int8"}) {
      const double none = cache_error(name, type, "0");
      const double ends = cache_error(name, type, "1");
      EXPECT_EQ(cache_error(name, type, "max"), bf16) << name << ' ' << type;
      EXPECT_LT(ends, none) << name << ' ' << type;
      EXPECT_LT(bf16, ends) << name << ' ' << type;
      EXPECT_LT(none, type == "fp8" ? 0.1 : 0.05) << name << ' ' << type;
    }
  }
}

TEST(GoldenCache, AnFp8CacheIsScaledAsTheCheckpointSays) {  // M8
  const std::string name = "llama-fp8-tensor";
  if (!fs::exists(golden_root() / name)) GTEST_SKIP() << "no golden " << name;
  const double plain = cache_error(name, "fp8", "0");
  for (const ops::KvScales scales : {ops::KvScales{0x1p-14F, 0x1p-13F}, ops::KvScales{0x1p12F, 0x1p13F}}) {
    const ScaledCacheCheckpoint told(name, scales, true);
    const ScaledCacheCheckpoint untold(name, scales, false);
    EXPECT_NEAR(cache_error(name, "f32", "0", told.folder()), cache_error(name, "f32", "0"), 1e-5);
    EXPECT_NEAR(cache_error(name, "fp8", "0", told.folder()), plain, 1e-5) << "powers of two round alike";
    EXPECT_GT(cache_error(name, "fp8", "0", untold.folder()), 3 * plain) << "numbers beyond what E4M3 holds";
  }
}

TEST(GoldenMixed, FloatsBesideFp8MeetTheReference) {
  const MixedCheckpoint mixed("llama-fp8-block", kFloatsBesideFp8);
  config::Settings settings = host_settings("llama-fp8-block", "f32");
  settings.model = mixed.folder();
  TestModel model(settings);
  int sequence = 0;
  for (const Prompt& prompt : read_prompts("llama-fp8-block"))
    EXPECT_LE(max_error(model.step({{.sequence = ++sequence, .ids = prompt.ids}})[0], prompt.last_logits),
              1e-3)
        << prompt.ids.size() << " tokens";
}

// The reference of the same test on a CUDA device: what is stored as FP8 means what its floats mean.
TEST(GoldenMixed, Fp8MixturesMeetTheirFloats) {
  if (!fs::exists(golden_root() / "qwen3_moe-a")) GTEST_SKIP() << "no golden qwen3_moe-a";
  const Ids ids = {11, 50, 93, 130, 7, 255, 301, 18};
  for (const auto granularity : kGranularities) {
    const Fp8Mixture mixture(granularity);
    config::Settings settings = host_settings("qwen3_moe-a", "f32");
    settings.model = mixture.floats();
    const std::vector<float> floats = TestModel(settings).step({{.sequence = 1, .ids = ids}})[0];
    settings.model = mixture.fp8();
    const std::vector<float> fp8 = TestModel(settings).step({{.sequence = 1, .ids = ids}})[0];
    EXPECT_LE(max_error(fp8, {floats.begin(), floats.end()}), 1e-3) << static_cast<int>(granularity);
  }
}

// The CUDA recipes do not read these: refused before a device is looked for.
TEST(GoldenDevices, WhatCudaDoesNotServeIsRefusedInOneSentence) {
  if (!fs::exists(golden_root() / "gguf-llama-Q8_0")) GTEST_SKIP() << "no golden gguf-llama-Q8_0";
  config::Settings settings = host_settings("gguf-llama-Q8_0", "int8");
  settings.device = "cuda";
  settings.cpu_activations = "auto";
  const auto refused = engine::dry_run(settings);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "--device");
  EXPECT_THAT(refused.error().message, testing::HasSubstr("--device cpu"));
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(golden_names()), [](const auto& param) {
  std::string name = param.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace met::golden
