#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "config/read_model_config.h"
#include "tests/formats/gguf_builder.h"

namespace met::config {
namespace {

using met::testing::as_bytes;
using met::testing::Bytes;
using met::testing::GgufBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Sizes {
  std::uint32_t layers = 8;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t hidden = 64;
};

GgufBuilder model(const std::string& arch, const Sizes& s = {}) {
  GgufBuilder b;
  b.string("general.architecture", arch).string("general.name", "tiny");
  b.u32(arch + ".context_length", 512)
      .u32(arch + ".embedding_length", s.hidden)
      .u32(arch + ".block_count", s.layers);
  b.u32(arch + ".feed_forward_length", 128).u32(arch + ".attention.head_count", s.heads);
  b.u32(arch + ".attention.head_count_kv", s.kv_heads).f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5F);
  b.u32(arch + ".vocab_size", 16);
  return b;
}

Result<ModelConfig> read(const GgufBuilder& b) {
  const std::string bytes = b.build();
  const auto file = formats::GgufFile::parse(as_bytes(bytes));
  EXPECT_TRUE(file.has_value()) << file.error().message;
  return model_config_from_gguf(*file);
}

TEST(ModelConfigGguf, PairsAreInterleavedWhereTheConverterPermutes) {
  for (const auto& [arch, type, interleaved] :
       {std::tuple("llama", "llama", true), std::tuple("smollm3", "smollm3", true),
        std::tuple("qwen2", "qwen2", false), std::tuple("qwen3", "qwen3", false),
        std::tuple("gemma3", "gemma3_text", false)}) {
    const auto m = read(model(arch));
    ASSERT_TRUE(m.has_value()) << m.error().message;
    EXPECT_EQ(m->model_type, type);
    EXPECT_EQ(m->rope.interleaved, interleaved) << arch;
    EXPECT_EQ(m->norm_offset, 0) << arch;
    EXPECT_EQ(m->norm_eps, 1e-5) << arch;  // the decimal, not the nearest float
    EXPECT_EQ(m->name, "tiny");
    EXPECT_EQ(m->head_dim, 16);
    EXPECT_TRUE(m->gguf && m->tied_head);
  }
}

TEST(ModelConfigGguf, LayersWithARouterAreSparse) {
  const auto m = read(model("qwen3moe")
                          .u32("qwen3moe.expert_count", 8)
                          .u32("qwen3moe.expert_used_count", 2)
                          .u32("qwen3moe.expert_feed_forward_length", 32)
                          .tensor("blk.2.ffn_gate_inp.weight", {1}, 24, "x"));
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->model_type, "qwen3_moe");
  EXPECT_EQ(m->experts, 8);
  EXPECT_EQ(m->experts_per_token, 2);
  EXPECT_EQ(m->expert_ffn, 32);
  EXPECT_TRUE(m->renormalise_experts && m->qk_norm && !m->rope.interleaved);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(m->layer[i].sparse, i == 2);
}

TEST(ModelConfigGguf, Gemma3PatternLocalRopeAndScale) {
  const auto m =
      read(model("gemma3").u32("gemma3.attention.sliding_window", 32).f32("gemma3.rope.freq_base", 1e6F));
  ASSERT_TRUE(m.has_value()) << m.error().message;
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(m->layer[i].window, i == 5 ? 0 : 32);
    EXPECT_EQ(m->layer[i].local_rope, i != 5);
  }
  EXPECT_EQ(m->rope.theta, 1e6);
  EXPECT_EQ(m->rope_local.theta, 1e4);
  EXPECT_EQ(m->attention_scale, 0.25);
  EXPECT_EQ(m->embedding_scale, 8);
  EXPECT_TRUE(m->qk_norm && m->post_norms);
  EXPECT_EQ(m->activation, Activation::kGeluTanh);
  const auto local =
      read(model("gemma3").u32("gemma3.attention.sliding_window", 32).f32("gemma3.rope.freq_base_swa", 5e4F));
  EXPECT_EQ(local->rope_local.theta, 5e4);
  // 27B: 62 layers, the query scale is of hidden / heads.
  const auto big =
      read(model("gemma3", {.layers = 62, .heads = 4, .hidden = 64}).u32("gemma3.attention.key_length", 32));
  EXPECT_EQ(big->attention_scale, 0.25);
  const auto none = read(model("gemma3"));
  EXPECT_EQ(none->layer[0].window, 0);
  EXPECT_FALSE(none->layer[0].local_rope);
}

