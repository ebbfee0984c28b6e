#include "arch/host_model_builder.h"

namespace met::arch {

HostModelBuilder::HostModelBuilder(const config::ModelConfig& config, layers::WeightLoader& weights,
                                   std::span<const WeightName> names)
    : config_(config), weights_(weights), names_(config.gguf ? gguf_names() : names) {}

ops::LinearShape HostModelBuilder::shape(std::int64_t ldx, std::int64_t ldy, Epilogue epilogue) const {
  return {.ldx = ldx,
          .ldy = ldy,
          .norm_eps = static_cast<float>(config_.norm_eps),
          .norm_offset = static_cast<float>(config_.norm_offset),
          .epilogue = epilogue};
}

Result<> HostModelBuilder::embedding() {
  MET_ASSIGN(layers::WeightLoader::Table table,
             weights_.table({.name = name(Role::kEmbedding), .n = config_.vocabulary, .k = config_.hidden}));
  embedding_pack_ = table.pack;
  if (weights_.checking()) return {};
  MET_ASSIGN(embedding_.plan,
             ops::plan_embedding(weights_.device(), table.pack, static_cast<float>(config_.embedding_scale)));
  embedding_.owned = std::move(table.data);
  embedding_.table = embedding_.owned.data();
  return {};
}

Result<> HostModelBuilder::attention(int layer, const AttentionPart& part) {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t q = std::int64_t{config_.heads} * config_.head_dim;
  const std::int64_t kv = std::int64_t{config_.kv_heads} * config_.head_dim;
  layers::AttentionWeights weights;
  const bool bias = config_.attention_bias;
  MET_ASSIGN(weights.qkv,
             weights_.projection({{name(Role::kQuery, layer), q, hidden, bias},
                                  {name(Role::kKey, layer), kv, hidden, bias},
                                  {name(Role::kValue, layer), kv, hidden, bias}},
                                 name(Role::kAttnNorm, layer) + ".weight", shape(hidden, q + 2 * kv)));
  const Epilogue residual = part.post_norm ? Epilogue::kStore : Epilogue::kResidual;
  MET_ASSIGN(weights.out,
             weights_.projection({{name(Role::kAttnOut, layer), hidden, q, config_.attention_out_bias}}, "",
                                 shape(q, hidden, residual)));
  if (part.qk_norm) {
    MET_ASSIGN(weights.q_norm, weights_.vector(name(Role::kQueryNorm, layer) + ".weight", config_.head_dim));
    MET_ASSIGN(weights.k_norm, weights_.vector(name(Role::kKeyNorm, layer) + ".weight", config_.head_dim));
  }
  if (part.post_norm) {
    MET_ASSIGN(weights.post_norm, weights_.vector(name(Role::kPostAttnNorm, layer) + ".weight", hidden));
  }
  layers::AttentionSpec spec{.heads = config_.heads,
                             .kv_heads = config_.kv_heads,
                             .head_dim = config_.head_dim,
                             .window = part.window,
                             .scale = attention_scale(part, config_.head_dim),
                             .softcap = static_cast<float>(config_.attention_softcap),
                             .norm_eps = static_cast<float>(config_.norm_eps),
                             .norm_offset = static_cast<float>(config_.norm_offset),
                             .cache = weights_.kv_cache().of(layer, config_.layers)};
  if (spec.cache == DType::kF8E4M3)
    spec.kv_scales = weights_.finder().cache_scales(name(Role::kKey, layer), name(Role::kValue, layer));
  if (part.rope != nullptr) {
    MET_ASSIGN(spec.rope, ops::rope_frequencies(*part.rope, config_.head_dim));
    spec.interleaved = part.rope->interleaved;
  }
  if (weights_.checking()) return {};
  if (!spec.rope.inverse.empty()) {
    MET_ASSIGN(weights.inverse, weights_.upload(spec.rope.inverse, "rope frequencies"));
  }
  MET_ASSIGN(auto built, layers::AttentionLayer::make(weights_.device(), spec, std::move(weights), hidden));
  attention_.push_back(built.get());
  stack_.push_back(std::move(built));
  return {};
}

Result<> HostModelBuilder::ffn(int layer, const FfnPart& part) {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t width = config_.ffn;
  layers::FfnWeights weights;
  MET_ASSIGN(weights.gate_up, weights_.gate_up({name(Role::kGate, layer), width, hidden, config_.mlp_bias},
                                               {name(Role::kUp, layer), width, hidden, config_.mlp_bias},
                                               name(Role::kFfnNorm, layer) + ".weight", shape(hidden, width),
                                               ops::gated_epilogue(config_.activation)));
  const Epilogue residual = part.post_norm ? Epilogue::kStore : Epilogue::kResidual;
  MET_ASSIGN(weights.down, weights_.projection({{name(Role::kDown, layer), hidden, width, config_.mlp_bias}},
                                               "", shape(width, hidden, residual)));
  if (part.post_norm) {
    MET_ASSIGN(weights.post_norm, weights_.vector(name(Role::kPostFfnNorm, layer) + ".weight", hidden));
  }
  if (weights_.checking()) return {};
  const layers::FfnSpec spec{.activation = config_.activation,
                             .width = width,
                             .norm_eps = static_cast<float>(config_.norm_eps),
                             .norm_offset = static_cast<float>(config_.norm_offset)};
  MET_ASSIGN(auto built, layers::FfnLayer::make(weights_.device(), spec, std::move(weights), hidden));
  stack_.push_back(std::move(built));
  return {};
}

Result<> HostModelBuilder::moe(int layer) {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t width = config_.expert_ffn;
  const int top_k = config_.experts_per_token;
  const std::string norm = name(Role::kFfnNorm, layer) + ".weight";
  layers::MoeWeights weights;
  MET_ASSIGN(weights.router,
             weights_.projection({{name(Role::kRouter, layer), config_.experts, hidden, false}}, norm,
                                 shape(hidden, config_.experts)));
  MET_ASSIGN(weights.norm, weights_.vector(norm, hidden));
  MET_ASSIGN(
      weights.gate_up,
      weights_.experts(
          {{name(Role::kExpertGate, layer), width, hidden}, {name(Role::kExpertUp, layer), width, hidden}},
          config_.experts, top_k, shape(hidden, width, ops::gated_epilogue(config_.activation))));
  MET_ASSIGN(weights.down, weights_.experts({{name(Role::kExpertDown, layer), hidden, width}},
                                            config_.experts, top_k, shape(width, hidden)));
  if (weights_.checking()) return {};
  const layers::MoeSpec spec{
      .experts = config_.experts, .top_k = top_k, .renormalise = config_.renormalise_experts};
  MET_ASSIGN(auto built, layers::MoeLayer::make(weights_.device(), spec, std::move(weights), hidden));
  stack_.push_back(std::move(built));
  return {};
}

Result<> HostModelBuilder::head() {
  const std::string norm = name(Role::kFinalNorm) + ".weight";
  const ops::LinearShape linear = shape(config_.hidden, config_.vocabulary);
  if (!config_.tied_head) {
    MET_ASSIGN(head_, weights_.projection({{name(Role::kHead), config_.vocabulary, config_.hidden, false}},
                                          norm, linear));
    return {};
  }
  MET_ASSIGN(gpu::DeviceMemory weight, weights_.vector(norm, config_.hidden));
  if (weights_.checking()) return {};
  std::vector<layers::Projection::Part> parts(1);
  MET_ASSIGN(parts[0].plan, ops::plan_linear(weights_.device(), embedding_pack_, linear));
  parts[0].weights = std::move(embedding_.owned);
  head_ = layers::Projection(std::move(parts), std::move(weight), /*gated=*/false);
  return {};
}

std::unique_ptr<Model> HostModelBuilder::finish() {
  return std::make_unique<Model>(config_, std::move(embedding_), std::move(stack_), std::move(attention_),
                                 std::move(head_));
}

}  // namespace met::arch
