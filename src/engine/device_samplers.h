// Samples a step's rows on the device: the counterpart of RowSamplers for devices that feed ids to their next step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/row_samplers.h"
#include "gpu/device_memory.h"
#include "ops/cuda/sample.h"
#include "scheduler/device.h"

namespace met::engine {

/// Holds what sampling needs of each device row (parameters, masks, biases, token counts) in device memory, and the
/// ids that feed the next step.
///
/// A step   prepare(), then the kernels up to the logits, then sample() and where there are prompt log-probabilities
///          score(); when the device has got that far, settle(). Only sample() is part of a captured step: its addresses
///          never change. Steps settle in the order in which they were prepared, at most `slots` of them are under way.
/// Host     rows whose parameters the device does not know (on_device) are sampled by the reference, once the logits of
///          their step are there: by the next prepare(), which waits for them, or by settle(). Their ids are in `fed`
///          before the next step's kernels run. A step with such rows is thus not overlapped with the next.
/// Grammar  prepare() hears that samples get masks, mask() brings them before sample(): they are made while the device
///          computes the logits. A masked row must be settled before its next mask is known (E8).
/// Thread   one at a time.
class DeviceSamplers {
 public:
  struct Options {
    int rows = 0;    ///< device rows, and the rows of a step
    int scores = 0;  ///< prompt log-probabilities of a step, at most
    std::int64_t vocabulary = 0;
    std::int64_t positions = 0;  ///< of a sequence, at most
    float logit_scale = 1;       ///< the model's, applied to its logits before all else
    float logit_softcap = 0;     ///< 0: none
    int slots = 2;               ///< steps in flight
  };
  /// Device memory that make() allocates.
  static std::size_t device_bytes(const Options& options);
  /// `logits`: F32 [rows of logits, vocabulary], where every step leaves them.
  static Result<std::unique_ptr<DeviceSamplers>> make(gpu::GpuBackend& device, const Options& options,
                                                      gpu::DevicePtr logits);
  ~DeviceSamplers();

  /// I32 [rows]: the id that each device row sampled last.
  gpu::DevicePtr fed() const { return tensors_.fed; }

  /// Rows that end and begin with this step, its samples and scores; enqueues the copies. `masked`: mask() will follow.
  Result<> prepare(const scheduler::StepBatch& batch, gpu::Stream stream, bool masked = false);
  /// A mask for each sample of the step that was prepared last: a bit for each token that may follow; empty: every
  /// token may. Enqueues the copy.
  Result<> mask(std::span<const std::span<const std::uint32_t>> masks, gpu::Stream stream);
  /// Enqueues the sampling of a step of at most `rows` samples.
  Result<> sample(int rows, gpu::Stream stream);
  /// Enqueues the step's prompt log-probabilities.
  Result<> score(const scheduler::StepBatch& batch, gpu::Stream stream);
  /// Fills the results of the oldest step that has not settled. The device has run it.
  Result<> settle(const scheduler::StepBatch& batch, scheduler::StepResults& results);

 private:
  /// Device addresses.
  struct Tensors {
    gpu::DevicePtr logits, inputs, params, end_ids, biases, allowed, masks, counts, fed, begins, begin_ids,
        score_inputs;
  };
  /// A step in flight: what its copies read, and what its kernels write to the host.
  struct Slot {
    gpu::PinnedHost inputs, masks, lists, begins, begin_ids, score_inputs;
    const scheduler::StepBatch* batch = nullptr;
    std::vector<std::size_t> host_samples;  ///< indices in batch->samples that the host has yet to sample
    std::vector<scheduler::SampleResult> sampled;  ///< by the host, by index in batch->samples
  };

  DeviceSamplers(gpu::GpuBackend& device, const Options& options)
      : device_(device), options_(options), on_host_(options.rows, static_cast<int>(options.vocabulary)) {}
  Result<> allocate(gpu::DevicePtr logits);
  Result<> begin_rows(const scheduler::StepBatch& batch, Slot& slot, gpu::Stream stream);
  Result<> put_lists(const scheduler::RowAdded& added, std::size_t index, Slot& slot, gpu::Stream stream);
  Result<> begin_counts(const scheduler::StepBatch& batch, Slot& slot, gpu::Stream stream);
  Result<> sample_on_host(Slot& slot, gpu::Stream stream);
  scheduler::PositionLogprobs logprobs_at(std::size_t entry) const;
  SampleArgs args() const;

  gpu::GpuBackend& device_;
  Options options_;
  ops::cuda::SamplePlan plan_;
  std::vector<gpu::DeviceMemory> memory_;
  Tensors tensors_;
  std::vector<Slot> slots_;
  std::size_t prepared_ = 0;  ///< steps ever prepared, and settled
  std::size_t settled_ = 0;
  std::vector<SampleParams> params_;  ///< of each device row, as the device has them
  RowSamplers on_host_;               ///< of the rows that the device does not sample
  std::vector<bool> is_on_host_;
  gpu::PinnedHost outcomes_, logprobs_, top_ids_;  ///< of all slots: samples, then scores
  std::vector<float> host_row_;
};

}  // namespace met::engine
