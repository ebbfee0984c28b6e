// A matrix of the model on the device, ready to multiply: one or several weight matrices that read the same
// rows.
#pragma once

#include <vector>

#include "gpu/device_memory.h"
#include "ops/linear/linear.h"

namespace met::layers {

/// Operands of one run; those left out are null. Meaning: ops/linear/linear.h.
struct ProjectionCall {
  gpu::DevicePtr x;
  gpu::DevicePtr gather;
  gpu::DevicePtr residual;
  gpu::DevicePtr y;
  gpu::DevicePtr rows;
  gpu::DevicePtr workspace;
};

/// y[:, part] = W_part · norm(x). Parts of one storage type are one matrix; parts that differ (a mixed GGUF
/// file) are one launch each, writing their own columns of y.
class Projection {
 public:
  struct Part {
    ops::LinearPlan plan;
    gpu::DeviceMemory weights;
    gpu::DeviceMemory bias;   ///< [n] F32 or empty
    std::int64_t column = 0;  ///< of y
  };

  Projection() = default;
  /// `norm` may be empty; with `residual` every run adds ProjectionCall::residual.
  Projection(std::vector<Part> parts, gpu::DeviceMemory norm, bool gated)
      : parts_(std::move(parts)), norm_(std::move(norm)), gated_(gated) {}

  Result<> run(const ProjectionCall& call, gpu::Stream stream) const;
  /// The activation of a feed-forward block is part of the kernel.
  bool gated() const { return gated_; }

 private:
  std::vector<Part> parts_;
  gpu::DeviceMemory norm_;
  bool gated_ = false;
};

}  // namespace met::layers
