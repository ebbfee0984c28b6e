#include "ops/linear/linear_launch.h"

#include "ops/kernel_lookup.h"

namespace met::ops {

Result<LinearPlan> plan_linear(gpu::GpuBackend& device, const LinearPack& pack, const LinearShape& shape) {
  LinearPlan plan{.device = &device, .pack = pack, .shape = shape};
  plan.kernel = look_up(device, pack.module, pack.entry);
  return plan;
}

Result<> linear(const LinearPlan& plan, const LinearTensors& t, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.note({.operation = "linear",
               .n = plan.pack.n,
               .k = plan.pack.k,
               .bytes = static_cast<std::int64_t>(plan.pack.packed_bytes)});
  push_linear(launch, plan, t);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops
