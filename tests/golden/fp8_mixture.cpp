#include "tests/golden/fp8_mixture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "tests/formats/safetensors_builder.h"
#include "tests/golden/support.h"

namespace met::golden {

namespace fs = std::filesystem;

namespace {

using Granularity = Fp8Mixture::Granularity;

constexpr std::int64_t kHidden = 288, kWidth = 160, kDense = 320, kHeadDim = 32, kHeads = 4, kKvHeads = 2,
                       kVocabulary = 384;
constexpr int kLayers = 3, kExperts = 8, kDenseLayer = 1;
constexpr float kE4m3Max = 448;

constexpr const char* kConfig = R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe",
"attention_bias":false,"bos_token_id":null,"eos_token_id":367,"pad_token_id":365,"decoder_sparse_step":1,
"head_dim":32,"hidden_act":"silu","hidden_size":288,"intermediate_size":320,"max_position_embeddings":512,
"mlp_only_layers":[1],"moe_intermediate_size":160,"norm_topk_prob":true,"num_attention_heads":4,
"num_experts_per_tok":2,"num_experts":8,"num_hidden_layers":3,"num_key_value_heads":2,"rms_norm_eps":1e-06,
"sliding_window":null,"use_sliding_window":false,"tie_word_embeddings":false,"vocab_size":384,
"rope_theta":1000000.0,"rope_scaling":null,"torch_dtype":"bfloat16")";

std::string quantization(Granularity granularity) {
  if (granularity == Granularity::kBlock)
    return R"({"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic","weight_block_size":[128,128],)"
           R"("modules_to_not_convert":["lm_head"]})";
  const std::string strategy = granularity == Granularity::kRow ? "channel" : "tensor";
  return R"({"quant_method":"compressed-tensors","format":"float-quantized","quantization_status":"compressed",)"
         R"("ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,)"
         R"("type":"float","symmetric":true,"strategy":")" +
         strategy + R"(","dynamic":false}}}})";
}

class Tensors {
 public:
  void add(const std::string& name, const char* type, const std::vector<std::int64_t>& shape,
           const std::string& bytes) {
    header_ += (header_.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":")" + type + R"(","shape":[)";
    for (std::size_t i = 0; i < shape.size(); ++i) header_ += (i > 0 ? "," : "") + std::to_string(shape[i]);
    header_ += "],\"data_offsets\":[" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + bytes.size()) + "]}";
    data_ += bytes;
  }
  void write(const fs::path& folder) const {
    std::ofstream(folder / "model.safetensors", std::ios::binary)
        << met::testing::safetensors(header_ + "}", data_);
  }

