#include "met/ops.h"
#include "ops/embedding/embedding.h"
#include "ops/kernel_lookup.h"

namespace met::ops {

Result<EmbeddingPlan> plan_embedding(gpu::GpuBackend& device, const LinearPack& table, float scale) {
  EmbeddingPlan plan{.device = &device, .dim = table.k, .vocabulary = table.n, .scale = scale};
  plan.kernel = look_up(device, table.embedding_module, table.embedding_entry);
  return plan;
}

Result<> embedding(const EmbeddingPlan& plan, gpu::DevicePtr ids, gpu::DevicePtr table, gpu::DevicePtr tokens,
                   gpu::DevicePtr y, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.note({.operation = "embedding"});
  launch.buffer(ids).buffer(table).buffer(y).buffer(tokens);
  launch.scalar(plan.dim).scalar(plan.vocabulary).scalar(plan.scale);
  static_assert(sizeof(EmbeddingArgs) == 56);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops
