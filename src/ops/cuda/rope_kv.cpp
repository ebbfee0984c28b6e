#include "ops/cuda/rope_kv.h"

#include <algorithm>
#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/nvidia/common/rope_kv.cu.
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;  // a token each
constexpr int kBlocks = 4;             // of a multiprocessor
constexpr int kSharesMax = 4;          // of a token's heads
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
  const int resident = kBlocks * device.info().multiprocessors;
  const int blocks = std::max((shape.tokens_max + kWarps - 1) / kWarps, 1);
  // Few tokens: their heads go to more warps (128 tokens of 48 heads in one warp each: 7.5 us).
  const int shares = std::clamp(resident / blocks, 1, kSharesMax);
  return RopeKvPlan{
      .device = &device,
      .kernel = look_up(device, "rope_kv", shape.cache == DType::kBF16 ? "rope_kv_bf16" : "rope_kv_e4m3"),
      .grid = {static_cast<std::uint32_t>(std::min(blocks, resident)), static_cast<std::uint32_t>(shares)}};
}

gpu::KernelLaunch rope_kv_launch(const RopeKvPlan& plan, const RopeKvDeviceArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, {kThreads});
  launch.scalar(args).dependent();
  launch.note({.operation = "rope_kv"});
  return launch;
}

Result<> rope_kv(const RopeKvPlan& plan, const RopeKvDeviceArgs& args, gpu::Stream stream) {
  return plan.device->launch(rope_kv_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
