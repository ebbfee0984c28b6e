#include <algorithm>
#include <cmath>

#include "config/json_fields.h"
#include "config/quantization_config.h"
#include "config/read_model_config.h"
#include "config/rope_config.h"

namespace met::config {

namespace {

/// What a family's reference implementation assumes for absent keys; 0: the key is required (sizes), as many
/// as heads (kv_heads), hidden / heads (head_dim).
struct Family {
  std::string_view model_type;
  int hidden = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  int vocabulary = 0;
  int max_positions = 0;
  double theta = 10000;
  double norm_eps = 1e-6;
  bool tied_head = false;
};
// Source: the configuration classes of transformers 5.
constexpr Family kFamilies[] = {
    {.model_type = "gemma3_text",
     .hidden = 2304,
     .layers = 26,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .ffn = 9216,
     .vocabulary = 262208,
     .max_positions = 131072,
     .theta = 1e6,
     .tied_head = true},
    {.model_type = "llama", .max_positions = 2048},
    {.model_type = "ministral3", .kv_heads = 8, .head_dim = 128, .max_positions = 262144, .norm_eps = 1e-5},
    {.model_type = "mistral", .kv_heads = 8, .max_positions = 131072},
    {.model_type = "qwen2", .kv_heads = 32, .max_positions = 32768},
    {.model_type = "qwen3", .kv_heads = 32, .head_dim = 128, .max_positions = 32768},
    {.model_type = "qwen3_moe", .kv_heads = 4, .max_positions = 32768},
    {.model_type = "smollm3", .kv_heads = 4, .max_positions = 32768, .theta = 2e6, .tied_head = true},
};
constexpr int kMistralWindow = 4096;  // MistralConfig: when the key is absent, and not when it is null
constexpr int kGemma3Window = 4096;
constexpr int kGemma3Pattern = 6;
constexpr int kMaxWindowLayers = 28;  // Qwen2Config, Qwen3Config
constexpr int kNoRopeInterval = 4;    // SmolLM3Config
constexpr double kGemma3QueryScalar = 256;
constexpr int kQwen3MoeExperts = 128;
constexpr int kQwen3MoeExpertsPerToken = 8;
constexpr int kQwen3MoeExpertFfn = 768;

std::string normalised(std::string type) {
  for (char& c : type) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == '.') c = '_';
  }
  return type;
}

Result<const Family*> family_of(const std::string& type) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == type) return &family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  std::string shown;
  json::write_string(type, shown);
  return unsupported("model_type", "model_type " + shown + " is not supported; supported: " + known);
}

std::optional<int> or_required(int fallback) {
  return fallback == 0 ? std::nullopt : std::optional(fallback);
}

Result<> read_sizes(const Fields& config, const Family& family, ModelConfig& out) {
  MET_ASSIGN(out.hidden, config.size("hidden_size", or_required(family.hidden), 1, kHiddenMax));
  MET_ASSIGN(out.layers, config.size("num_hidden_layers", or_required(family.layers), 1, kLayersMax));
  MET_ASSIGN(out.heads, config.size("num_attention_heads", or_required(family.heads), 1, kHeadsMax));
  const int kv_heads = family.kv_heads == 0 ? out.heads : family.kv_heads;
  MET_ASSIGN(out.kv_heads, config.size("num_key_value_heads", kv_heads, 1, kHeadsMax));
  if (out.heads % out.kv_heads != 0)
    return invalid("num_key_value_heads", "num_attention_heads " + std::to_string(out.heads) +
                                              " is no multiple of num_key_value_heads " +
                                              std::to_string(out.kv_heads));
  const int head_dim = family.head_dim == 0 ? out.hidden / out.heads : family.head_dim;
  MET_ASSIGN(out.head_dim, config.size("head_dim", head_dim, 1, kHeadDimMax));
  MET_TRY(checked_size("head_dim", out.head_dim, 1, kHeadDimMax));
  if (out.head_dim % 2 != 0)
    return invalid("head_dim", "head_dim " + std::to_string(out.head_dim) + " is odd");
  MET_ASSIGN(out.ffn, config.size("intermediate_size", or_required(family.ffn), 1, kFfnMax));
  MET_ASSIGN(out.vocabulary, config.size("vocab_size", or_required(family.vocabulary), 1, kVocabularyMax));
  MET_ASSIGN(out.max_positions,
             config.size("max_position_embeddings", family.max_positions, 1, kPositionsMax));
  MET_ASSIGN(out.norm_eps, config.number("rms_norm_eps", family.norm_eps));
  if (!(out.norm_eps >= 0 && out.norm_eps < 1))
    return invalid("rms_norm_eps", "rms_norm_eps must be from 0 to 1");
  return {};
}