TEST(ModelConfigGguf, WindowPatternOfTheFile) {
  const std::string flags =
      Bytes().put<std::uint32_t>(7).put<std::uint64_t>(8).raw(std::string_view("\1\0\0\1\0\0\0\1", 8)).str();
  const auto m = read(model("gemma3")
                          .u32("gemma3.attention.sliding_window", 9)
                          .kv("gemma3.attention.sliding_window_pattern", 9, flags));
  ASSERT_TRUE(m.has_value()) << m.error().message;
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(m->layer[i].window, i % 3 == 0 && i != 6 ? 9 : i == 7 ? 9 : 0) << i;
  const auto period = read(model("gemma3")
                               .u32("gemma3.attention.sliding_window", 9)
                               .u32("gemma3.attention.sliding_window_pattern", 2));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(period->layer[i].window, i % 2 == 0 ? 9 : 0) << i;
}

TEST(ModelConfigGguf, SmolLm3LeavesEveryFourthLayerWithoutRotation) {
  const auto m = read(model("smollm3"));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(m->layer[i].rope, i % 4 != 3) << i;
}

TEST(ModelConfigGguf, TensorsDecideHeadAndBiases) {
  GgufBuilder b = model("qwen2");
  b.tensor_f32("token_embd.weight", {64, 3}, std::vector<float>(192))
      .tensor_f32("output.weight", {64, 3}, std::vector<float>(192));
  b.tensor_f32("blk.0.attn_q.bias", {64}, std::vector<float>(64));
  const auto m = read(b);
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_FALSE(m->tied_head);
  EXPECT_TRUE(m->attention_bias);
  EXPECT_FALSE(m->attention_out_bias);
  EXPECT_EQ(m->vocabulary, 3);  // the table, not the key
}

TEST(ModelConfigGguf, RopeScalingAndFactors) {
  const auto linear =
      read(model("llama").string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2));
  EXPECT_EQ(linear->rope.kind, RopeKind::kLinear);
  EXPECT_EQ(linear->rope.factor, 2);
  const auto yarn = read(model("qwen2")
                             .string("qwen2.rope.scaling.type", "yarn")
                             .f32("qwen2.rope.scaling.factor", 4)
                             .u32("qwen2.rope.scaling.original_context_length", 128));
  EXPECT_EQ(yarn->rope.kind, RopeKind::kYarn);
  EXPECT_EQ(yarn->rope.original_max_positions, 128);
  EXPECT_EQ(yarn->rope.attention_factor, 0);
  const auto scaled = read(model("qwen2")
                               .string("qwen2.rope.scaling.type", "yarn")
                               .f32("qwen2.rope.scaling.factor", 4)
                               .f32("qwen2.rope.scaling.attn_factor", 0.5F));
  EXPECT_DOUBLE_EQ(scaled->rope.attention_factor, 0.5 * (1 + 0.1 * std::log(4.0)));
  EXPECT_EQ(read(model("llama").string("llama.rope.scaling.type", "none"))->rope.kind, RopeKind::kPlain);
  const auto factors = read(model("llama").tensor_f32("rope_freqs.weight", {8}, {1, 1, 2, 4, 8, 8, 8, 8}));
  ASSERT_TRUE(factors.has_value()) << factors.error().message;
  EXPECT_THAT(factors->rope.freq_factors, ElementsAre(1, 1, 2, 4, 8, 8, 8, 8));
  EXPECT_EQ(read(model("llama").u32("llama.rope.dimension_count", 8))->rope.partial_factor, 0.5);
}

