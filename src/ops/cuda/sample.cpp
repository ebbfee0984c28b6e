#include "ops/cuda/sample.h"

#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/nvidia/common/sample_team.cuh and sample_row.cuh.
constexpr std::uint32_t kThreads = 512;
constexpr std::uint32_t kBlocks = 8;
constexpr std::int64_t kVector = 4;
constexpr std::size_t kStaticShared = 40 * 1024;  // at most
constexpr std::uint32_t kBeginThreads = 1024;

}  // namespace

Result<SamplePlan> plan_sample(gpu::GpuBackend& device, std::int64_t vocabulary) {
  const std::int64_t each = (vocabulary + kBlocks * kVector - 1) / (kBlocks * kVector) * kVector;
  const std::size_t bytes = static_cast<std::size_t>(each) * sizeof(float);
  if (vocabulary < 1 || bytes + kStaticShared > device.info().shared_memory_max)
    return unsupported("vocab_size",
                       "sampling on the device holds a row of logits in the shared memory of eight "
                       "multiprocessors, which is too small for " +
                           std::to_string(vocabulary) + " tokens");
  return SamplePlan{.device = &device,
                    .sample = look_up(device, "sample", "sample"),
                    .begin = look_up(device, "sample", "sample_begin"),
                    .vocabulary = vocabulary,
                    .shared_bytes = static_cast<std::uint32_t>(bytes)};
}

gpu::KernelLaunch sample_launch(const SamplePlan& plan, const SampleArgs& args, int rows) {
  MET_CHECK(args.vocabulary == plan.vocabulary, "sampling was planned for another vocabulary");
  gpu::KernelLaunch launch(plan.sample, {kBlocks * static_cast<std::uint32_t>(rows)}, {kThreads},
                           plan.shared_bytes);
  launch.scalar(args).dependent().cluster({kBlocks, 1, 1});
  launch.note({.operation = "sample"});
  return launch;
}

Result<> sample(const SamplePlan& plan, const SampleArgs& args, int rows, gpu::Stream stream) {
  return plan.device->launch(sample_launch(plan, args, rows), stream);
}

gpu::KernelLaunch sample_begin_launch(const SamplePlan& plan, const SampleBeginArgs& args, int rows) {
  gpu::KernelLaunch launch(plan.begin, {static_cast<std::uint32_t>(rows)}, {kBeginThreads});
  launch.scalar(args);
  launch.note({.operation = "sample_begin"});
  return launch;
}

Result<> sample_begin(const SamplePlan& plan, const SampleBeginArgs& args, int rows, gpu::Stream stream) {
  return plan.device->launch(sample_begin_launch(plan, args, rows), stream);
}

}  // namespace met::ops::cuda