Result<> read_activation(const Fields& config, std::string_view fallback, ModelConfig& out) {
  const std::string_view key =
      config.find("hidden_activation") != nullptr ? "hidden_activation" : "hidden_act";
  MET_ASSIGN(const std::string name, config.text(key, fallback));
  if (name == "silu" || name == "swish") {
    out.activation = Activation::kSilu;
  } else if (name == "gelu_pytorch_tanh" || name == "gelu_new") {
    out.activation = Activation::kGeluTanh;
  } else {
    std::string shown;
    json::write_string(name, shown);
    return unsupported(config.field(key), config.field(key) + " " + shown +
                                              " is not supported; supported: silu, gelu_pytorch_tanh");
  }
  return {};
}

Result<> read_dtype(const Fields& config, const Fields& outer, ModelConfig& out) {
  for (const Fields& fields : {config, outer}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (fields.find(key) == nullptr) continue;
      MET_ASSIGN(const std::string name, fields.text(key, ""));
      if (name == "bfloat16" || name == "auto") return {};
      if (name != "float16" && name != "float32")
        return unsupported(fields.field(key),
                           fields.field(key) + " is not supported; supported: bfloat16, float16, float32");
      out.weight_dtype = name == "float16" ? DType::kF16 : DType::kF32;
      return {};
    }
  }
  return {};
}

// One flag a layer from `layer_types`; false when the key is absent.
Result<bool> read_layer_types(const Fields& config, int window, ModelConfig& out) {
  const json::Value* const types = config.find("layer_types");
  if (types == nullptr) return false;
  if (!types->is_array() || types->as_array().size() != out.layer.size())
    return invalid("layer_types", "layer_types must be an array with one entry for each of the " +
                                      std::to_string(out.layers) + " layers");
  for (std::size_t i = 0; i < out.layer.size(); ++i) {
    const json::Value& type = types->as_array()[i];
    if (type == json::Value("full_attention")) continue;
    if (type != json::Value("sliding_attention"))
      return unsupported("layer_types", "layer_types holds " + json::write(type) +
                                            "; supported: full_attention, sliding_attention");
    out.layer[i].window = window;
  }
  return true;
}

// Window of qwen2, qwen3 and smollm3 layers: counts only where use_sliding_window is set.
Result<int> optional_window(const Fields& config) {
  MET_ASSIGN(const bool used, config.flag("use_sliding_window", false));
  MET_ASSIGN(const int window, config.size("sliding_window", 0, 0, kPositionsMax));
  return used ? window : 0;
}

Result<> read_qwen_layers(const Fields& config, ModelConfig& out) {
  MET_ASSIGN(const int window, optional_window(config));
  MET_ASSIGN(const bool listed, read_layer_types(config, window, out));
  MET_ASSIGN(const int first, config.size("max_window_layers", kMaxWindowLayers, 0, kPositionsMax));
  if (listed) return {};
  for (int i = first; i < out.layers; ++i) out.layer[static_cast<std::size_t>(i)].window = window;
  return {};
}

// Which layers are mixtures, and of what. Source: Qwen3MoeConfig and Qwen3MoeDecoderLayer of transformers.
Result<> read_experts(const Fields& config, ModelConfig& out) {
  const std::string_view count = config.find("num_experts") != nullptr ? "num_experts" : "num_local_experts";
  MET_ASSIGN(out.experts, config.size(count, kQwen3MoeExperts, 1, kExpertsMax));
  MET_ASSIGN(out.experts_per_token,
             config.size("num_experts_per_tok", kQwen3MoeExpertsPerToken, 1, out.experts));
  MET_ASSIGN(out.expert_ffn, config.size("moe_intermediate_size", kQwen3MoeExpertFfn, 1, kFfnMax));
  MET_ASSIGN(out.renormalise_experts, config.flag("norm_topk_prob", false));
  MET_ASSIGN(const int step, config.size("decoder_sparse_step", 1, 1, kLayersMax));
  for (std::size_t i = 0; i < out.layer.size(); ++i)
    out.layer[i].sparse = (i + 1) % static_cast<std::size_t>(step) == 0;
  const json::Value* const dense = config.find("mlp_only_layers");
  if (dense == nullptr) return {};
  if (!dense->is_array()) return config.wrong_type("mlp_only_layers", "an array of layer numbers");
  for (const json::Value& layer : dense->as_array()) {
    if (!layer.is_int()) return config.wrong_type("mlp_only_layers", "an array of layer numbers");
    MET_ASSIGN(const int i, checked_size(config.field("mlp_only_layers"), layer.as_int(), 0, out.layers - 1));
    out.layer[static_cast<std::size_t>(i)].sparse = false;
  }
  return {};
}

