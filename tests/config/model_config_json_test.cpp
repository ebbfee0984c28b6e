#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "config/environment.h"
#include "config/read_model_config.h"

namespace met::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ModelConfig> read(std::string_view text) {
  const auto value = json::parse(text);
  EXPECT_TRUE(value.has_value()) << text;
  return model_config_from_json(value.value_or(json::Value()));
}

constexpr std::string_view kBase =
    R"("hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,"intermediate_size":128,"vocab_size":384)";

Result<ModelConfig> with(std::string_view type, std::string_view more) {
  return read("{\"model_type\":\"" + std::string(type) + "\"," + std::string(kBase) +
              ",\"num_key_value_heads\":2,\"head_dim\":16" + (more.empty() ? "" : ",") + std::string(more) +
              "}");
}

std::vector<int> windows(const ModelConfig& m) {
  std::vector<int> out;
  for (const LayerConfig& layer : m.layer) out.push_back(layer.window);
  return out;
}
std::vector<bool> rotating(const ModelConfig& m) {
  std::vector<bool> out;
  for (const LayerConfig& layer : m.layer) out.push_back(layer.rope);
  return out;
}

TEST(ModelConfigJson, SparseNestedGemma3TakesTheReferenceDefaults) {
  const auto m = read(
      R"({"architectures":["Gemma3ForConditionalGeneration"],"eos_token_id":[1,106],"model_type":"gemma3",
    "text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text","num_hidden_layers":34,
    "rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024},"torch_dtype":"bfloat16",
    "vision_config":{"hidden_size":1152}})");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->model_type, "gemma3_text");
  EXPECT_EQ(m->hidden, 2560);
  EXPECT_EQ(m->heads, 8);
  EXPECT_EQ(m->kv_heads, 4);
  EXPECT_EQ(m->head_dim, 256);
  EXPECT_EQ(m->vocabulary, 262208);
  EXPECT_EQ(m->max_positions, 131072);
  EXPECT_EQ(m->rope.kind, RopeKind::kLinear);
  EXPECT_EQ(m->rope.factor, 8);
  EXPECT_EQ(m->rope.theta, 1e6);
  EXPECT_EQ(m->rope_local.theta, 1e4);
  EXPECT_EQ(m->rope_local.kind, RopeKind::kPlain);
  EXPECT_EQ(m->attention_scale, 1.0 / 16);
  EXPECT_TRUE(m->tied_head);
  EXPECT_THAT(m->eos_ids, ElementsAre(1, 106));
  for (int i = 0; i < 34; ++i) {
    EXPECT_EQ(m->layer[static_cast<std::size_t>(i)].window, (i + 1) % 6 == 0 ? 0 : 1024) << i;
    EXPECT_EQ(m->layer[static_cast<std::size_t>(i)].local_rope, (i + 1) % 6 != 0) << i;
  }
}

TEST(ModelConfigJson, OlderGemma3Keys) {
  const auto m =
      with("gemma3_text", R"("query_pre_attn_scalar":64,"rope_local_base_freq":20000.0,"rope_theta":500000,
    "sliding_window":512,"sliding_window_pattern":2,"hidden_activation":"gelu_pytorch_tanh","final_logit_softcapping":30.0)");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_THAT(windows(*m), ElementsAre(512, 0, 512, 0));
  EXPECT_EQ(m->rope.theta, 5e5);
  EXPECT_EQ(m->rope_local.theta, 2e4);
  EXPECT_EQ(m->attention_scale, 0.125);
  EXPECT_EQ(m->logit_softcap, 30);
}

TEST(ModelConfigJson, DefaultsOfLlama) {
  const auto m = read("{\"model_type\":\"llama\"," + std::string(kBase) + "}");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->kv_heads, 4);
  EXPECT_EQ(m->head_dim, 16);
  EXPECT_EQ(m->max_positions, 2048);
  EXPECT_EQ(m->norm_eps, 1e-6);
  EXPECT_EQ(m->rope.theta, 1e4);
  EXPECT_FALSE(m->tied_head);
  EXPECT_EQ(m->activation, Activation::kSilu);
  EXPECT_EQ(m->weight_dtype, DType::kBF16);
  EXPECT_EQ(m->layer.size(), 4U);
  EXPECT_EQ(m->raw.find("vocab_size")->as_int(), 384);
}

TEST(ModelConfigJson, LayerPatternsOfTheFamilies) {
  const auto pattern = [](std::string_view type, std::string_view more) {
    return windows(*with(type, more));
  };
  EXPECT_THAT(pattern("mistral", R"("sliding_window":32)"), ElementsAre(32, 32, 32, 32));
  EXPECT_THAT(pattern("mistral", R"("sliding_window":null)"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(pattern("mistral", ""), ElementsAre(4096, 4096, 4096, 4096));
  EXPECT_THAT(pattern("qwen2", R"("use_sliding_window":false,"sliding_window":8,"max_window_layers":2)"),
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(pattern("qwen2", R"("use_sliding_window":true,"sliding_window":8,"max_window_layers":3)"),
              ElementsAre(0, 0, 0, 8));
  EXPECT_THAT(pattern("qwen3", R"("use_sliding_window":true,"sliding_window":8,"max_window_layers":100)"),
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(
      pattern("qwen3", R"("use_sliding_window":true,"sliding_window":8,"layer_types":["sliding_attention",
    "full_attention","full_attention","sliding_attention"])"),
      ElementsAre(8, 0, 0, 8));
  EXPECT_THAT(pattern("smollm3", R"("use_sliding_window":true,"sliding_window":8)"), ElementsAre(0, 0, 0, 8));
  EXPECT_THAT(rotating(*with("smollm3", "")), ElementsAre(true, true, true, false));
  EXPECT_THAT(rotating(*with("smollm3", R"("no_rope_layers":[0,1,1,0])")),
              ElementsAre(false, true, true, false));
  EXPECT_THAT(rotating(*with("smollm3", R"("no_rope_layer_interval":2)")),
              ElementsAre(true, false, true, false));
  EXPECT_EQ(with("smollm3", "")->rope.theta, 2e6);
  EXPECT_TRUE(with("smollm3", "")->tied_head);
}

TEST(ModelConfigJson, OlderAndNewerRopeKeysAgree) {
  const auto older =
      with("llama", R"("rope_theta":500000.0,"torch_dtype":"float16","rope_scaling":{"type":"llama3",
    "factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})");
  const auto newer =
      with("llama", R"("dtype":"float16","rope_parameters":{"rope_type":"llama3","rope_theta":500000.0,
    "factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})");
  for (const auto& m : {older, newer}) {
    ASSERT_TRUE(m.has_value()) << m.error().message;
    EXPECT_EQ(m->rope.kind, RopeKind::kLlama3);
    EXPECT_EQ(m->rope.theta, 5e5);
    EXPECT_EQ(m->rope.factor, 32);
    EXPECT_EQ(m->rope.original_max_positions, 8192);
    EXPECT_EQ(m->weight_dtype, DType::kF16);
  }
  const auto yarn =
      with("qwen2", R"("max_position_embeddings":32768,"rope_scaling":{"rope_type":"yarn","factor":4.0,
    "attention_factor":1.5,"beta_fast":16,"mscale":0.7,"mscale_all_dim":0.5,"truncate":false})");
  ASSERT_TRUE(yarn.has_value()) << yarn.error().message;
  EXPECT_EQ(yarn->rope.original_max_positions, 32768);
  EXPECT_EQ(yarn->rope.attention_factor, 1.5);
  EXPECT_EQ(yarn->rope.beta_fast, 16);
  EXPECT_EQ(yarn->rope.beta_slow, 1);
  EXPECT_EQ(yarn->rope.mscale, 0.7);
  EXPECT_EQ(yarn->rope.mscale_all_dim, 0.5);
  EXPECT_FALSE(yarn->rope.truncate);
  const auto longrope =
      with("llama", R"("rope_scaling":{"type":"su","long_factor":[1,2.5],"short_factor":[1,1]},
    "original_max_position_embeddings":64)");
  ASSERT_TRUE(longrope.has_value()) << longrope.error().message;
  EXPECT_THAT(longrope->rope.long_factors, ElementsAre(1, 2.5));
  EXPECT_EQ(longrope->rope.original_max_positions, 64);
}

TEST(ModelConfigJson, EndIdsMayBeOneSeveralOrNone) {
  EXPECT_THAT(with("llama", R"("eos_token_id":7)")->eos_ids, ElementsAre(7));
  EXPECT_THAT(with("llama", R"("eos_token_id":[7,9])")->eos_ids, ElementsAre(7, 9));
  EXPECT_TRUE(with("llama", R"("eos_token_id":null)")->eos_ids.empty());
  const auto m = with("llama", R"("bos_token_id":0,"pad_token_id":-1)");
  EXPECT_EQ(m->bos_id, 0);
  EXPECT_EQ(m->pad_id, std::nullopt);
}

struct Refused {
  const char* type;
  const char* more;
  ErrorCode code;
  const char* field;
  const char* message;
};
constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr auto kUnsupported = ErrorCode::kUnsupported;
const Refused kRefused[] = {
    {"qwen9", "", kUnsupported, "model_type",
     "model_type \"qwen9\" is not supported; supported: gemma3_text, llama, ministral3, mistral, qwen2, "
     "qwen3, qwen3_moe, smollm3"},
    {"llama", R"("hidden_size":0)", kInvalid, "hidden_size", "must be from 1 to 1048576"},
    {"llama", R"("hidden_size":-64)", kInvalid, "hidden_size", "hidden_size is -64"},
    {"llama", R"("hidden_size":4398046511105)", kInvalid, "hidden_size", "must be from"},
    {"llama", R"("hidden_size":1e300)", kInvalid, "hidden_size", "must be an integer, not number"},
    {"llama", R"("hidden_size":"64")", kInvalid, "hidden_size", "must be an integer, not string"},
    {"llama", R"("hidden_size":null)", kInvalid, "hidden_size", "hidden_size is missing"},
    {"llama", R"("num_hidden_layers":513000000)", kInvalid, "num_hidden_layers", "from 1 to 1024"},
    {"llama", R"("num_attention_heads":0)", kInvalid, "num_attention_heads", "from 1"},
    {"llama", R"("num_key_value_heads":3)", kInvalid, "num_key_value_heads",
     "4 is no multiple of num_key_value_heads 3"},
    {"llama", R"("num_key_value_heads":8)", kInvalid, "num_key_value_heads", "no multiple"},
    {"llama", R"("head_dim":15)", kInvalid, "head_dim", "odd"},
    {"llama", R"("head_dim":null,"hidden_size":2)", kInvalid, "head_dim", "from 1"},
    {"llama", R"("vocab_size":[])", kInvalid, "vocab_size", "not array"},
    {"llama", R"("rms_norm_eps":-1)", kInvalid, "rms_norm_eps", "from 0 to 1"},
    {"llama", R"("rms_norm_eps":"tiny")", kInvalid, "rms_norm_eps", "a number"},
    {"llama", R"("hidden_act":"relu2")", kUnsupported, "hidden_act",
     "\"relu2\" is not supported; supported: silu"},
    {"llama", R"("torch_dtype":"float8_e4m3fn")", kUnsupported, "torch_dtype", "bfloat16, float16, float32"},
    {"llama", R"("tie_word_embeddings":"yes")", kInvalid, "tie_word_embeddings", "a boolean"},
    {"llama", R"("rope_theta":0)", kInvalid, "rope_theta", "above 0"},
    {"llama", R"("rope_scaling":{"rope_type":"spiral"})", kUnsupported, "rope_scaling.rope_type",
     "\"spiral\" is not supported; supported: default, linear, llama3, yarn, longrope, su, dynamic"},
    {"llama", R"("rope_scaling":{"type":"mrope"})", kUnsupported, "rope_scaling.type", "mrope"},
    {"llama", R"("rope_scaling":[1])", kInvalid, "rope_scaling", "an object, not array"},
    {"llama", R"("rope_scaling":{"rope_type":"linear"})", kInvalid, "rope_scaling.factor", "is missing"},
    {"llama", R"("rope_scaling":{"rope_type":"linear","factor":-2})", kInvalid, "rope_scaling.factor",
     "above 0"},
    {"llama", R"("rope_parameters":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4,
      "original_max_position_embeddings":64})",
     kInvalid, "rope_parameters.high_freq_factor", "above low_freq_factor"},
    {"llama", R"("rope_parameters":{"rope_type":"llama3","factor":8})", kInvalid,
     "rope_parameters.original_max_position_embeddings", "is missing"},
    {"llama", R"("rope_parameters":{"full_attention":{"rope_theta":1}})", kUnsupported, "rope_parameters",
     "by layer type"},
    {"llama", R"("rope_parameters":{"rope_type":"longrope","long_factor":[1,"x"],"short_factor":[1]})",
     kInvalid, "rope_parameters.long_factor", "no number above 0"},
    {"llama", R"("partial_rotary_factor":1.5)", kInvalid, "partial_rotary_factor", "above 1"},
    {"llama", R"("eos_token_id":"</s>")", kInvalid, "eos_token_id", "token id"},
    {"llama", R"("eos_token_id":[1,[2]])", kInvalid, "eos_token_id", "token id"},
    {"llama", R"("eos_token_id":99999999999)", kInvalid, "eos_token_id", "must be from"},
    {"qwen3", R"("layer_types":["full_attention"])", kInvalid, "layer_types", "each of the 4 layers"},
    {"qwen3", R"("layer_types":"full_attention")", kInvalid, "layer_types", "must be an array"},
    {"qwen3", R"("layer_types":["full_attention","full_attention","linear_attention",1])", kUnsupported,
     "layer_types", "\"linear_attention\"; supported: full_attention, sliding_attention"},
    {"smollm3", R"("no_rope_layers":[1,1,1,2])", kInvalid, "no_rope_layers", "holds 2"},
    {"smollm3", R"("no_rope_layer_interval":0)", kInvalid, "no_rope_layer_interval", "from 1"},
    {"gemma3_text", R"("use_bidirectional_attention":true)", kUnsupported, "use_bidirectional_attention",
     "not supported"},
    {"gemma3_text", R"("sliding_window_pattern":0)", kInvalid, "sliding_window_pattern", "from 1"},
    {"gemma3_text", R"("rope_parameters":{"full_attention":{}})", kInvalid,
     "rope_parameters.sliding_attention", "missing"},
    {"gemma3", "", kInvalid, "text_config", "is missing"},
    {"gemma3", R"("text_config":7)", kInvalid, "text_config", "an object"},
    {"qwen3_moe", R"("num_experts":4,"num_experts_per_tok":5)", kInvalid, "num_experts_per_tok",
     "from 1 to 4"},
    {"qwen3_moe", R"("num_local_experts":0)", kInvalid, "num_local_experts", "from 1"},
    {"qwen3_moe", R"("decoder_sparse_step":0)", kInvalid, "decoder_sparse_step", "from 1"},
    {"qwen3_moe", R"("mlp_only_layers":[4])", kInvalid, "mlp_only_layers", "from 0 to 3"},
    {"qwen3_moe", R"("mlp_only_layers":["0"])", kInvalid, "mlp_only_layers", "layer numbers"},
    {"llama", R"("quantization_config":{"quant_method":"awq"})", kUnsupported, "quantization_config",
     "quant_method \"awq\" is not supported"},
    {"llama", R"("quantization_config":3)", kUnsupported, "quantization_config", "(absent)"},
    {"llama", R"("quantization_config":{"quant_method":"fp8","weight_block_size":[64,128]})", kUnsupported,
     "quantization_config.weight_block_size", "[64,128] is not supported; supported: [128,128]"},
    {"llama", R"("quantization_config":{"quant_method":"fp8","fmt":"e5m2"})", kUnsupported,
     "quantization_config.fmt", "supported: \"e4m3\""},
    {"llama", R"("quantization_config":{"quant_method":"fp8","modules_to_not_convert":"lm_head"})", kInvalid,
     "quantization_config.modules_to_not_convert", "an array of names"},
    {"llama", R"("quantization_config":{"quant_method":"fp8","kv_cache_scheme":{"type":"int","num_bits":8}})",
     kUnsupported, "quantization_config.kv_cache_scheme.type", "supported: \"float\""},
    {"llama", R"("quantization_config":{"quant_method":"fp8","kv_cache_scheme":"int8"})", kUnsupported,
     "quantization_config.kv_cache_scheme", "\"int8\" is not supported; supported: \"static\""},
    {"llama", R"("quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized"})",
     kUnsupported, "quantization_config.format", "float-quantized"},
    {"llama", R"("quantization_config":{"quant_method":"compressed-tensors"})", kInvalid,
     "quantization_config.config_groups", "is missing"},
    {"llama", R"("quantization_config":{"quant_method":"compressed-tensors","config_groups":{}})",
     kUnsupported, "quantization_config.config_groups", "one group"},
    {"llama",
     R"("quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],
      "weights":{"type":"float","num_bits":4}}}})",
     kUnsupported, "quantization_config.config_groups.g.weights.num_bits", "supported: 8"},
    {"llama",
     R"("quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],
      "weights":{"type":"float","num_bits":8,"strategy":"group"}}}})",
     kUnsupported, "quantization_config.config_groups.g.weights.strategy", "tensor, channel, block"},
    {"llama",
     R"("quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["re:.*q"],
      "weights":{"type":"float","num_bits":8}}}})",
     kUnsupported, "quantization_config.config_groups.g.targets", "[\"Linear\"]"},
    {"llama",
     R"("quantization_config":{"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24"},
      "config_groups":{"g":{}}})",
     kUnsupported, "quantization_config.sparsity_config.format", "dense"},
};

TEST(ModelConfigJson, SparseLayersFollowStepAndList) {
  const auto m = with("qwen3_moe", R"("decoder_sparse_step":2,"mlp_only_layers":[1],"num_experts":8,
      "num_experts_per_tok":2,"moe_intermediate_size":32,"norm_topk_prob":true)");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(m->experts, 8);
  EXPECT_EQ(m->expert_ffn, 32);
  EXPECT_TRUE(m->renormalise_experts && m->qk_norm);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(m->layer[i].sparse, i == 3);
  EXPECT_EQ(with("qwen3", "")->experts, 0);
}

TEST(ModelConfigJson, Fp8IsReadInBothDialects) {
  using Granularity = Fp8Weights::Granularity;
  EXPECT_FALSE(with("llama", "")->fp8);
  EXPECT_FALSE(with("llama", R"("quantization_config":{})")->fp8);
  const auto fp8 = with("llama", R"("quantization_config":{"quant_method":"fp8","activation_scheme":"static",
      "kv_cache_scheme":"static","ignored_layers":["lm_head","gate"]})");
  ASSERT_TRUE(fp8.has_value()) << fp8.error().message;
  EXPECT_EQ(fp8->fp8->granularity, Granularity::kTensor);
  EXPECT_EQ(fp8->fp8->scales, "weight_scale");
  EXPECT_EQ(fp8->fp8->excluded, (std::vector<std::string>{"lm_head", "gate"}));
  const auto block =
      with("llama", R"("compression_config":{"quant_method":"compressed-tensors","ignore":["re:.*gate$"],
      "kv_cache_scheme":{"type":"float","num_bits":8,"strategy":"tensor"},"config_groups":{"group_0":{
      "targets":["Linear"],"input_activations":{"num_bits":8,"type":"float","strategy":"group","dynamic":true},
      "weights":{"type":"float","num_bits":8,"strategy":"block","block_structure":[128,128]}}}})");
  ASSERT_TRUE(block.has_value()) << block.error().message;
  EXPECT_EQ(block->fp8->granularity, Granularity::kBlock);
  EXPECT_EQ(block->fp8->scales, "weight_scale");
}

TEST(ModelConfigJson, RefusalsNameTheKeyAndWhatWouldDo) {
  for (const Refused& r : kRefused) {
    const auto m = with(r.type, r.more);
    ASSERT_FALSE(m.has_value()) << r.type << " " << r.more;
    EXPECT_EQ(name(m.error().code), name(r.code)) << m.error().message;
    EXPECT_EQ(m.error().field, r.field) << m.error().message;
    EXPECT_THAT(m.error().message, HasSubstr(r.message)) << r.more;
  }
  EXPECT_EQ(read("[]").error().field, "config.json");
  EXPECT_EQ(read("{}").error().field, "model_type");
  EXPECT_EQ(read(R"({"model_type":5})").error().field, "model_type");
}

TEST(GenerationDefaults, ReadsWhatIsThereAndNamesWhatIsWrong) {
  const auto parse = [](std::string_view text) { return generation_defaults_from_json(*json::parse(text)); };
  const auto d = parse(
      R"({"temperature":0.6,"top_k":20,"top_p":1,"min_p":null,"repetition_penalty":1.05,"eos_token_id":[5,6],
                           "do_sample":true})");
  ASSERT_TRUE(d.has_value()) << d.error().message;
  EXPECT_EQ(d->temperature, 0.6);
  EXPECT_EQ(d->top_p, 1.0);
  EXPECT_EQ(d->min_p, std::nullopt);
  EXPECT_EQ(d->repetition_penalty, 1.05);
  EXPECT_EQ(d->top_k, 20);
  EXPECT_THAT(d->eos_ids, ElementsAre(5, 6));
  EXPECT_EQ(parse("{}")->do_sample, std::nullopt);
  EXPECT_EQ(parse(R"({"temperature":"hot"})").error().field, "temperature");
  EXPECT_EQ(parse(R"({"top_k":2.5})").error().field, "top_k");
  EXPECT_EQ(parse(R"({"do_sample":1})").error().field, "do_sample");
  EXPECT_FALSE(parse("[]").has_value());
}

TEST(EnvironmentTable, NamesWhatNothingReads) {
  const Environment e({{"METRALE_STORE_TTL_SECOND", "5"},
                       {"METRALE_TARGET_HW", "cpu"},
                       {"PATH", "/bin"},
                       {"METRALE_AAA", ""},
                       {"METRALE_MAX_BODY_BYTES", "5000"}});
  EXPECT_EQ(e.unknown(), (std::vector<std::string>{"METRALE_AAA", "METRALE_STORE_TTL_SECOND"}));
}

TEST(EnvironmentTable, HoldsValuesAndCountsEmptyAsAbsent) {
  const Environment e({{"HF_HOME", "/models"}, {"HOME", ""}});
  EXPECT_EQ(e.get("HF_HOME"), "/models");
  EXPECT_EQ(e.get("HOME"), std::nullopt);
  EXPECT_EQ(e.get("HF_HUB_CACHE"), std::nullopt);
  EXPECT_DEATH(static_cast<void>(e.get("METRALE_NO_SUCH")), "METRALE_NO_SUCH");
}

}  // namespace
}  // namespace met::config