 private:
  std::string header_, data_;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class Writer {
 public:
  explicit Writer(Granularity granularity) : granularity_(granularity) {}

  void vector(const std::string& name, std::int64_t size) {
    std::vector<std::uint16_t> values;
    for (std::int64_t i = 0; i < size; ++i)
      values.push_back(f32_to_bf16(std::uniform_real_distribution<float>(0.75F, 1.25F)(random_)));
    both(name, {size}, values);
  }
  /// A matrix that no quantisation touches; sums over k are about `magnitude`.
  void plain(const std::string& name, std::int64_t n, std::int64_t k, float magnitude) {
    std::vector<std::uint16_t> values;
    for (const float v : normal(n, k, magnitude)) values.push_back(f32_to_bf16(v));
    both(name, {n, k}, values);
  }
  void matrix(const std::string& name, std::int64_t n, std::int64_t k, float magnitude = 1) {
    const std::vector<float> values = normal(n, k, magnitude);
    const bool blocks = granularity_ == Granularity::kBlock;
    const std::int64_t rows = blocks ? 128 : granularity_ == Granularity::kRow ? 1 : n;
    const std::int64_t columns = blocks ? 128 : k;
    const std::int64_t groups = (k + columns - 1) / columns;
    const auto scale_of = [&](std::int64_t i) {
      return static_cast<std::size_t>(i / k / rows * groups + i % k / columns);
    };
    std::vector<float> scales(static_cast<std::size_t>((n + rows - 1) / rows * groups), 0.0F);
    for (std::int64_t i = 0; i < n * k; ++i)
      scales[scale_of(i)] =
          std::max(scales[scale_of(i)], std::abs(values[static_cast<std::size_t>(i)]) / kE4m3Max);
    std::vector<std::uint8_t> codes;
    std::vector<float> meant;
    for (std::int64_t i = 0; i < n * k; ++i) {
      const float scale = scales[scale_of(i)];
      codes.push_back(f32_to_f8e4m3(values[static_cast<std::size_t>(i)] / scale));
      meant.push_back(f8e4m3_to_f32(codes.back()) * scale);
    }
    fp8_.add(name + ".weight", "F8_E4M3", {n, k}, bytes_of(codes));
    const auto count = static_cast<std::int64_t>(scales.size());
    fp8_.add(name + (blocks ? ".weight_scale_inv" : ".weight_scale"), "F32",
             granularity_ == Granularity::kTensor ? std::vector<std::int64_t>{1}
                                                  : std::vector<std::int64_t>{count / groups, groups},
             bytes_of(scales));
    floats_.add(name + ".weight", "F32", {n, k}, bytes_of(meant));
  }
  void write(const fs::path& fp8, const fs::path& floats) const {
    fp8_.write(fp8);
    floats_.write(floats);
  }

 private:
  std::vector<float> normal(std::int64_t n, std::int64_t k, float magnitude) {
    std::normal_distribution<float> value(0, magnitude / std::sqrt(static_cast<float>(k)));
    std::vector<float> out;
    for (std::int64_t i = 0; i < n * k; ++i) out.push_back(value(random_));
    return out;
  }
  void both(const std::string& name, const std::vector<std::int64_t>& shape,
            const std::vector<std::uint16_t>& values) {
    for (Tensors* to : {&fp8_, &floats_}) to->add(name + ".weight", "BF16", shape, bytes_of(values));
  }

  Granularity granularity_;
  std::mt19937 random_{20};
  Tensors fp8_, floats_;
};

void feed_forward(Writer& w, const std::string& name, std::int64_t width) {
  w.matrix(name + ".gate_proj", width, kHidden);
  w.matrix(name + ".up_proj", width, kHidden);
  w.matrix(name + ".down_proj", kHidden, width);
}

void layer(Writer& w, int number) {
  const std::string name = "model.layers." + std::to_string(number);
  w.vector(name + ".input_layernorm", kHidden);
  w.vector(name + ".post_attention_layernorm", kHidden);
  const std::string attention = name + ".self_attn";
  w.matrix(attention + ".q_proj", kHeads * kHeadDim, kHidden);
  w.matrix(attention + ".k_proj", kKvHeads * kHeadDim, kHidden);
  w.matrix(attention + ".v_proj", kKvHeads * kHeadDim, kHidden);
  w.matrix(attention + ".o_proj", kHidden, kHeads * kHeadDim);
  w.vector(attention + ".q_norm", kHeadDim);
  w.vector(attention + ".k_norm", kHeadDim);
  if (number == kDenseLayer) return feed_forward(w, name + ".mlp", kDense);
  // Far apart logits: what a rounding may turn around counts for little.
  w.plain(name + ".mlp.gate", kExperts, kHidden, 4);
  for (int e = 0; e < kExperts; ++e) feed_forward(w, name + ".mlp.experts." + std::to_string(e), kWidth);
}

}  // namespace

Fp8Mixture::Fp8Mixture(Granularity granularity)
    : folder_(fs::path(::testing::TempDir()) / ("met_fp8_mixture_" + std::to_string(getpid()))) {
  fs::remove_all(folder_);
  for (const fs::path& to : {fp8(), floats()}) {
    fs::create_directories(to);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy(fs::path(checkpoint_path("qwen3_moe-a")) / file, to);
    std::ofstream(to / "config.json")
        << kConfig << (to == fp8() ? ",\"quantization_config\":" + quantization(granularity) : "") << "}";
  }
  Writer w(granularity);
  w.plain("model.embed_tokens", kVocabulary, kHidden, 16);
  for (int i = 0; i < kLayers; ++i) layer(w, i);
  w.vector("model.norm", kHidden);
  w.plain("lm_head", kVocabulary, kHidden, 4);
  w.write(fp8(), floats());
}

}  // namespace met::golden