TEST(ModelConfigGguf, EndIdsOfMetadataAndOfKnownControlTokens) {
  GgufBuilder b = model("llama");
  b.strings("tokenizer.ggml.tokens", {"<s>", "</s>", "a", "<|im_end|>", "<|eot_id|>", "<end_of_turn>"});
  b.i32s("tokenizer.ggml.token_type", {3, 3, 1, 3, 1, 4});  // <|eot_id|> is an ordinary token here
  b.u32("tokenizer.ggml.eos_token_id", 1)
      .u32("tokenizer.ggml.bos_token_id", 0)
      .u32("tokenizer.ggml.padding_token_id", ~0U);
  const auto m = read(b);
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_THAT(m->eos_ids, ElementsAre(1, 3, 5));
  EXPECT_EQ(m->bos_id, 0);
  EXPECT_EQ(m->pad_id, std::nullopt);
  EXPECT_EQ(m->raw.find("tokenizer.ggml.tokens"), nullptr);
  EXPECT_EQ(m->raw.find("general.name")->as_string(), "tiny");
}

TEST(ModelConfigGguf, InHarmonyTheEndOfAMessageIsNotThatOfATurn) {
  const auto end_ids = [](std::vector<std::string> tokens) {
    GgufBuilder b = model("llama");
    const std::vector<std::int32_t> types(tokens.size(), 3);
    b.strings("tokenizer.ggml.tokens", std::move(tokens)).i32s("tokenizer.ggml.token_type", types);
    const auto m = read(b);
    return m ? m->eos_ids : std::vector<std::int32_t>{-1};
  };
  EXPECT_THAT(end_ids({"<|start|>", "<|end|>", "<|return|>", "<|call|>", "<|channel|>"}), ElementsAre(2, 3));
  EXPECT_THAT(end_ids({"<|user|>", "<|end|>", "<|assistant|>"}), ElementsAre(1)) << "Phi";
}

TEST(ModelConfigGguf, SizesGivenForEachLayerMustAgree) {
  const auto per_layer = [](std::vector<std::int32_t> v) {
    GgufBuilder b;
    b.string("general.architecture", "llama")
        .u32("llama.context_length", 512)
        .u32("llama.embedding_length", 64);
    b.u32("llama.block_count", 2).i32s("llama.feed_forward_length", v).u32("llama.attention.head_count", 4);
    b.f32("llama.attention.layer_norm_rms_epsilon", 1e-5F).u32("llama.vocab_size", 16);
    return read(b);
  };
  EXPECT_EQ(per_layer({128, 128})->ffn, 128);
  EXPECT_EQ(per_layer({128, 64}).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(per_layer({}).error().field, "llama.feed_forward_length");
}

struct Refused {
  const char* what;
  std::function<GgufBuilder()> file;
  ErrorCode code;
  const char* field;
  const char* message;
};
constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr auto kUnsupported = ErrorCode::kUnsupported;
const Refused kRefused[] = {
    {"no architecture", [] { return GgufBuilder().u32("x", 1); }, kInvalid, "general.architecture",
     "is missing"},
    {"architecture of another kind", [] { return GgufBuilder().u32("general.architecture", 1); },
     ErrorCode::kDataLoss, "general.architecture", "a string is needed"},
    {"unknown architecture", [] { return model("mamba"); }, kUnsupported, "general.architecture",
     "\"mamba\" is not supported; supported: gemma3, llama, qwen2, qwen3, qwen3moe, smollm3"},
    {"a part", [] { return model("llama").kv("split.count", 2, Bytes().put<std::uint16_t>(3).str()); },
     kUnsupported, "split.count", "one of 3 parts"},
    {"no sizes", [] { return GgufBuilder().string("general.architecture", "llama"); }, kInvalid,
     "llama.embedding_length", "is missing"},
    {"too many layers", [] { return model("llama", {.layers = 100'000}); }, kInvalid, "llama.block_count",
     "from 1 to 1024"},
    {"no layers", [] { return model("llama", {.layers = 0}); }, kInvalid, "llama.block_count",
     "llama.block_count is 0"},
    {"no heads", [] { return model("llama", {.heads = 0}); }, kInvalid, "llama.attention.head_count",
     "from 1"},
    {"heads", [] { return model("llama", {.kv_heads = 3}); }, kInvalid, "llama.attention.head_count_kv",
     "no multiple"},
    {"head size of 0", [] { return model("llama", {.heads = 128, .kv_heads = 2}); }, kInvalid,
     "llama.attention.key_length", "is 0"},
    {"no experts", [] { return model("qwen3moe"); }, kInvalid, "qwen3moe.expert_count", "is missing"},
    {"more experts than there are",
     [] { return model("qwen3moe").u32("qwen3moe.expert_count", 8).u32("qwen3moe.expert_used_count", 9); },
     kInvalid, "qwen3moe.expert_used_count", "from 1 to 8"},
    {"experts", [] { return model("llama").u32("llama.expert_count", 8); }, kUnsupported,
     "llama.expert_count", "experts"},
    {"value length", [] { return model("llama").u32("llama.attention.value_length", 8); }, kUnsupported,
     "llama.attention.value_length", "differs"},
    {"rotary size", [] { return model("llama").u32("llama.rope.dimension_count", 32); }, kInvalid,
     "llama.rope.dimension_count", "from 2 to 16"},
    {"odd rotary size", [] { return model("llama").u32("llama.rope.dimension_count", 7); }, kInvalid,
     "llama.rope.dimension_count", "odd"},
    {"theta", [] { return model("llama").f32("llama.rope.freq_base", 0); }, kInvalid, "llama.rope.freq_base",
     "above 0"},
    {"theta not finite",
     [] { return model("llama").f32("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN()); },
     kInvalid, "llama.rope.freq_base", "not finite"},
    {"scaling type", [] { return model("llama").string("llama.rope.scaling.type", "spiral"); }, kUnsupported,
     "llama.rope.scaling.type", "supported: none, linear, yarn"},
    {"freq factors of another size",
     [] { return model("llama").tensor_f32("rope_freqs.weight", {4}, {1, 1, 1, 1}); }, kInvalid,
     "rope_freqs.weight", "8 values of F32"},
    {"freq factor 0",
     [] { return model("llama").tensor_f32("rope_freqs.weight", {8}, {1, 1, 1, 1, 1, 1, 1, 0}); }, kInvalid,
     "rope_freqs.weight", "no number above 0"},
    {"embedding of another width",
     [] { return model("llama").tensor_f32("token_embd.weight", {32, 4}, std::vector<float>(128)); },
     kInvalid, "token_embd.weight", "[vocabulary, 64]"},
    {"end id outside", [] { return model("llama").u32("tokenizer.ggml.eos_token_id", 16); }, kInvalid,
     "tokenizer.ggml.eos_token_id", "from 0 to 15"},
    {"tokens of another kind", [] { return model("llama").i32s("tokenizer.ggml.tokens", {1}); },
     ErrorCode::kDataLoss, "tokenizer.ggml.tokens", "array of strings"},
    {"window flags of another size",
     [] {
       return model("gemma3")
           .u32("gemma3.attention.sliding_window", 4)
           .i32s("gemma3.attention.sliding_window_pattern", {1, 0});
     },
     kInvalid, "gemma3.attention.sliding_window_pattern", "one bool for each of the 8 layers"},
};

TEST(ModelConfigGguf, RefusalsNameTheKey) {
  for (const Refused& r : kRefused) {
    const auto m = read(r.file());
    ASSERT_FALSE(m.has_value()) << r.what;
    EXPECT_EQ(name(m.error().code), name(r.code)) << r.what << ": " << m.error().message;
    EXPECT_EQ(m.error().field, r.field) << r.what << ": " << m.error().message;
    EXPECT_THAT(m.error().message, HasSubstr(r.message)) << r.what;
  }
}

}  // namespace
}  // namespace met::config
