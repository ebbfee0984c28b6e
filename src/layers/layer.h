// What a model is made of: layers that each do their part of a step on the residual stream.
#pragma once

#include <cstddef>

#include "gpu/backend.h"
#include "layers/step_buffers.h"

namespace met::layers {

class TransformerLayer {
 public:
  virtual ~TransformerLayer() = default;

  /// Enqueues the layer's kernels: reads and updates `buffers.hidden`. One virtual call a layer and step; nothing
  /// allocates, locks or looks a kernel up.
  virtual Result<> forward(const StepBuffers& buffers, gpu::Stream stream) const = 0;

  /// Bytes of StepBuffers::workspace that a step within `limits` needs.
  virtual std::size_t workspace_bytes(const StepLimits& limits) const = 0;
};

}  // namespace met::layers
