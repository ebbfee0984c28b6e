#include "ops/cuda/residual_norm.h"

#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

constexpr int kLanes = 8;  // values of a vector, as kernels/nvidia/common/vector.cuh
constexpr int kWarp = 32;
constexpr std::uint32_t kEmbeddingThreads = 256;  // as kernels/nvidia/common/embedding.cu

/// An entry of residual_norm.cu: vectors of 8 values a thread, and the most threads it takes.
struct Variant {
  const char* entry;
  int vectors;
  int threads_max;
};
constexpr Variant kOne{"residual_norm_1", 1, 1024};   // few rows: the most threads share the latency of one
constexpr Variant kFour{"residual_norm_4", 4, 256};   // many rows: more rows at once on a multiprocessor
constexpr Variant kEight{"residual_norm_8", 8, 512};  // long rows
constexpr int kFewRows = 256;

// They add squares in different orders.
Variant variant_of(const ResidualNormShape& shape) {
  if (!shape.fixed_order && shape.rows_max <= kFewRows && shape.dim <= kLanes * kOne.threads_max) return kOne;
  if (shape.dim <= kLanes * kFour.vectors * kFour.threads_max) return kFour;
  return kEight;
}

}  // namespace

Result<ResidualNormPlan> plan_residual_norm(gpu::GpuBackend& device, const ResidualNormShape& shape) {
  const Variant v = variant_of(shape);
  const std::int64_t dim = shape.dim;
  if (dim <= 0 || dim % kLanes != 0 || dim > std::int64_t{kLanes} * v.vectors * v.threads_max)
    return unsupported("hidden_size", "must be a multiple of 8 up to 32768, is " + std::to_string(dim));
  const std::int64_t each = std::int64_t{kLanes} * v.vectors * kWarp;  // values of a warp
  return ResidualNormPlan{.device = &device,
                          .kernel = look_up(device, "residual_norm", v.entry),
                          .grid = {static_cast<std::uint32_t>(shape.rows_max)},
                          .block = {static_cast<std::uint32_t>((dim + each - 1) / each * kWarp)}};
}

gpu::KernelLaunch residual_norm_launch(const ResidualNormPlan& plan, const ResidualNormArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block);
  launch.scalar(args).dependent();
  launch.note({.operation = "residual_norm"});
  return launch;
}

Result<> residual_norm(const ResidualNormPlan& plan, const ResidualNormArgs& args, gpu::Stream stream) {
  return plan.device->launch(residual_norm_launch(plan, args), stream);
}

Result<EmbeddingDevicePlan> plan_embedding_device(gpu::GpuBackend& device, std::int64_t dim, int tokens_max) {
  if (dim <= 0 || dim % kLanes != 0)
    return unsupported("hidden_size", "must be a multiple of 8, is " + std::to_string(dim));
  return EmbeddingDevicePlan{.device = &device,
                             .kernel = look_up(device, "embedding", "embedding_bf16"),
                             .grid = {static_cast<std::uint32_t>(tokens_max)}};
}

gpu::KernelLaunch embedding_device_launch(const EmbeddingDevicePlan& plan, const EmbeddingDeviceArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, {kEmbeddingThreads});
  launch.scalar(args).dependent();
  launch.note({.operation = "embedding"});
  return launch;
}

Result<> embedding_device(const EmbeddingDevicePlan& plan, const EmbeddingDeviceArgs& args,
                          gpu::Stream stream) {
  return plan.device->launch(embedding_device_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
