#include "ops/cuda/quantise.h"

#include <string>
#include <string_view>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/nvidia/common/quantise.cu.
constexpr int kThreads = 256;
constexpr int kPairThreads = 64;
constexpr int kThreadValues = 6 * 16;
static_assert(kThreads * kThreadValues == kQuantiseMax);

Result<QuantisePlan> plan(gpu::GpuBackend& device, const QuantiseShape& shape, std::string_view entry,
                          int threads) {
  const int most = threads * kThreadValues;
  if (shape.k <= 0 || shape.k % kE4m3Granule != 0 || shape.k > most)
    return unsupported("k", "values of a quantised row must be a multiple of " +
                                std::to_string(kE4m3Granule) + " up to " + std::to_string(most) + ", are " +
                                std::to_string(shape.k));
  return QuantisePlan{.device = &device,
                      .kernel = look_up(device, "quantise", entry),
                      .grid = {static_cast<std::uint32_t>(shape.tokens)},
                      .block = {static_cast<std::uint32_t>(threads)}};
}

gpu::KernelLaunch launch_of(const QuantisePlan& plan, const QuantiseArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block);
  launch.scalar(args).dependent();
  launch.note({.operation = "quantise"});
  return launch;
}

}  // namespace

Result<QuantisePlan> plan_quantise(gpu::GpuBackend& device, const QuantiseShape& shape) {
  return plan(device, shape, "quantise_e4m3", kThreads);
}

gpu::KernelLaunch quantise_launch(const QuantisePlan& plan, const QuantiseArgs& args) {
  return launch_of(plan, args);
}

Result<> quantise(const QuantisePlan& plan, const QuantiseArgs& args, gpu::Stream stream) {
  return plan.device->launch(quantise_launch(plan, args), stream);
}

Result<QuantisePlan> plan_quantise_pairs(gpu::GpuBackend& device, const QuantiseShape& shape) {
  return plan(device, shape, "quantise_e4m3_pairs", kPairThreads);
}

gpu::KernelLaunch quantise_pairs_launch(const QuantisePlan& plan, const QuantiseArgs& args,
                                        std::int32_t each) {
  gpu::KernelLaunch launch = launch_of(plan, args);
  launch.scalar(each);
  return launch;
}

}  // namespace met::ops::cuda