Result<> read_qwen3_moe_layers(const Fields& config, ModelConfig& out) {
  MET_TRY(read_experts(config, out));
  MET_ASSIGN(const int window, optional_window(config));
  for (LayerConfig& layer : out.layer) layer.window = window;
  return {};
}

Result<> read_smollm3_layers(const Fields& config, ModelConfig& out) {
  MET_ASSIGN(const int interval, config.size("no_rope_layer_interval", kNoRopeInterval, 1, kLayersMax));
  const json::Value* const list = config.find("no_rope_layers");  // 1: the layer rotates, despite the name
  if (list != nullptr && (!list->is_array() || list->as_array().size() != out.layer.size()))
    return invalid("no_rope_layers", "no_rope_layers must be an array with one entry for each of the " +
                                         std::to_string(out.layers) + " layers");
  for (std::size_t i = 0; i < out.layer.size(); ++i) {
    out.layer[i].rope = (i + 1) % static_cast<std::size_t>(interval) != 0;
    if (list == nullptr) continue;
    const json::Value& v = list->as_array()[i];
    if (v != json::Value(0) && v != json::Value(1))
      return invalid("no_rope_layers", "no_rope_layers holds " + json::write(v) + "; its entries are 0 or 1");
    out.layer[i].rope = v.as_int() == 1;
  }
  MET_ASSIGN(const int window, optional_window(config));
  MET_ASSIGN(const bool listed, read_layer_types(config, window, out));
  if (listed) return {};
  for (LayerConfig& layer : out.layer)
    if (!layer.rope) layer.window = window;
  return {};
}

