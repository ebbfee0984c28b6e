// Sampling on CUDA devices: one launch for greedy and drawn rows.
#pragma once

#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// Formula, rounding and cost: kernels/nvidia/common/sample.cu. What differs between rows is read from device memory
/// (SampleArgs), so a captured launch serves any mix of rows.
///
/// Errors   kUnsupported for a vocabulary whose eighth does not fit in a block's shared memory.
struct SamplePlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle sample;
  gpu::KernelHandle begin;
  std::int64_t vocabulary = 0;
  std::uint32_t shared_bytes = 0;
};

Result<SamplePlan> plan_sample(gpu::GpuBackend& device, std::int64_t vocabulary);

/// Samples up to `rows` rows; *args.samples says at run time how many. args.vocabulary is the plan's.
Result<> sample(const SamplePlan& plan, const SampleArgs& args, int rows, gpu::Stream stream);
gpu::KernelLaunch sample_launch(const SamplePlan& plan, const SampleArgs& args, int rows);

/// Sets the token counts of `rows` device rows from their prompts and outputs.
Result<> sample_begin(const SamplePlan& plan, const SampleBeginArgs& args, int rows, gpu::Stream stream);
gpu::KernelLaunch sample_begin_launch(const SamplePlan& plan, const SampleBeginArgs& args, int rows);

/// Words of one row's bit mask.
constexpr std::int64_t sample_mask_words(std::int64_t vocabulary) { return (vocabulary + 31) / 32; }

}  // namespace met::ops::cuda
