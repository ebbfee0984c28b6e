// Runs steps on a CUDA device: inputs of a step go up in one copy, a decode step is one graph, ids are sampled on the
// device and feed the next step there.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/device_samplers.h"
#include "engine/model_runner.h"
#include "engine/row_masks.h"
#include "layers/cuda/decoder.h"

namespace met::engine {

class CudaRunner final : public ModelRunner {
 public:
  static layers::cuda::Decoder::Limits decoder_limits(const RunnerOptions& options);
  /// Bytes of buffers: what make() allocates beside the pool.
  static std::size_t arena_bytes(gpu::GpuBackend& device, const config::ModelConfig& config,
                                 const RunnerOptions& options);

  static Result<std::unique_ptr<ModelRunner>> make(gpu::GpuBackend& device,
                                                   std::unique_ptr<layers::cuda::Decoder> decoder,
                                                   const RunnerOptions& options);
  ~CudaRunner() override;

  Result<> enqueue(const scheduler::StepPlan& plan, const scheduler::StepBatch& batch) override;
  Result<> settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) override;

  std::span<float> logits_row(std::int32_t row) override;
  const config::ModelConfig& config() const override { return decoder_->config(); }
  std::size_t allocated_bytes() const override;
  SwapPool* swap_pool() override { return swap_ ? &*swap_ : nullptr; }

 private:
  /// One step in flight: what its copies read and write.
  struct Slot {
    gpu::PinnedHost inputs;
    gpu::Event done;
  };

  /// Decode steps that share a graph.
  struct DecodeForm {
    int bucket = 0;
    bool brief = false;   ///< no row sees more than kBriefPositions
    bool masked = false;  ///< sampling waits for masks and is no part of it
    auto operator<=>(const DecodeForm&) const = default;
  };

  CudaRunner(gpu::GpuBackend& device, std::unique_ptr<layers::cuda::Decoder> decoder,
             const RunnerOptions& options)
      : device_(device), decoder_(std::move(decoder)), options_(options), stream_(device.default_stream()) {}
  Result<> allocate();
  Result<> copy_blocks(const scheduler::StepBatch& batch);
  std::int32_t decode_rows(const scheduler::StepBatch& batch) const;
  Result<> upload(const scheduler::StepBatch& batch, const layers::cuda::StepCapacity& capacity, Slot& slot);
  Result<> decode(const DecodeForm& form);
  Result<> run_decode(const DecodeForm& form);
  Result<> run_mixed(const scheduler::StepBatch& batch, const layers::cuda::StepCapacity& capacity,
                     bool masked);
  Result<> sample_masked(const scheduler::StepBatch& batch, int rows);
  /// The form that runs `batch`.
  DecodeForm form_of(const scheduler::StepBatch& batch, bool masked) const;
  Result<gpu::Graph> capture(const DecodeForm& form);
  /// The form's graph, captured when it is first asked for.
  Result<gpu::Graph> graph_for(const DecodeForm& form);

  gpu::GpuBackend& device_;
  std::unique_ptr<layers::cuda::Decoder> decoder_;
  RunnerOptions options_;
  gpu::Stream stream_;
  std::array<Slot, 2> slots_;
  std::size_t enqueued_ = 0;  ///< steps ever
  std::size_t settled_ = 0;
  std::map<DecodeForm, gpu::Graph> graphs_;
  std::unique_ptr<DeviceSamplers> samplers_;
  std::optional<RowMasks> masks_;
  std::optional<SwapPool> swap_;
  std::vector<float> host_logits_;  ///< read back, [logits, vocabulary]
};

}  // namespace met::engine
