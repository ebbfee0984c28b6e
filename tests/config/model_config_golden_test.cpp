// The configurations of the golden checkpoints, and that a GGUF file and its reference config.json agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numbers>

#include "config/read_model_config.h"

namespace met::config {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

const fs::path kGoldens = fs::path(MET_SOURCE_DIR) / "../shared/goldens";

json::Value read(const fs::path& path) {
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  auto value = json::parse(text);
  EXPECT_TRUE(value.has_value()) << path;
  return value.value_or(json::Value());
}

// Inverse frequencies by the formulas of transformers' modeling_rope_utils, in FP64.
std::vector<double> inverse_frequencies(const RopeConfig& rope, int head_dim) {
  std::vector<double> out;
  const int rotary = static_cast<int>(head_dim * rope.partial_factor);
  for (int i = 0; i < rotary / 2; ++i) {
    double f = std::pow(rope.theta, -2.0 * i / rotary);
    if (rope.kind == RopeKind::kLinear) f /= rope.factor;
    if (rope.kind == RopeKind::kLlama3) {
      const double wave = 2 * std::numbers::pi / f;
      const double smooth = (rope.original_max_positions / wave - rope.low_freq_factor) /
                            (rope.high_freq_factor - rope.low_freq_factor);
      if (wave > rope.original_max_positions / rope.low_freq_factor) {
        f /= rope.factor;
      } else if (wave > rope.original_max_positions / rope.high_freq_factor) {
        f = (1 - smooth) * f / rope.factor + smooth * f;
      }
    }
    if (!rope.freq_factors.empty()) f /= static_cast<double>(rope.freq_factors[static_cast<std::size_t>(i)]);
    out.push_back(f);
  }
  return out;
}

void expect_same_rope(const RopeConfig& a, const RopeConfig& b, int head_dim) {
  const auto fa = inverse_frequencies(a, head_dim);
  const auto fb = inverse_frequencies(b, head_dim);
  ASSERT_EQ(fa.size(), fb.size());
  for (std::size_t i = 0; i < fa.size(); ++i) EXPECT_NEAR(fa[i] / fb[i], 1, 1e-6) << i;
}

void expect_same_model(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.model_type, b.model_type);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.ffn, b.ffn);
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(a.max_positions, b.max_positions);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.tied_head, b.tied_head);
  EXPECT_EQ(a.attention_bias, b.attention_bias);
  EXPECT_EQ(a.attention_out_bias, b.attention_out_bias);
  EXPECT_EQ(a.mlp_bias, b.mlp_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.post_norms, b.post_norms);
  EXPECT_EQ(a.embedding_scale, b.embedding_scale);
  const auto scale = [](const ModelConfig& m) {
    return m.attention_scale == 0 ? 1 / std::sqrt(static_cast<double>(m.head_dim)) : m.attention_scale;
  };
  EXPECT_DOUBLE_EQ(scale(a), scale(b));
  EXPECT_EQ(a.attention_softcap, b.attention_softcap);
  EXPECT_EQ(a.logit_softcap, b.logit_softcap);
  expect_same_rope(a.rope, b.rope, a.head_dim);
  expect_same_rope(a.rope_local, b.rope_local, a.head_dim);
  ASSERT_EQ(a.layer.size(), b.layer.size());
  for (std::size_t i = 0; i < a.layer.size(); ++i) {
    EXPECT_EQ(a.layer[i].window, b.layer[i].window) << i;
    EXPECT_EQ(a.layer[i].rope, b.layer[i].rope) << i;
    EXPECT_EQ(a.layer[i].local_rope, b.layer[i].local_rope) << i;
  }
  EXPECT_EQ(a.eos_ids, b.eos_ids);
  EXPECT_EQ(a.pad_id, b.pad_id);
}

TEST(ModelConfigGolden, GgufFilesEqualTheirReferenceConfig) {
  if (!fs::exists(kGoldens)) GTEST_SKIP() << "no shared goldens";
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kGoldens)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("gguf-")) continue;
    SCOPED_TRACE(name);
    const auto file = formats::GgufFile::open((entry.path() / "model.gguf").string());
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const auto gguf = model_config_from_gguf(*file);
    ASSERT_TRUE(gguf.has_value()) << gguf.error().message;
    const auto json = model_config_from_json(read(entry.path() / "reference_config.json"));
    ASSERT_TRUE(json.has_value()) << json.error().message;
    expect_same_model(*gguf, *json);
    EXPECT_TRUE(gguf->gguf);
    EXPECT_EQ(gguf->norm_offset, 0);
    EXPECT_EQ(json->norm_offset, json->model_type == "gemma3_text" ? 1 : 0);
    EXPECT_EQ(gguf->rope.interleaved, name.starts_with("gguf-llama"));
    ++files;
  }
  EXPECT_EQ(files, 48);
}

struct Expected {
  const char* folder;
  const char* type;
  int head_dim;
  std::vector<int> windows;
  std::vector<int> ropes;  // 0 none, 1 global, 2 local
  RopeKind kind;
  double theta;
  bool tied;
  DType dtype = DType::kBF16;
};
const Expected kExpected[] = {
    {"llama-a", "llama", 64, {0, 0}, {1, 1}, RopeKind::kLlama3, 1e4, false},
    {"llama-b", "llama", 16, {0, 0}, {1, 1}, RopeKind::kPlain, 5e5, true, DType::kF32},
    {"llama-c", "llama", 32, {0, 0}, {1, 1}, RopeKind::kLinear, 1e4, false},
    {"mistral-a", "mistral", 32, {32, 32}, {1, 1}, RopeKind::kPlain, 1e4, false},
    {"mistral-b", "mistral", 16, {0, 0}, {1, 1}, RopeKind::kPlain, 1e4, false},
    {"ministral3-a", "ministral3", 32, {0, 0}, {1, 1}, RopeKind::kYarn, 1e6, false},
    {"ministral3-b", "ministral3", 16, {0, 0}, {1, 1}, RopeKind::kYarn, 1e4, true},
    {"mistral3-a", "ministral3", 32, {0, 0}, {1, 1}, RopeKind::kYarn, 1e4, false},
    {"qwen2-a", "qwen2", 64, {0, 0}, {1, 1}, RopeKind::kPlain, 1e6, false},
    {"qwen2-b", "qwen2", 16, {0, 24}, {1, 1}, RopeKind::kPlain, 1e6, true},
    {"qwen3-a", "qwen3", 64, {0, 0}, {1, 1}, RopeKind::kPlain, 1e6, false},
    {"qwen3-b", "qwen3", 32, {0, 0}, {1, 1}, RopeKind::kYarn, 1e4, true, DType::kF32},
    {"qwen3-c", "qwen3", 128, {0, 0}, {1, 1}, RopeKind::kPlain, 1e6, false},
    {"gemma3-a",
     "gemma3_text",
     32,
     {16, 16, 16, 16, 16, 0},
     {2, 2, 2, 2, 2, 1},
     RopeKind::kLinear,
     1e6,
     true},
    {"gemma3-b", "gemma3_text", 64, {32, 0, 32}, {2, 1, 2}, RopeKind::kPlain, 1e6, true},
    {"gemma3_vision-a", "gemma3_text", 32, {24, 24, 0}, {2, 2, 1}, RopeKind::kLinear, 1e6, true},
    {"smollm3-a", "smollm3", 32, {0, 0, 0, 0}, {1, 1, 1, 0}, RopeKind::kPlain, 5e6, true},
    {"smollm3-b", "smollm3", 16, {0, 24, 0, 24}, {1, 0, 1, 0}, RopeKind::kPlain, 5e6, true},
};

TEST(ModelConfigGolden, DirectoriesGiveTheExpectedPattern) {
  if (!fs::exists(kGoldens)) GTEST_SKIP() << "no shared goldens";
  for (const Expected& e : kExpected) {
    SCOPED_TRACE(e.folder);
    const auto read = read_model_directory((kGoldens / e.folder).string());
    ASSERT_TRUE(read.has_value()) << read.error().message;
    const ModelConfig& m = read->model;
    EXPECT_EQ(m.model_type, e.type);
    EXPECT_EQ(m.name, e.folder);
    EXPECT_EQ(m.head_dim, e.head_dim);
    EXPECT_EQ(m.rope.kind, e.kind);
    EXPECT_EQ(m.rope.theta, e.theta);
    EXPECT_FALSE(m.rope.interleaved);
    EXPECT_EQ(m.tied_head, e.tied);
    EXPECT_EQ(m.weight_dtype, e.dtype);
    std::vector<int> windows;
    std::vector<int> ropes;
    for (const LayerConfig& layer : m.layer) {
      windows.push_back(layer.window);
      ropes.push_back(!layer.rope ? 0 : layer.local_rope ? 2 : 1);
    }
    EXPECT_EQ(windows, e.windows);
    EXPECT_EQ(ropes, e.ropes);
    EXPECT_THAT(m.eos_ids, ElementsAre(367, 365));
    EXPECT_EQ(m.pad_id, 365);
    EXPECT_EQ(m.bos_id, std::nullopt);
    EXPECT_EQ(read->generation.temperature, 0.7);
    EXPECT_EQ(read->generation.top_k, 20);
    EXPECT_EQ(read->generation.top_p, 0.95);
    EXPECT_EQ(read->generation.do_sample, true);
    EXPECT_EQ(read->generation.min_p, std::nullopt);
  }
}

