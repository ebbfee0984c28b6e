#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "config/json_fields.h"
#include "config/read_model_config.h"

namespace met::config {

namespace {

using formats::GgufFile;
using formats::GgufType;
using formats::GgufValue;
using formats::TensorEntry;

/// What an architecture's metadata leaves unsaid. `interleaved`: the converter permutes the rows of q and k,
/// so that rotary pairs are neighbours; the other architectures keep halves.
struct Architecture {
  std::string_view name;
  std::string_view model_type;
  bool interleaved;
  bool qk_norm;
  bool experts = false;  // sparse layers are those with a router
};
constexpr Architecture kArchitectures[] = {
    {"gemma3", "gemma3_text", false, true},
    {"llama", "llama", true, false},
    {"qwen2", "qwen2", false, false},
    {"qwen3", "qwen3", false, true},
    {"qwen3moe", "qwen3_moe", false, true, true},
    {"smollm3", "smollm3", true, false},
};

constexpr int kGemma3Pattern = 6;  // five sliding layers, then a full one
constexpr double kGemma3LocalTheta = 10000;
constexpr int kGemma3Layers27B = 62;       // the one size whose query scale is hidden / heads, not head_dim
constexpr int kSmolLm3NoRopeInterval = 4;  // every fourth layer has no rotation

// The decimal with the fewest digits that reads as this float, as a double: 1e-5 rather
// than 9.99999974737875e-06.
double shortest_decimal(float value) {
  std::array<char, 64> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double out = value;
  std::from_chars(text.data(), written.ptr, out);
  return out;
}

class Reader {
 public:
  Reader(const GgufFile& file, std::string_view architecture) : file_(&file), prefix_(architecture) {
    prefix_ += '.';
  }

  const GgufFile& file() const { return *file_; }
  std::string key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  bool has(std::string_view suffix) const { return file_->find(key(suffix)) != nullptr; }

  /// An integer, or an array of integers with one value a layer that are all the same.
  Result<int> size(std::string_view suffix, std::optional<int> fallback, std::int64_t lowest,
                   std::int64_t highest) const {
    const std::string name = key(suffix);
    const GgufValue* const value = file_->find(name);
    if (value == nullptr) {
      if (fallback) return *fallback;
      return invalid(name, "metadata key " + name + " is missing");
    }
    std::optional<std::int64_t> number = value->integer();
    if (value->is_array() && value->size() > 0) {
      number = value->integer(0);
      for (std::size_t i = 1; i < value->size(); ++i)
        if (value->integer(i) != number)
          return unsupported(name, name + " differs between layers, which is not supported");
    }
    if (!number) return invalid(name, name + " is of type " + value->type_name() + ", not an integer");
    return checked_size(name, *number, lowest, highest);
  }

  Result<double> number(std::string_view suffix, std::optional<double> fallback) const {
    const std::string name = key(suffix);
    MET_ASSIGN(const auto value, file_->number(name));
    if (!value && !fallback) return invalid(name, "metadata key " + name + " is missing");
    if (!value) return *fallback;
    if (!std::isfinite(*value)) return invalid(name, name + " is not finite");
    return file_->find(name)->type() == GgufType::kF32 ? shortest_decimal(static_cast<float>(*value))
                                                       : *value;
  }
  Result<double> positive(std::string_view suffix, std::optional<double> fallback) const {
    MET_ASSIGN(const double value, number(suffix, fallback));
    if (value > 0) return value;
    return invalid(key(suffix), key(suffix) + " must be above 0");
  }

