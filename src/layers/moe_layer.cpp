#include "layers/moe_layer.h"

namespace met::layers {

Result<std::unique_ptr<MoeLayer>> MoeLayer::make(gpu::GpuBackend& device, const MoeSpec& spec,
                                                 MoeWeights weights, std::int64_t hidden) {
  auto layer = std::make_unique<MoeLayer>();
  MET_ASSIGN(layer->route_, ops::plan_moe_route(device, spec.experts, spec.top_k, spec.renormalise));
  MET_ASSIGN(layer->sum_, ops::plan_expert_sum(device, hidden, spec.top_k));
  layer->weights_ = std::move(weights);
  return layer;
}

Result<> MoeLayer::forward(const StepBuffers& b, gpu::Stream stream) const {
  MET_TRY(weights_.router.run({.x = b.hidden, .y = b.router, .rows = b.tokens(), .workspace = b.workspace},
                              stream));
  MET_TRY(ops::moe_route(route_, b.router, b.pairs, b.tokens(), stream));
  MET_TRY(ops::expert_linear(weights_.gate_up.plan,
                             {.x = b.hidden,
                              .weights = weights_.gate_up.weights.data(),
                              .norm_weight = weights_.norm.data(),
                              .y = b.expert_ffn,
                              .gather = b.pairs.tokens,
                              .workspace = b.workspace},
                             b.pairs, stream));
  MET_TRY(ops::expert_linear(weights_.down.plan,
                             {.x = b.expert_ffn,
                              .weights = weights_.down.weights.data(),
                              .y = b.expert_out,
                              .workspace = b.workspace},
                             b.pairs, stream));
  return ops::expert_sum(sum_, b.expert_out, b.pairs, b.hidden, b.tokens(), stream);
}

}  // namespace met::layers
