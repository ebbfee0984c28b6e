#include "ops/cuda/pack_e4m3.h"

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {

Result<PackE4m3Plan> plan_pack_e4m3(gpu::GpuBackend& device) {
  return PackE4m3Plan{&device, look_up(device, "pack_e4m3", "pack_e4m3")};
}

Result<> pack_e4m3(const PackE4m3Plan& plan, gpu::DevicePtr w, gpu::DevicePtr q, gpu::DevicePtr scales,
                   std::int64_t rows, std::int64_t k, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel, {static_cast<std::uint32_t>(rows)}, {256});
  launch.buffer(w).buffer(q).buffer(scales).scalar(k);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops::cuda
