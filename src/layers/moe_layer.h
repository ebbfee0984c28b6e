// A mixture of experts with its norm, router and residual.
#pragma once

#include <memory>

#include "layers/layer.h"
#include "layers/projection.h"
#include "ops/moe/moe.h"

namespace met::layers {

/// hidden += sum over the chosen experts e of weight_e * down_e(act(gate_e(norm(hidden))) * up_e(norm(hidden)))
struct MoeSpec {
  int experts = 0;
  int top_k = 0;
  bool renormalise = false;
};

/// The matrices of all experts for one product.
struct ExpertProjection {
  ops::ExpertLinearPlan plan;
  gpu::DeviceMemory weights;
};

struct MoeWeights {
  Projection router;         ///< the layer's norm folded in
  gpu::DeviceMemory norm;    ///< [hidden] F32, of gate_up
  ExpertProjection gate_up;  ///< gated
  ExpertProjection down;
};

class MoeLayer final : public TransformerLayer {
 public:
  static Result<std::unique_ptr<MoeLayer>> make(gpu::GpuBackend& device, const MoeSpec& spec,
                                                MoeWeights weights, std::int64_t hidden);
  Result<> forward(const StepBuffers& buffers, gpu::Stream stream) const override;

 private:
  MoeWeights weights_;
  ops::MoeRoutePlan route_;
  ops::ExpertSumPlan sum_;
};

}  // namespace met::layers
