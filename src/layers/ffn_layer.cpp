#include "layers/ffn_layer.h"

namespace met::layers {

Result<std::unique_ptr<FfnLayer>> FfnLayer::make(gpu::GpuBackend& device, const FfnSpec& spec,
                                                 FfnWeights weights, std::int64_t hidden) {
  auto layer = std::make_unique<FfnLayer>();
  if (!weights.gate_up.gated()) {
    MET_ASSIGN(layer->activation_,
               ops::plan_gated_activation(device, spec.width, ops::gated_epilogue(spec.activation)));
  }
  if (weights.post_norm) {
    MET_ASSIGN(layer->post_norm_,
               ops::plan_rms_norm(device, hidden, spec.norm_eps, spec.norm_offset, /*add=*/true));
  }
  layer->weights_ = std::move(weights);
  return layer;
}

Result<> FfnLayer::forward(const StepBuffers& b, gpu::Stream stream) const {
  const gpu::DevicePtr wide = activation_ ? b.gate_up : b.ffn;
  MET_TRY(
      weights_.gate_up.run({.x = b.hidden, .y = wide, .rows = b.tokens(), .workspace = b.workspace}, stream));
  if (activation_) MET_TRY(ops::gated_activation(*activation_, b.gate_up, b.ffn, b.tokens(), stream));
  if (!post_norm_)
    return weights_.down.run(
        {.x = b.ffn, .residual = b.hidden, .y = b.hidden, .rows = b.tokens(), .workspace = b.workspace},
        stream);
  MET_TRY(
      weights_.down.run({.x = b.ffn, .y = b.branch, .rows = b.tokens(), .workspace = b.workspace}, stream));
  return ops::rms_norm(*post_norm_, b.branch, weights_.post_norm.data(), b.hidden, b.tokens(), stream);
}

}  // namespace met::layers
