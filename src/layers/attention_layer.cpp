#include "layers/attention_layer.h"

namespace met::layers {

Result<std::unique_ptr<AttentionLayer>> AttentionLayer::make(gpu::GpuBackend& device,
                                                             const AttentionSpec& spec,
                                                             AttentionWeights weights, std::int64_t hidden) {
  auto layer = std::make_unique<AttentionLayer>();
  layer->spec_ = spec;
  MET_ASSIGN(layer->rope_kv_, ops::plan_rope_kv(device,
                                                {.heads = spec.heads,
                                                 .kv_heads = spec.kv_heads,
                                                 .head_dim = spec.head_dim,
                                                 .interleaved = spec.interleaved,
                                                 .norm_eps = spec.norm_eps,
                                                 .norm_offset = spec.norm_offset,
                                                 .cache = spec.cache,
                                                 .scales = spec.kv_scales},
                                                spec.rope));
  MET_ASSIGN(layer->attention_, ops::plan_attention(device, {.heads = spec.heads,
                                                             .kv_heads = spec.kv_heads,
                                                             .head_dim = spec.head_dim,
                                                             .window = spec.window,
                                                             .scale = spec.scale,
                                                             .softcap = spec.softcap,
                                                             .cache = spec.cache,
                                                             .scales = spec.kv_scales}));
  if (weights.post_norm) {
    MET_ASSIGN(layer->post_norm_,
               ops::plan_rms_norm(device, hidden, spec.norm_eps, spec.norm_offset, /*add=*/true));
  }
  layer->weights_ = std::move(weights);
  return layer;
}

Result<> AttentionLayer::forward(const StepBuffers& b, gpu::Stream stream) const {
  MET_TRY(
      weights_.qkv.run({.x = b.hidden, .y = b.qkv, .rows = b.tokens(), .workspace = b.workspace}, stream));
  MET_TRY(ops::rope_kv(rope_kv_,
                       {.qkv = b.qkv,
                        .q_norm = weights_.q_norm.data(),
                        .k_norm = weights_.k_norm.data(),
                        .inverse = weights_.inverse.data(),
                        .k_cache = cache_.k,
                        .v_cache = cache_.v,
                        .rows = b.rows,
                        .block_table = b.block_table,
                        .counts = b.counts},
                       stream));
  MET_TRY(ops::attention(attention_,
                         {.qkv = b.qkv,
                          .k_cache = cache_.k,
                          .v_cache = cache_.v,
                          .y = b.attention,
                          .rows = b.rows,
                          .block_table = b.block_table,
                          .counts = b.counts,
                          .workspace = b.workspace},
                         stream));
  if (!post_norm_)
    return weights_.out.run(
        {.x = b.attention, .residual = b.hidden, .y = b.hidden, .rows = b.tokens(), .workspace = b.workspace},
        stream);
  MET_TRY(weights_.out.run({.x = b.attention, .y = b.branch, .rows = b.tokens(), .workspace = b.workspace},
                           stream));
  return ops::rms_norm(*post_norm_, b.branch, weights_.post_norm.data(), b.hidden, b.tokens(), stream);
}

}  // namespace met::layers
