#include "ops/cuda/dummy_weights.h"

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {

Result<DummyWeightsPlan> plan_dummy_weights(gpu::GpuBackend& device) {
  return DummyWeightsPlan{&device, look_up(device, "dummy_weights", "dummy_weights_bf16")};
}

Result<> dummy_weights(const DummyWeightsPlan& plan, gpu::DevicePtr w, std::size_t count, std::uint64_t seed,
                       gpu::Stream stream) {
  constexpr float kAmplitude = 0.035F;
  const auto blocks = static_cast<std::uint32_t>(8 * plan.device->info().multiprocessors);
  gpu::KernelLaunch launch(plan.kernel, {blocks}, {256});
  launch.buffer(w).scalar(static_cast<std::int64_t>(count)).scalar(seed).scalar(kAmplitude);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops::cuda
