#include "ops/kernel_lookup.h"
#include "ops/linear/linear.h"

namespace met::ops {

Result<LinearPlan> plan_linear(gpu::GpuBackend& device, const LinearPack& pack, const LinearShape& shape) {
  LinearPlan plan{.device = &device, .pack = pack, .shape = shape};
  plan.kernel = look_up(device, pack.module, pack.entry);
  return plan;
}

Result<> linear(const LinearPlan& plan, const LinearTensors& t, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.buffer(t.x).buffer(t.weights).buffer(t.bias).buffer(t.norm_weight).buffer(t.residual).buffer(t.y);
  launch.buffer(t.gather).buffer(t.rows).buffer(t.workspace);
  launch.scalar(plan.pack.k).scalar(plan.pack.n).scalar(plan.shape.ldx).scalar(plan.shape.ldy);
  launch.scalar(plan.shape.norm_eps).scalar(plan.shape.norm_offset).scalar(plan.shape.epilogue);
  static_assert(sizeof(LinearArgs) == 120);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops
