// What a checkpoint says about itself, in one form for config.json and for GGUF metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/json.h"

namespace met::config {

enum class RopeKind { kNone, kPlain, kLinear, kLlama3, kYarn, kLongRope, kDynamic };

/// Rotary position embedding of one kind of layer. Sources: RoFormer arXiv:2104.09864; YaRN arXiv:2309.00071;
/// the llama3 rule as in Meta's release. Members not used by `kind` keep their defaults.
struct RopeConfig {
  RopeKind kind = RopeKind::kPlain;
  double theta = 10000;
  double partial_factor = 1.0;  ///< share of head_dim that rotates
  double factor = 1.0;
  double low_freq_factor = 1.0;   ///< llama3
  double high_freq_factor = 4.0;  ///< llama3
  double original_max_positions = 0;
  double beta_fast = 32;  ///< yarn
  double beta_slow = 1;
  double attention_factor = 0;  ///< yarn: 0 means 0.1 ln(factor) + 1
  double mscale = 0;
  double mscale_all_dim = 0;
  bool truncate = true;
  bool interleaved = false;          ///< pairs (2i, 2i+1), as in llama GGUF files, instead of halves
  std::vector<double> long_factors;  ///< longrope
  std::vector<double> short_factors;
  std::vector<float> freq_factors;  ///< GGUF rope_freqs.weight: divides each inverse frequency
};

enum class Activation { kSilu, kGeluTanh };

/// E4M3 matrices of a safetensors checkpoint, with scales beside them: "<matrix>.weight" = number * "<matrix>.<scales>".
struct Fp8Weights {
  enum class Granularity { kTensor, kRow, kBlock };
  Granularity granularity = Granularity::kTensor;
  std::string scales;                 ///< "weight_scale" or "weight_scale_inv"
  std::vector<std::string> excluded;  ///< modules whose matrices are plain floats, by full name or last part
};
/// Rows and columns of a matrix that share a scale with kBlock.
inline constexpr std::int64_t kFp8Block = 128;

/// One layer's attention pattern.
struct LayerConfig {
  int window = 0;           ///< sliding window in positions; 0: full
  bool rope = true;         ///< false: no position embedding on this layer (smollm3)
  bool local_rope = false;  ///< uses `rope_local` (gemma3 sliding layers)
  bool sparse = false;      ///< a mixture of experts in place of the dense feed-forward block
};

struct ModelConfig {
  std::string model_type;  ///< lower case, '-' and '.' as '_': "llama", "qwen3", "gemma3_text"
  std::string name;        ///< general.name or the directory's name, for messages and match_names
  int hidden = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  int experts = 0;  ///< of each sparse layer; 0: there are none
  int experts_per_token = 0;
  int expert_ffn = 0;
  bool renormalise_experts = false;  ///< the weights of a token's experts are made to sum to 1
  int vocabulary = 0;
  int max_positions = 0;
  double norm_eps = 1e-5;
  double norm_offset = 0;  ///< 1 where norm weights are stored minus one (gemma safetensors)
  Activation activation = Activation::kSilu;
  bool tied_head = false;
  bool attention_bias = false;  ///< bias on q, k, v
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool post_norms = false;  ///< gemma: norms after attention and ffn, before the residual
  double embedding_scale = 1.0;
  double attention_scale = 0;  ///< 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;
  double logit_softcap = 0;
  double logit_scale = 1.0;
  double query_scale_beta = 0;  ///< ministral3: q *= 1 + beta ln(1 + floor(p / rope.original_max_positions))
  RopeConfig rope;
  RopeConfig rope_local;
  std::vector<LayerConfig> layer;     ///< size `layers`
  DType weight_dtype = DType::kBF16;  ///< declared storage type of safetensors
  std::optional<Fp8Weights> fp8;      ///< matrices may be E4M3
  bool gguf = false;                  ///< tensor names and q/k row order follow llama.cpp's conversion
  std::vector<std::int32_t> eos_ids;
  std::optional<std::int32_t> bos_id;
  std::optional<std::int32_t> pad_id;
  json::Value raw;  ///< config.json as read, or the GGUF metadata without arrays
};

/// Sampling defaults and end ids of generation_config.json; absent members are empty.
struct GenerationDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<int> top_k;
  std::optional<double> repetition_penalty;
  std::optional<bool> do_sample;
  std::vector<std::int32_t> eos_ids;
};

}  // namespace met::config
