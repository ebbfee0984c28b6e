#include "ops/cuda/moe_router.h"

#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/nvidia/common/moe_router.cu.
constexpr std::uint32_t kThreads = 256;
constexpr int kTokens = 16;
constexpr int kGroup = 8;
constexpr int kStep = 32;
constexpr int kExpertsMax = 512;
constexpr int kTopMax = 32;
/// Up to here blocks share a row's experts: there are too few rows to fill the device.
constexpr int kNarrowTokens = 512;

// As kernels/nvidia/common/moe_choose.cu.
constexpr std::uint32_t kChooseThreads = 512;
constexpr std::uint32_t kChooseBlocks = 8;

}  // namespace

Result<MoeRouterPlan> plan_moe_router(gpu::GpuBackend& device, const MoeRouterShape& shape) {
  if (shape.hidden < kStep || shape.hidden % kStep != 0)
    return unsupported("hidden_size",
                       "a mixture of experts needs a multiple of 32, not " + std::to_string(shape.hidden));
  if (shape.experts < 1 || shape.experts > kExpertsMax)
    return unsupported("num_experts", "must be 1 to 512, is " + std::to_string(shape.experts));
  if (shape.top_k < 1 || shape.top_k > kTopMax || shape.top_k > shape.experts)
    return unsupported("num_experts_per_tok",
                       "must be 1 to 32 and at most the experts, is " + std::to_string(shape.top_k));
  const auto tiles = static_cast<std::uint32_t>((shape.tokens_max + kTokens - 1) / kTokens);
  if (shape.tokens_max <= kMoeOrderTokens && shape.tokens_max * shape.top_k <= kMoeOrderPairs &&
      shape.experts <= kMoeOrderExperts)
    return MoeRouterPlan{.device = &device,
                         .kernel = look_up(device, "moe_choose", "moe_choose"),
                         .grid = {kChooseBlocks, tiles},
                         .block = {kChooseThreads},
                         .cluster = {kChooseBlocks},
                         .shape = shape,
                         .orders = false};
  const bool narrow = shape.tokens_max <= kNarrowTokens;
  const auto groups = static_cast<std::uint32_t>(narrow ? (shape.experts + kGroup - 1) / kGroup : 1);
  return MoeRouterPlan{.device = &device,
                       .kernel = look_up(device, "moe_router", narrow ? "moe_router" : "moe_router_wide"),
                       .grid = {tiles, groups},
                       .block = {kThreads},
                       .shape = shape};
}

gpu::KernelLaunch moe_router_launch(const MoeRouterPlan& plan, const MoeRouterArgs& args) {
  MET_CHECK(args.hidden == plan.shape.hidden && args.experts == plan.shape.experts &&
                args.top_k == plan.shape.top_k,
            "the router was planned for other sizes");
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block);
  launch.cluster(plan.cluster).scalar(args).dependent();
  launch.note({.operation = "moe_router"});
  return launch;
}

Result<> moe_router(const MoeRouterPlan& plan, const MoeRouterArgs& args, gpu::Stream stream) {
  return plan.device->launch(moe_router_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