TEST(ModelConfigGolden, MembersThatOneFamilyAloneHas) {
  if (!fs::exists(kGoldens)) GTEST_SKIP() << "no shared goldens";
  const auto model = [&](const char* folder) {
    return read_model_directory((kGoldens / folder).string())->model;
  };
  const ModelConfig llama = model("llama-a");
  EXPECT_EQ(llama.rope.factor, 8);
  EXPECT_EQ(llama.rope.original_max_positions, 64);
  EXPECT_TRUE(model("llama-b").attention_bias && model("llama-b").attention_out_bias &&
              model("llama-b").mlp_bias);
  EXPECT_TRUE(model("qwen2-a").attention_bias);
  EXPECT_FALSE(model("qwen2-a").attention_out_bias || model("qwen2-a").qk_norm);
  EXPECT_TRUE(model("qwen3-c").attention_out_bias && model("qwen3-c").qk_norm);
  EXPECT_EQ(model("qwen3-b").rope.factor, 4);
  EXPECT_EQ(model("ministral3-a").query_scale_beta, 0.1);
  EXPECT_EQ(model("ministral3-b").query_scale_beta, 0.2);
  EXPECT_EQ(model("ministral3-b").rope.beta_fast, 8);
  EXPECT_EQ(model("ministral3-b").rope.mscale, 1);
  const ModelConfig gemma = model("gemma3-a");
  EXPECT_DOUBLE_EQ(gemma.attention_scale, 1 / std::sqrt(24.0));
  EXPECT_EQ(gemma.embedding_scale, 8);
  EXPECT_EQ(gemma.norm_offset, 1);
  EXPECT_EQ(gemma.activation, Activation::kGeluTanh);
  EXPECT_EQ(gemma.rope.factor, 8);
  EXPECT_EQ(gemma.rope_local.kind, RopeKind::kPlain);
  EXPECT_EQ(gemma.rope_local.theta, 1e4);
}

TEST(ModelConfigGolden, QuantisedCheckpointsAreRefusedByMethod) {
  if (!fs::exists(kGoldens)) GTEST_SKIP() << "no shared goldens";
  for (const char* folder :
       {"llama-awq", "llama-gptq", "llama-nvfp4-ct", "llama-int8-w8a16", "llama-nvfp4-modelopt"}) {
    const auto read = read_model_directory((kGoldens / folder).string());
    ASSERT_FALSE(read.has_value()) << folder;
    EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(read.error().field, ::testing::StartsWith("quantization_config"));
  }
}

TEST(ModelConfigGolden, Fp8CheckpointsSayHowTheyAreScaled) {
  using Granularity = Fp8Weights::Granularity;
  if (!fs::exists(kGoldens)) GTEST_SKIP() << "no shared goldens";
  for (const auto& [folder, granularity, scales] :
       {std::tuple("llama-fp8-tensor", Granularity::kTensor, "weight_scale"),
        std::tuple("qwen3-fp8-channel", Granularity::kRow, "weight_scale"),
        std::tuple("qwen3-fp8-block", Granularity::kBlock, "weight_scale_inv")}) {
    const auto read = read_model_directory((kGoldens / folder).string());
    ASSERT_TRUE(read.has_value()) << read.error().message;
    ASSERT_TRUE(read->model.fp8.has_value()) << folder;
    EXPECT_EQ(read->model.fp8->granularity, granularity);
    EXPECT_EQ(read->model.fp8->scales, scales);
    EXPECT_THAT(read->model.fp8->excluded, ::testing::ElementsAre("lm_head"));
  }
}

TEST(ModelConfigGolden, OtherFamiliesAreRefusedWithTheListOfKnownOnes) {
  if (!fs::exists(kGoldens)) GTEST_SKIP() << "no shared goldens";
  for (const char* folder : {"deepseek_v3-a", "gpt_oss-a", "mamba2-a", "nllb-a", "phi3-a"}) {
    const auto read = read_model_directory((kGoldens / folder).string());
    ASSERT_FALSE(read.has_value()) << folder;
    EXPECT_EQ(read.error().field, "model_type") << read.error().message;
    EXPECT_THAT(read.error().message, ::testing::HasSubstr("supported: gemma3_text, llama"));
  }
}

}  // namespace
}  // namespace met::config
