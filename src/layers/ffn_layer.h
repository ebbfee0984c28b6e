// The gated feed-forward block with its norms and residual.
#pragma once

#include <memory>
#include <optional>

#include "layers/layer.h"
#include "layers/projection.h"
#include "ops/gated_activation/gated_activation.h"
#include "ops/rms_norm/rms_norm.h"

namespace met::layers {

/// hidden += post(down(act(gate(norm(hidden))) * up(norm(hidden))))
struct FfnSpec {
  config::Activation activation = config::Activation::kSilu;
  std::int64_t width = 0;
  float norm_eps = 0;
  float norm_offset = 0;
};

struct FfnWeights {
  Projection gate_up;  ///< gated (applies the activation itself), or plain halves [gate | up]
  Projection down;
  gpu::DeviceMemory post_norm;  ///< [hidden] F32; empty: none
};

class FfnLayer final : public TransformerLayer {
 public:
  static Result<std::unique_ptr<FfnLayer>> make(gpu::GpuBackend& device, const FfnSpec& spec,
                                                FfnWeights weights, std::int64_t hidden);
  Result<> forward(const StepBuffers& buffers, gpu::Stream stream) const override;

 private:
  FfnWeights weights_;
  std::optional<ops::GatedActivationPlan> activation_;  ///< absent where gate_up is gated
  std::optional<ops::RmsNormPlan> post_norm_;
};

}  // namespace met::layers
