// What a model is made of: layers that each do their part of a step on the residual stream.
#pragma once

#include "gpu/backend.h"
#include "layers/step_buffers.h"

namespace met::layers {

class TransformerLayer {
 public:
  virtual ~TransformerLayer() = default;

  /// Enqueues the layer's kernels: reads and updates `buffers.hidden`. One virtual call a layer and step;
  /// nothing allocates, locks or looks a kernel up.
  virtual Result<> forward(const StepBuffers& buffers, gpu::Stream stream) const = 0;
};

}  // namespace met::layers