 private:
  const GgufFile* file_;
  std::string prefix_;
};

Result<int> vocabulary_of(const Reader& in, int hidden) {
  if (const TensorEntry* const table = in.file().find_tensor("token_embd.weight")) {
    if (table->shape.size() != 2 || table->shape[1] != hidden)
      return invalid("token_embd.weight",
                     "token_embd.weight is not [vocabulary, " + std::to_string(hidden) + "]");
    return checked_size("rows of token_embd.weight", table->shape[0], 1, kVocabularyMax);
  }
  if (in.has("vocab_size")) return in.size("vocab_size", std::nullopt, 1, kVocabularyMax);
  const GgufValue* const tokens = in.file().find("tokenizer.ggml.tokens");
  if (tokens == nullptr || !tokens->is_array())
    return invalid("token_embd.weight",
                   "the file says nowhere how large the vocabulary is: no token_embd.weight, no " +
                       in.key("vocab_size") + ", no tokenizer.ggml.tokens");
  return checked_size("tokenizer.ggml.tokens",
                      static_cast<std::int64_t>(std::min<std::size_t>(tokens->size(), INT64_MAX)), 1,
                      kVocabularyMax);
}

Result<> refuse_experts(const Reader& in) {
  MET_ASSIGN(const int experts, in.size("expert_count", 0, 0, INT32_MAX));
  if (experts == 0) return {};
  return unsupported(in.key("expert_count"), "mixtures of experts are not supported in this architecture");
}

// Weights of the chosen experts always sum to 1: the architecture has no key for it.
Result<> read_experts(const Reader& in, ModelConfig& out) {
  MET_ASSIGN(out.experts, in.size("expert_count", std::nullopt, 1, kExpertsMax));
  MET_ASSIGN(out.experts_per_token, in.size("expert_used_count", std::nullopt, 1, out.experts));
  MET_ASSIGN(out.expert_ffn, in.size("expert_feed_forward_length", std::nullopt, 1, kFfnMax));
  out.renormalise_experts = true;
  for (std::size_t i = 0; i < out.layer.size(); ++i)
    out.layer[i].sparse =
        in.file().find_tensor("blk." + std::to_string(i) + ".ffn_gate_inp.weight") != nullptr;
  return {};
}

Result<> read_sizes(const Reader& in, ModelConfig& out) {
  MET_ASSIGN(out.hidden, in.size("embedding_length", std::nullopt, 1, kHiddenMax));
  MET_ASSIGN(out.layers, in.size("block_count", std::nullopt, 1, kLayersMax));
  MET_ASSIGN(out.heads, in.size("attention.head_count", std::nullopt, 1, kHeadsMax));
  MET_ASSIGN(out.kv_heads, in.size("attention.head_count_kv", out.heads, 1, kHeadsMax));
  if (out.heads % out.kv_heads != 0)
    return invalid(in.key("attention.head_count_kv"),
                   in.key("attention.head_count") + " " + std::to_string(out.heads) +
                       " is no multiple of head_count_kv " + std::to_string(out.kv_heads));
  MET_ASSIGN(out.head_dim, in.size("attention.key_length", out.hidden / out.heads, 1, kHeadDimMax));
  MET_TRY(checked_size(in.key("attention.key_length"), out.head_dim, 1, kHeadDimMax));
  if (out.head_dim % 2 != 0)
    return invalid(in.key("attention.key_length"),
                   "the head size " + std::to_string(out.head_dim) + " is odd");
  MET_ASSIGN(const int value_dim, in.size("attention.value_length", out.head_dim, 1, kHeadDimMax));
  if (value_dim != out.head_dim)
    return unsupported(in.key("attention.value_length"),
                       in.key("attention.value_length") + " differs from the key length");
  MET_ASSIGN(out.ffn, in.size("feed_forward_length", std::nullopt, 1, kFfnMax));
  MET_ASSIGN(out.max_positions, in.size("context_length", std::nullopt, 1, kPositionsMax));
  MET_ASSIGN(out.norm_eps, in.number("attention.layer_norm_rms_epsilon", std::nullopt));
  if (!(out.norm_eps >= 0 && out.norm_eps < 1))
    return invalid(in.key("attention.layer_norm_rms_epsilon"),
                   in.key("attention.layer_norm_rms_epsilon") + " must be from 0 to 1");
  MET_ASSIGN(out.vocabulary, vocabulary_of(in, out.hidden));
  return {};
}

Result<> read_yarn(const Reader& in, const ModelConfig& model, RopeConfig& out) {
  MET_ASSIGN(out.original_max_positions,
             in.positive("rope.scaling.original_context_length", static_cast<double>(model.max_positions)));
  MET_ASSIGN(const double extrapolation, in.number("rope.scaling.yarn_ext_factor", 1));
  if (extrapolation != 1)
    return unsupported(in.key("rope.scaling.yarn_ext_factor"),
                       in.key("rope.scaling.yarn_ext_factor") + " other than 1 is not supported");
  MET_ASSIGN(out.beta_fast, in.positive("rope.scaling.yarn_beta_fast", 32));
  MET_ASSIGN(out.beta_slow, in.positive("rope.scaling.yarn_beta_slow", 1));
  MET_ASSIGN(double attention, in.positive("rope.scaling.attn_factor", 1));
  MET_ASSIGN(attention, in.positive("rope.scaling.yarn_attn_factor", attention));
  // The file's factor multiplies the one that YaRN derives from `factor`.
  if (attention != 1) out.attention_factor = attention * (1 + 0.1 * std::log(out.factor));
  return {};
}

Result<> read_scaling(const Reader& in, const ModelConfig& model, RopeConfig& out) {
  if (in.has("rope.scale_linear")) {  // the key before `rope.scaling.*`
    MET_ASSIGN(out.factor, in.positive("rope.scale_linear", 1));
    if (out.factor != 1) out.kind = RopeKind::kLinear;
  }
  const std::string name = in.key("rope.scaling.type");
  MET_ASSIGN(const auto type, in.file().string(name));
  if (!type || *type == "none") return {};
  if (*type != "linear" && *type != "yarn")
    return unsupported(
        name, name + " " + formats::shown(*type) + " is not supported; supported: none, linear, yarn");
  out.kind = *type == "linear" ? RopeKind::kLinear : RopeKind::kYarn;
  MET_ASSIGN(out.factor, in.positive("rope.scaling.factor", out.factor));
  return out.kind == RopeKind::kYarn ? read_yarn(in, model, out) : Result<>{};
}

Result<> read_freq_factors(const Reader& in, const ModelConfig& model, RopeConfig& out) {
  const TensorEntry* const tensor = in.file().find_tensor("rope_freqs.weight");
  if (tensor == nullptr) return {};
  const auto pairs = static_cast<std::int64_t>(std::llround(model.head_dim * out.partial_factor)) / 2;
  if (tensor->dtype != DType::kF32 || tensor->shape != std::vector{pairs})
    return invalid(tensor->name, "rope_freqs.weight must hold " + std::to_string(pairs) + " values of F32");
  out.freq_factors.resize(static_cast<std::size_t>(pairs));
  std::memcpy(out.freq_factors.data(), in.file().data(*tensor).data(), tensor->bytes);
  for (const float factor : out.freq_factors)
    if (!(factor > 0) || !std::isfinite(factor))
      return invalid(tensor->name, "rope_freqs.weight holds a value that is no number above 0");
  return {};
}

Result<> read_rope(const Reader& in, ModelConfig& out) {
  MET_ASSIGN(out.rope.theta, in.positive("rope.freq_base", 10000));
  MET_ASSIGN(const int rotary, in.size("rope.dimension_count", out.head_dim, 2, out.head_dim));
  if (rotary % 2 != 0)
    return invalid(in.key("rope.dimension_count"), in.key("rope.dimension_count") + " is odd");
  out.rope.partial_factor = static_cast<double>(rotary) / out.head_dim;
  MET_TRY(read_scaling(in, out, out.rope));
  return read_freq_factors(in, out, out.rope);
}

Result<> read_gemma3(const Reader& in, ModelConfig& out) {
  out.activation = Activation::kGeluTanh;
  out.post_norms = true;
  out.embedding_scale = std::sqrt(static_cast<double>(out.hidden));
  const int scale_dim = out.layers == kGemma3Layers27B ? out.hidden / out.heads : out.head_dim;
  MET_ASSIGN(out.attention_scale,
             in.positive("attention.scale", 1 / std::sqrt(static_cast<double>(scale_dim))));
  MET_ASSIGN(out.logit_softcap, in.number("final_logit_softcapping", 0));
  MET_ASSIGN(out.attention_softcap, in.number("attn_logit_softcapping", 0));
  out.rope_local.partial_factor = out.rope.partial_factor;
  MET_ASSIGN(out.rope_local.theta, in.positive("rope.freq_base_swa", kGemma3LocalTheta));
  return {};
}

// `pattern`: one flag a layer in the file, or a period whose last layer is full; 1 means that all layers are
// alike.
Result<> read_windows(const Reader& in, int pattern, ModelConfig& out) {
  MET_ASSIGN(const int window, in.size("attention.sliding_window", 0, 0, INT32_MAX));
  if (window == 0) return {};
  const std::string name = in.key("attention.sliding_window_pattern");
  const GgufValue* const listed = in.file().find(name);
  const bool per_layer = listed != nullptr && listed->is_array();
  if (per_layer && (listed->element_type() != GgufType::kBool || listed->size() != out.layer.size()))
    return invalid(name,
                   name + " must have one bool for each of the " + std::to_string(out.layers) + " layers");
  if (!per_layer) {
    MET_ASSIGN(pattern, in.size("attention.sliding_window_pattern", pattern, 1, kLayersMax));
  }
  for (std::size_t i = 0; i < out.layer.size(); ++i) {
    const bool sliding = per_layer ? *listed->integer(i) == 1
                                   : pattern == 1 || (i + 1) % static_cast<std::size_t>(pattern) != 0;
    if (sliding) out.layer[i].window = window;
  }
  return {};
}

void read_tensors(const Reader& in, ModelConfig& out) {
  const auto has = [&](const char* tensor) { return in.file().find_tensor(tensor) != nullptr; };
  out.tied_head = !has("output.weight");
  out.attention_bias = has("blk.0.attn_q.bias");
  out.attention_out_bias = has("blk.0.attn_output.bias");
  out.mlp_bias = has("blk.0.ffn_down.bias");
}

// Texts of control tokens that end a turn, for files whose writer left eot_token_id out. In harmony, whose vocabulary
// has the last two, "<|end|>" ends a message of a turn that goes on.
constexpr std::string_view kEndOfTurn[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",
                                           "<|eom_id|>", "<|return|>", "<|call|>"};

Result<> read_ids(const GgufFile& file, ModelConfig& out) {
  const auto id_of = [&](const char* key) -> Result<std::optional<std::int32_t>> {
    MET_ASSIGN(const auto id, file.integer(key));
    if (!id || *id < 0 || *id == UINT32_MAX) return std::nullopt;  // the writer's "none"
    MET_ASSIGN(const int checked, checked_size(key, *id, 0, out.vocabulary - 1));
    return checked;
  };
  const auto add = [&](std::int32_t id) {
    if (std::ranges::find(out.eos_ids, id) == out.eos_ids.end()) out.eos_ids.push_back(id);
  };
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    MET_ASSIGN(const auto id, id_of(key));
    if (id) add(*id);
  }
  MET_ASSIGN(out.bos_id, id_of("tokenizer.ggml.bos_token_id"));
  MET_ASSIGN(out.pad_id, id_of("tokenizer.ggml.padding_token_id"));
  MET_ASSIGN(const auto tokens, file.strings("tokenizer.ggml.tokens"));
  const GgufValue* const types = file.find("tokenizer.ggml.token_type");
  if (!tokens || types == nullptr || !types->is_array() || types->size() != tokens->size()) return {};
  constexpr std::int64_t kControl = 3;  // llama.cpp's token types: 3 control, 4 user defined
  constexpr std::int64_t kUserDefined = 4;
  const auto has = [&](std::string_view token) { return std::ranges::find(*tokens, token) != tokens->end(); };
  const bool harmony = has("<|return|>") && has("<|call|>");
  std::size_t i = 0;
  for (const std::string_view token : *tokens) {
    const auto type = types->integer(i);
    const bool special = type == kControl || type == kUserDefined;
    if (special && i < static_cast<std::size_t>(out.vocabulary) &&
        std::ranges::find(kEndOfTurn, token) != std::end(kEndOfTurn) && !(harmony && token == "<|end|>"))
      add(static_cast<std::int32_t>(i));
    ++i;
  }
  return {};
}

json::Value raw_metadata(const GgufFile& file) {
  json::Object raw;
  for (const auto& [key, value] : file.metadata()) {
    if (value.is_array()) continue;
    json::Value stored;
    if (const auto text = value.string()) {
      stored = json::Value(*text);
    } else if (const auto flag = value.boolean()) {
      stored = json::Value(*flag);
    } else if (const auto integer = value.integer()) {
      stored = json::Value(*integer);
    } else if (const auto number = value.number()) {
      stored = json::Value(*number);
    }
    raw.append(std::string(key), std::move(stored));
  }
  return raw;
}

Result<const Architecture*> architecture_of(const GgufFile& file) {
  MET_ASSIGN(const auto name, file.string("general.architecture"));
  if (!name) return invalid("general.architecture", "metadata key general.architecture is missing");
  std::string known;
  for (const Architecture& row : kArchitectures) {
    if (row.name == *name) return &row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return unsupported("general.architecture", "general.architecture " + formats::shown(*name) +
                                                 " is not supported; supported: " + known);
}

Result<> refuse_parts(const GgufFile& file) {
  MET_ASSIGN(const auto parts, file.integer("split.count"));
  if (!parts || *parts <= 1) return {};
  return unsupported("split.count", "the file is one of " + std::to_string(*parts) +
                                        " parts of a split model; merge them into one file first");
}

}  // namespace

Result<ModelConfig> model_config_from_gguf(const GgufFile& file) {
  MET_TRY(refuse_parts(file));
  MET_ASSIGN(const Architecture* const architecture, architecture_of(file));
  const Reader in(file, architecture->name);
  ModelConfig out;
  out.model_type = architecture->model_type;
  MET_ASSIGN(const auto name, file.string("general.name"));
  if (name) out.name = *name;
  out.gguf = true;
  MET_TRY(read_sizes(in, out));
  out.layer.resize(static_cast<std::size_t>(out.layers));
  MET_TRY(architecture->experts ? read_experts(in, out) : refuse_experts(in));
  MET_TRY(read_rope(in, out));
  out.rope.interleaved = architecture->interleaved;
  out.qk_norm = architecture->qk_norm;
  read_tensors(in, out);
  const bool gemma = architecture->name == "gemma3";
  if (gemma) MET_TRY(read_gemma3(in, out));
  MET_TRY(read_windows(in, gemma ? kGemma3Pattern : 1, out));
  for (std::size_t i = 0; i < out.layer.size(); ++i) {
    out.layer[i].local_rope = gemma && out.layer[i].window > 0;
    if (architecture->name == "smollm3") out.layer[i].rope = (i + 1) % kSmolLm3NoRopeInterval != 0;
  }
  MET_TRY(read_ids(file, out));
  out.raw = raw_metadata(file);
  return out;
}

}  // namespace met::config
