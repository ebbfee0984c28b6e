#include "ops/cuda/rope_kv.h"

#include <algorithm>
#include <bit>
#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/nvidia/common/rope_kv.cu.
constexpr int kThreadsMax = 384;
constexpr int kPiece = 16;  // values of a thread
constexpr int kHeadDimMax = 512;
constexpr int kWarp = 32;
constexpr int kTurnBytes = 64;  // of a lane

constexpr int kThreadsWanted = 256;  // few threads a token: several tokens a block

}  // namespace

Result<RopeKvPlan> plan_rope_kv(gpu::GpuBackend& device, const RopeKvShape& shape) {
  if (shape.head_dim <= 0 || shape.head_dim % kPiece != 0 || shape.head_dim > kHeadDimMax)
    return unsupported("head_dim",
                       "must be a multiple of 16 up to 512, is " + std::to_string(shape.head_dim));
  if (shape.heads <= 0 || shape.kv_heads <= 0)
    return unsupported("num_attention_heads", "a layer needs query and key-value heads");
  if (shape.rotary_dim < 0 || shape.rotary_dim % kPiece != 0 || shape.rotary_dim > shape.head_dim)
    return unsupported("partial_rotary_factor",
                       "the rotary dimension must be a multiple of 16 up to head_dim, is " +
                           std::to_string(shape.rotary_dim));
  if (shape.cache != DType::kBF16 && shape.cache != DType::kF8E4M3)
    return unsupported("kv_cache_dtype", "must be BF16 or F8E4M3, is " + std::string(info(shape.cache).name));
  const int lanes = static_cast<int>(std::bit_ceil(static_cast<unsigned>(shape.head_dim / kPiece)));
  const int work = (shape.heads + 2 * shape.kv_heads) * lanes;
  const int tokens = std::max(1, kThreadsWanted / work);
  const int passes = (tokens * work + kThreadsMax - 1) / kThreadsMax;
  const int threads = ((tokens * work + passes - 1) / passes + kWarp - 1) / kWarp * kWarp;
  // A block's tokens as the kernel counts them: rounding up to whole warps may have made room for one more.
  const int block_tokens = std::max(1, threads / work);
  return RopeKvPlan{
      .device = &device,
      .kernel = look_up(device, "rope_kv", shape.cache == DType::kBF16 ? "rope_kv_bf16" : "rope_kv_e4m3"),
      .grid = {static_cast<std::uint32_t>((shape.tokens_max + block_tokens - 1) / block_tokens)},
      .block = {static_cast<std::uint32_t>(threads)},
      .shared_bytes = static_cast<std::uint32_t>(block_tokens * lanes * kTurnBytes)};
}

gpu::KernelLaunch rope_kv_launch(const RopeKvPlan& plan, const RopeKvDeviceArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block, plan.shared_bytes);
  launch.scalar(args).dependent();
  return launch;
}

Result<> rope_kv(const RopeKvPlan& plan, const RopeKvDeviceArgs& args, gpu::Stream stream) {
  return plan.device->launch(rope_kv_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
