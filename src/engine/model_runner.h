// Carries out the scheduler's steps on a model: uploads a step, runs it, samples. Implements
// scheduler::Device.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "arch/model.h"
#include "engine/row_samplers.h"
#include "gpu/device_memory.h"
#include "scheduler/device.h"

namespace met::engine {

/// Owns the step buffers, the paged cache and one sampler a device row. Called from the executor's thread
/// only.
class ModelRunner final : public scheduler::Device {
 public:
  struct Options {
    scheduler::StepLimits limits;
    std::int64_t positions = 0;        ///< longest sequence
    std::int64_t blocks = 0;           ///< of the pool, the null block among them
    std::size_t linear_row_bytes = 0;  ///< workspace of a row: WeightLoader::workspace_row_bytes
    DType cache = DType::kF16;         ///< of K and V
    bool graphs = true;                ///< replay a captured step; false: enqueue kernel by kernel
  };

  /// Bytes of buffers and workspace: what make() allocates beside the pool.
  static std::size_t arena_bytes(const gpu::DeviceInfo& device, const config::ModelConfig& config,
                                 const Options& options);
  /// Bytes of one block over all layers, K and V.
  static std::size_t block_bytes(const config::ModelConfig& config, DType cache);

  static Result<std::unique_ptr<ModelRunner>> make(gpu::GpuBackend& device,
                                                   std::unique_ptr<arch::Model> model,
                                                   const Options& options);
  ~ModelRunner() override;

  Result<> enqueue(const scheduler::StepPlan& plan, const scheduler::StepBatch& batch) override;
  Result<> settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) override;

  /// Logits of wanted row i of the step that settled last, after the model's own scale and soft cap,
  /// [vocabulary]. They are the host's to change, until the next step.
  std::span<float> logits_row(std::int32_t row);

  const config::ModelConfig& config() const { return model_->config(); }
  /// Bytes allocated for buffers and pool, for the check against the plan (M2).
  std::size_t allocated_bytes() const;

 private:
  ModelRunner(gpu::GpuBackend& device, std::unique_ptr<arch::Model> model, const Options& options)
      : device_(device), model_(std::move(model)), options_(options), stream_(device.default_stream()) {}
  Result<> allocate_buffers();
  Result<> allocate_cache();
  Result<> capture();
  void finish_logits(std::size_t rows);
  Result<> copy_blocks(const scheduler::StepBatch& batch);
  Result<> upload(const scheduler::StepBatch& batch);

  gpu::GpuBackend& device_;
  std::unique_ptr<arch::Model> model_;
  Options options_;
  gpu::Stream stream_;
  std::vector<gpu::DeviceMemory> memory_;
  layers::StepBuffers buffers_;
  std::vector<layers::KvLayer> cache_;
  std::vector<std::size_t> cache_block_bytes_;  ///< of K, and of V, by layer
  std::optional<gpu::Graph> graph_;
  std::optional<RowSamplers> samplers_;
  std::vector<float> host_logits_;  ///< where the device's memory is not the host's
};

}  // namespace met::engine
