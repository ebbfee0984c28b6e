#include "met/ops.h"
#include "ops/kernel_lookup.h"
#include "ops/rms_norm/rms_norm.h"

namespace met::ops {

Result<RmsNormPlan> plan_rms_norm(gpu::GpuBackend& device, std::int64_t dim, float eps, float offset,
                                  bool add) {
  RmsNormPlan plan{.device = &device, .dim = dim, .eps = eps, .offset = offset, .add = add};
  plan.kernel = look_up(device, "rms_norm", "rms_norm");
  return plan;
}

Result<> rms_norm(const RmsNormPlan& plan, gpu::DevicePtr x, gpu::DevicePtr weight, gpu::DevicePtr y,
                  gpu::DevicePtr rows, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.note({.operation = "rms_norm"});
  launch.buffer(x).buffer(weight).buffer(y).buffer(rows);
  launch.scalar(plan.dim).scalar(plan.eps).scalar(plan.offset).scalar(std::int32_t{plan.add});
  static_assert(sizeof(RmsNormArgs) == 56);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops
