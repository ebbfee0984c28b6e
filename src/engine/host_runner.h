// Runs steps on the CPU: one pool of threads, sampling on the host.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "arch/model.h"
#include "engine/model_runner.h"
#include "engine/row_masks.h"
#include "engine/row_samplers.h"
#include "gpu/device_memory.h"

namespace met::engine {

/// Owns the step buffers, the paged cache and one sampler a device row. Called from the executor's thread
/// only.
class HostRunner final : public ModelRunner {
 public:
  /// Bytes of buffers and workspace: what make() allocates beside the pool. `linear_row_bytes`: workspace of a row,
  /// WeightLoader::workspace_row_bytes.
  static std::size_t arena_bytes(const gpu::DeviceInfo& device, const config::ModelConfig& config,
                                 const RunnerOptions& options, std::size_t linear_row_bytes);

  static Result<std::unique_ptr<ModelRunner>> make(gpu::GpuBackend& device,
                                                   std::unique_ptr<arch::Model> model,
                                                   const RunnerOptions& options,
                                                   std::size_t linear_row_bytes);
  ~HostRunner() override;

  Result<> enqueue(const scheduler::StepPlan& plan, const scheduler::StepBatch& batch) override;
  Result<> settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) override;

  std::span<float> logits_row(std::int32_t row) override;
  const config::ModelConfig& config() const override { return model_->config(); }
  std::size_t allocated_bytes() const override;
  SwapPool* swap_pool() override { return swap_ ? &*swap_ : nullptr; }

 private:
  HostRunner(gpu::GpuBackend& device, std::unique_ptr<arch::Model> model, const RunnerOptions& options,
             std::size_t linear_row_bytes)
      : device_(device),
        model_(std::move(model)),
        options_(options),
        linear_row_bytes_(linear_row_bytes),
        stream_(device.default_stream()) {}
  Result<> allocate_buffers();
  Result<> allocate_cache();
  Result<> capture();
  void finish_logits(std::size_t rows);
  Result<> copy_blocks(const scheduler::StepBatch& batch);
  Result<> copy_swapped(const scheduler::StepBatch& batch);
  Result<> upload(const scheduler::StepBatch& batch);

  gpu::GpuBackend& device_;
  std::unique_ptr<arch::Model> model_;
  RunnerOptions options_;
  std::size_t linear_row_bytes_;
  gpu::Stream stream_;
  std::vector<gpu::DeviceMemory> memory_;
  layers::StepBuffers buffers_;
  std::vector<layers::KvLayer> cache_;
  std::vector<std::size_t> cache_block_bytes_;  ///< of K, and of V, by layer
  std::optional<SwapPool> swap_;
  std::int64_t swap_us_ = 0;  ///< of the copies of the step that was enqueued last
  std::optional<gpu::Graph> graph_;
  std::optional<RowSamplers> samplers_;
  std::optional<RowMasks> masks_;
  std::span<const std::span<const std::uint32_t>> step_masks_;  ///< of the step that was enqueued last
  std::vector<float> host_logits_;  ///< where the device's memory is not the host's
};

}  // namespace met::engine
