#include "arch/cuda_model_builder.h"

#include "ops/gated_activation/gated_activation.h"
#include "ops/rope_kv/rope_frequencies.h"

namespace met::arch {

Result<gpu::DeviceMemory> CudaModelBuilder::norm(Role role, int layer, std::int64_t size) {
  return weights_.vector(name(role, layer) + ".weight", size, static_cast<float>(config_.norm_offset));
}

Result<> CudaModelBuilder::embedding() {
  MET_ASSIGN(model_.embedding,
             weights_.table({name(Role::kEmbedding), config_.vocabulary, config_.hidden, false}));
  return {};
}

Result<> CudaModelBuilder::attention(int layer, const AttentionPart& part) {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t q = std::int64_t{config_.heads} * config_.head_dim;
  const std::int64_t kv = std::int64_t{config_.kv_heads} * config_.head_dim;
  const bool bias = config_.attention_bias;
  layers::cuda::DecoderLayerWeights& out = model_.layers.emplace_back();
  MET_ASSIGN(out.attention_norm, norm(Role::kAttnNorm, layer, hidden));
  MET_ASSIGN(out.qkv, weights_.matrix({{name(Role::kQuery, layer), q, hidden, bias},
                                       {name(Role::kKey, layer), kv, hidden, bias},
                                       {name(Role::kValue, layer), kv, hidden, bias}}));
  MET_ASSIGN(out.out,
             weights_.matrix({{name(Role::kAttnOut, layer), hidden, q, config_.attention_out_bias}}));
  if (part.qk_norm) {
    MET_ASSIGN(out.q_norm, norm(Role::kQueryNorm, layer, config_.head_dim));
    MET_ASSIGN(out.k_norm, norm(Role::kKeyNorm, layer, config_.head_dim));
  }
  if (part.post_norm) {
    MET_ASSIGN(out.post_attention_norm, norm(Role::kPostAttnNorm, layer, hidden));
  }
  out.spec = {.heads = config_.heads,
              .kv_heads = config_.kv_heads,
              .head_dim = config_.head_dim,
              .window = part.window,
              .scale = attention_scale(part, config_.head_dim),
              .softcap = static_cast<float>(config_.attention_softcap),
              .norm_eps = static_cast<float>(config_.norm_eps)};
  if (weights_.kv_cache().of(layer, config_.layers) == DType::kF8E4M3)
    out.spec.kv_scales = weights_.finder().cache_scales(name(Role::kKey, layer), name(Role::kValue, layer));
  if (part.rope != nullptr) {
    MET_ASSIGN(out.spec.rope, ops::rope_frequencies(*part.rope, config_.head_dim));
    out.spec.interleaved = part.rope->interleaved;
  }
  if (weights_.checking() || out.spec.rope.inverse.empty()) return {};
  MET_ASSIGN(out.inverse, weights_.upload(out.spec.rope.inverse, "rope frequencies"));
  return {};
}

Result<> CudaModelBuilder::ffn(int layer, const FfnPart& part) {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t width = config_.ffn;
  layers::cuda::DecoderLayerWeights& out = model_.layers.back();
  MET_ASSIGN(out.ffn_norm, norm(Role::kFfnNorm, layer, hidden));
  MET_ASSIGN(out.gate_up, weights_.gated({name(Role::kGate, layer), width, hidden, config_.mlp_bias},
                                         {name(Role::kUp, layer), width, hidden, config_.mlp_bias}));
  MET_ASSIGN(out.down, weights_.matrix({{name(Role::kDown, layer), hidden, width, config_.mlp_bias}}));
  if (part.post_norm) {
    MET_ASSIGN(out.post_ffn_norm, norm(Role::kPostFfnNorm, layer, hidden));
  }
  out.activation = ops::gated_epilogue(config_.activation);
  return {};
}

Result<> CudaModelBuilder::moe(int layer) {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t width = config_.expert_ffn;
  layers::cuda::DecoderLayerWeights& out = model_.layers.back();
  MET_ASSIGN(out.ffn_norm, norm(Role::kFfnNorm, layer, hidden));
  MET_ASSIGN(out.moe.router, weights_.matrix({{name(Role::kRouter, layer), config_.experts, hidden, false}},
                                             /*keep=*/true));
  MET_ASSIGN(out.moe.gate_up,
             weights_.gated_experts({name(Role::kExpertGate, layer), width, hidden, false},
                                    {name(Role::kExpertUp, layer), width, hidden, false}, config_.experts));
  MET_ASSIGN(out.moe.down,
             weights_.experts({name(Role::kExpertDown, layer), hidden, width, false}, config_.experts));
  out.activation = ops::gated_epilogue(config_.activation);
  return {};
}

Result<> CudaModelBuilder::head() {
  MET_ASSIGN(model_.final_norm, norm(Role::kFinalNorm, -1, config_.hidden));
  if (config_.tied_head) return {};
  MET_ASSIGN(model_.head, weights_.matrix({{name(Role::kHead), config_.vocabulary, config_.hidden, false}},
                                          /*keep=*/true));
  return {};
}

}  // namespace met::arch
