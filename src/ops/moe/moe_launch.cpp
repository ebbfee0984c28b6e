#include <string>

#include "ops/kernel_lookup.h"
#include "ops/linear/linear_launch.h"
#include "ops/moe/moe.h"

namespace met::ops {

namespace {

void push(gpu::KernelLaunch& launch, const MoePairBuffers& pairs) {
  launch.buffer(pairs.begin).buffer(pairs.tokens).buffer(pairs.places).buffer(pairs.weights);
}

}  // namespace

Result<MoeRoutePlan> plan_moe_route(gpu::GpuBackend& device, int experts, int top_k, bool renormalise) {
  if (experts < 1 || top_k < 1 || top_k > experts)
    return invalid("num_experts_per_tok",
                   std::to_string(top_k) + " of " + std::to_string(experts) + " experts cannot be chosen");
  MoeRoutePlan plan{.device = &device, .experts = experts, .top_k = top_k, .renormalise = renormalise};
  plan.kernel = look_up(device, "moe_route", "moe_route");
  return plan;
}

Result<> moe_route(const MoeRoutePlan& plan, gpu::DevicePtr logits, const MoePairBuffers& pairs,
                   gpu::DevicePtr tokens, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.note({.operation = "moe_route"});
  launch.buffer(logits);
  push(launch, pairs);
  launch.buffer(tokens).scalar(std::int32_t{plan.experts}).scalar(std::int32_t{plan.top_k});
  launch.scalar(std::int32_t{plan.renormalise});
  static_assert(sizeof(MoeRouteArgs) == 64);
  return plan.device->launch(launch, stream);
}

Result<ExpertLinearPlan> plan_expert_linear(gpu::GpuBackend& device, const LinearPack& pack,
                                            const LinearShape& shape, int experts) {
  ExpertLinearPlan plan{.linear = {.device = &device, .pack = pack, .shape = shape},
                        .experts = experts,
                        .expert_bytes = expert_stride(pack)};
  plan.linear.kernel = look_up(device, pack.module, std::string(pack.entry) + "_experts");
  return plan;
}

Result<> expert_linear(const ExpertLinearPlan& plan, LinearTensors t, const MoePairBuffers& pairs,
                       gpu::Stream stream) {
  t.rows = pairs.begin + static_cast<std::size_t>(plan.experts) * sizeof(std::int32_t);
  gpu::KernelLaunch launch(plan.linear.kernel);
  launch.note({.operation = "expert_linear", .n = plan.linear.pack.n, .k = plan.linear.pack.k});
  push_linear(launch, plan.linear, t);
  launch.buffer(pairs.begin).scalar(std::int64_t{plan.experts});
  launch.scalar(static_cast<std::int64_t>(plan.expert_bytes));
  static_assert(sizeof(ExpertLinearArgs) == 144);
  return plan.linear.device->launch(launch, stream);
}

Result<ExpertSumPlan> plan_expert_sum(gpu::GpuBackend& device, std::int64_t dim, int top_k) {
  ExpertSumPlan plan{.device = &device, .dim = dim, .top_k = top_k};
  plan.kernel = look_up(device, "expert_sum", "expert_sum");
  return plan;
}

Result<> expert_sum(const ExpertSumPlan& plan, gpu::DevicePtr y, const MoePairBuffers& pairs,
                    gpu::DevicePtr hidden, gpu::DevicePtr tokens, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.note({.operation = "expert_sum"});
  launch.buffer(y);
  push(launch, pairs);
  launch.buffer(hidden).buffer(tokens).scalar(plan.dim).scalar(std::int32_t{plan.top_k});
  static_assert(sizeof(ExpertSumArgs) == 72);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops
