// Router of a mixture-of-experts layer on CUDA devices.
#pragma once

#include "gpu/backend.h"
#include "met/moe_ops.h"

namespace met::ops::cuda {

/// Formula, rounding and cost: kernels/nvidia/common/moe_router.cu, moe_choose.cu. A row's choice depends on nothing else in
/// the step.
///
/// Errors   kUnsupported for a hidden size that is no multiple of 32, more than 512 experts or a top_k beyond 32 or
///          the experts.
struct MoeRouterShape {
  int hidden = 0;
  int experts = 0;
  int top_k = 0;
  int tokens_max = 0;
};

struct MoeRouterPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  gpu::Dim3 grid, block, cluster;
  MoeRouterShape shape;
  bool orders = true;  ///< the pairs; else it writes MoeRouterArgs::choices
  /// Bytes of MoeRouterArgs::logits and ::finished where it orders; the latter zero at first.
  std::size_t logits_bytes() const {
    return sizeof(float) * static_cast<std::size_t>(shape.tokens_max) *
           static_cast<std::size_t>(shape.experts);
  }
  std::size_t finished_bytes() const {
    return sizeof(std::int32_t) * (static_cast<std::size_t>(shape.tokens_max + 15) / 16 + 1);
  }
};

Result<MoeRouterPlan> plan_moe_router(gpu::GpuBackend& device, const MoeRouterShape& shape);
/// The sizes in `args` are the plan's.
Result<> moe_router(const MoeRouterPlan& plan, const MoeRouterArgs& args, gpu::Stream stream);
gpu::KernelLaunch moe_router_launch(const MoeRouterPlan& plan, const MoeRouterArgs& args);

}  // namespace met::ops::cuda