Result<> read_gemma3(const Fields& config, const Family& family, ModelConfig& out) {
  MET_ASSIGN(const bool both_ways, config.flag("use_bidirectional_attention", false));
  if (both_ways)
    return unsupported("use_bidirectional_attention", "bidirectional attention is not supported");
  out.norm_offset = 1;
  out.qk_norm = true;
  out.post_norms = true;
  out.embedding_scale = std::sqrt(static_cast<double>(out.hidden));
  MET_ASSIGN(const double scalar, config.positive("query_pre_attn_scalar", kGemma3QueryScalar));
  out.attention_scale = 1 / std::sqrt(scalar);
  MET_ASSIGN(out.attention_softcap, config.number("attn_logit_softcapping", 0));
  MET_ASSIGN(out.logit_softcap, config.number("final_logit_softcapping", 0));
  MET_ASSIGN(RopePair ropes, rope_pair_from_json(config, {family.theta, out.max_positions}));
  out.rope = std::move(ropes.full);
  out.rope_local = std::move(ropes.local);
  MET_ASSIGN(const int window, config.size("sliding_window", kGemma3Window, 1, kPositionsMax));
  MET_ASSIGN(const bool listed, read_layer_types(config, window, out));
  const std::string_view key =
      config.find("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  MET_ASSIGN(const int pattern, config.size(key, kGemma3Pattern, 1, kLayersMax));
  for (std::size_t i = 0; i < out.layer.size(); ++i) {
    if (!listed && (i + 1) % static_cast<std::size_t>(pattern) != 0) out.layer[i].window = window;
    out.layer[i].local_rope = out.layer[i].window > 0;
  }
  return {};
}

Result<> read_mistral_layers(const Fields& config, int fallback, ModelConfig& out) {
  const int absent = config.contains("sliding_window") ? 0 : fallback;
  MET_ASSIGN(const int window, config.size("sliding_window", absent, 1, kPositionsMax));
  MET_ASSIGN(const bool listed, read_layer_types(config, window, out));
  if (listed) return {};
  for (LayerConfig& layer : out.layer) layer.window = window;
  return {};
}

Result<> read_query_scale(const Fields& config, ModelConfig& out) {
  const std::string_view key = config.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  if (config.find(key) == nullptr) return {};
  MET_ASSIGN(const Fields rope, config.object(key));
  MET_ASSIGN(out.query_scale_beta, rope.number("llama_4_scaling_beta", 0));
  if (out.query_scale_beta != 0 && out.rope.original_max_positions <= 0)
    return invalid(
        rope.field("original_max_position_embeddings"),
        rope.field("original_max_position_embeddings") + " is missing; llama_4_scaling_beta needs it");
  return {};
}

Result<> read_biases(const Fields& config, std::string_view type, ModelConfig& out) {
  if (type == "qwen2") {
    out.attention_bias = true;  // on q, k and v, without a key
    return {};
  }
  if (type == "mistral" || type == "ministral3") return {};
  MET_ASSIGN(out.attention_bias, config.flag("attention_bias", false));
  out.attention_out_bias = out.attention_bias;
  if (type == "llama" || type == "smollm3") {
    MET_ASSIGN(out.mlp_bias, config.flag("mlp_bias", false));
  }
  return {};
}

Result<> read_family(const Fields& config, const Family& family, ModelConfig& out) {
  const std::string_view type = family.model_type;
  MET_TRY(read_biases(config, type, out));
  if (type == "gemma3_text") return read_gemma3(config, family, out);
  MET_ASSIGN(out.rope, rope_from_json(config, {family.theta, out.max_positions}));
  out.qk_norm = type == "qwen3" || type == "qwen3_moe";
  if (type == "qwen3_moe") return read_qwen3_moe_layers(config, out);
  if (type == "qwen2" || type == "qwen3") return read_qwen_layers(config, out);
  if (type == "smollm3") return read_smollm3_layers(config, out);
  if (type == "mistral") return read_mistral_layers(config, kMistralWindow, out);
  if (type == "ministral3") {
    MET_TRY(read_query_scale(config, out));
    return read_mistral_layers(config, 0, out);
  }
  return {};
}

Result<> read_ids(const Fields& config, const Fields& outer, ModelConfig& out) {
  const auto pick = [&](std::string_view key) {
    return token_ids(config.find(key) != nullptr ? config : outer, key);
  };
  MET_ASSIGN(out.eos_ids, pick("eos_token_id"));
  MET_ASSIGN(const auto bos, pick("bos_token_id"));
  MET_ASSIGN(const auto pad, pick("pad_token_id"));
  if (!bos.empty()) out.bos_id = bos.front();
  if (!pad.empty()) out.pad_id = pad.front();
  return {};
}

}  // namespace

Result<ModelConfig> model_config_from_json(const json::Value& config_json) {
  if (!config_json.is_object()) return invalid("config.json", "config.json holds no object");
  const Fields outer(config_json);
  ModelConfig out;
  MET_ASSIGN(out.fp8, read_quantization(outer));
  MET_ASSIGN(std::string type, outer.text("model_type", ""));
  if (type.empty()) return invalid("model_type", "model_type is missing");
  type = normalised(std::move(type));
  Fields config = outer;
  if (type == "gemma3" || type == "mistral3") {
    MET_ASSIGN(config, outer.object("text_config"));
    if (!out.fp8) {
      MET_ASSIGN(out.fp8, read_quantization(config));
    }
    MET_ASSIGN(type, config.text("model_type", type == "gemma3" ? "gemma3_text" : "mistral"));
    type = normalised(std::move(type));
  }
  MET_ASSIGN(const Family* const family, family_of(type));
  out.model_type = type;
  MET_TRY(read_sizes(config, *family, out));
  out.layer.resize(static_cast<std::size_t>(out.layers));
  const bool gemma = type == "gemma3_text";
  MET_TRY(read_activation(config, gemma ? "gelu_pytorch_tanh" : "silu", out));
  MET_ASSIGN(const bool tied, outer.flag("tie_word_embeddings", family->tied_head));
  MET_ASSIGN(out.tied_head, config.flag("tie_word_embeddings", tied));
  MET_TRY(read_dtype(config, outer, out));
  MET_TRY(read_family(config, *family, out));
  MET_TRY(read_ids(config, outer, out));
  out.raw = config_json;
  return out;
}

}  // namespace met::config
