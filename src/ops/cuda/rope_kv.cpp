#include "ops/cuda/rope_kv.h"

#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;  // as kernels/nvidia/common/rope_kv.cu
constexpr int kPiece = 16;
constexpr int kHeadDimMax = 512;

}  // namespace

Result<RopeKvPlan> plan_rope_kv(gpu::GpuBackend& device, const RopeKvShape& shape) {
  if (shape.head_dim <= 0 || shape.head_dim % kPiece != 0 || shape.head_dim > kHeadDimMax)
    return unsupported("head_dim",
                       "must be a multiple of 16 up to 512, is " + std::to_string(shape.head_dim));
  if (shape.rotary_dim < 0 || shape.rotary_dim % kPiece != 0 || shape.rotary_dim > shape.head_dim)
    return unsupported("partial_rotary_factor",
                       "the rotary dimension must be a multiple of 16 up to head_dim, is " +
                           std::to_string(shape.rotary_dim));
  if (shape.cache != DType::kBF16 && shape.cache != DType::kF8E4M3)
    return unsupported("kv_cache_dtype", "must be BF16 or F8E4M3, is " + std::string(info(shape.cache).name));
  return RopeKvPlan{
      .device = &device,
      .kernel = look_up(device, "rope_kv", shape.cache == DType::kBF16 ? "rope_kv_bf16" : "rope_kv_e4m3"),
      .grid = {static_cast<std::uint32_t>(shape.tokens_max)}};
}

gpu::KernelLaunch rope_kv_launch(const RopeKvPlan& plan, const RopeKvDeviceArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, {kThreads});
  launch.scalar(args).dependent();
  return launch;
}

Result<> rope_kv(const RopeKvPlan& plan, const RopeKvDeviceArgs& args, gpu::Stream stream) {
  return plan.device->launch(rope_kv_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
