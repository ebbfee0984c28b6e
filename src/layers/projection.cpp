#include "layers/projection.h"

namespace met::layers {

Result<> Projection::run(const ProjectionCall& call, gpu::Stream stream) const {
  for (const Part& part : parts_) {
    const std::size_t column_bytes = static_cast<std::size_t>(part.column) * sizeof(float);
    MET_TRY(ops::linear(part.plan,
                        {.x = call.x,
                         .weights = part.weights.data(),
                         .bias = part.bias.data(),
                         .norm_weight = norm_.data(),
                         .residual = call.residual ? call.residual + column_bytes : gpu::DevicePtr{},
                         .y = call.y + column_bytes,
                         .gather = call.gather,
                         .rows = call.rows,
                         .workspace = call.workspace},
                        stream));
  }
  return {};
}

}  // namespace met::layers
