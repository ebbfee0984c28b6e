#include "ops/gated_activation/gated_activation.h"
#include "ops/kernel_lookup.h"

namespace met::ops {

Result<GatedActivationPlan> plan_gated_activation(gpu::GpuBackend& device, std::int64_t width,
                                                  Epilogue activation) {
  GatedActivationPlan plan{.device = &device, .width = width, .activation = activation};
  plan.kernel = look_up(device, "gated_activation", "gated_activation");
  return plan;
}

Result<> gated_activation(const GatedActivationPlan& plan, gpu::DevicePtr x, gpu::DevicePtr y,
                          gpu::DevicePtr rows, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.note({.operation = "gated_activation"});
  launch.buffer(x).buffer(y).buffer(rows).scalar(plan.width).scalar(plan.activation);
  static_assert(sizeof(GatedActivationArgs) == 40);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops
