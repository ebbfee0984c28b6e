#include "ops/cuda/quantise.h"

#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/nvidia/common/quantise.cu.
constexpr std::uint32_t kThreads = 256;
constexpr int kMax = 6 * 256 * 16;
static_assert(kMax == kQuantiseMax);

}  // namespace

Result<QuantisePlan> plan_quantise(gpu::GpuBackend& device, const QuantiseShape& shape) {
  if (shape.k <= 0 || shape.k % kE4m3Granule != 0 || shape.k > kMax)
    return unsupported("k", "values of a quantised row must be a multiple of " +
                                std::to_string(kE4m3Granule) + " up to " + std::to_string(kMax) + ", are " +
                                std::to_string(shape.k));
  return QuantisePlan{.device = &device,
                      .kernel = look_up(device, "quantise", "quantise_e4m3"),
                      .grid = {static_cast<std::uint32_t>(shape.tokens)}};
}

gpu::KernelLaunch quantise_launch(const QuantisePlan& plan, const QuantiseArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, {kThreads});
  launch.scalar(args).dependent();
  launch.note({.operation = "quantise"});
  return launch;
}

Result<> quantise(const QuantisePlan& plan, const QuantiseArgs& args, gpu::Stream stream) {
  return plan.device->launch(quantise_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
