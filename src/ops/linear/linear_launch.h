// The operands of a linear product in launch order. Private to the launches.
#pragma once

#include "ops/linear/linear.h"

namespace met::ops {

inline void push_linear(gpu::KernelLaunch& launch, const LinearPlan& plan, const LinearTensors& t) {
  launch.buffer(t.x).buffer(t.weights).buffer(t.bias).buffer(t.norm_weight).buffer(t.residual).buffer(t.y);
  launch.buffer(t.gather).buffer(t.rows).buffer(t.workspace);
  launch.scalar(plan.pack.k).scalar(plan.pack.n).scalar(plan.shape.ldx).scalar(plan.shape.ldy);
  launch.scalar(plan.shape.norm_eps).scalar(plan.shape.norm_offset).scalar(plan.shape.epilogue);
  static_assert(sizeof(LinearArgs) == 120);
}

}  // namespace met::ops
