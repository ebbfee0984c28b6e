// How a model gets onto one kind of device: checks and sizes from headers, then weights and runner.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.h"
#include "engine/model_runner.h"
#include "gpu/backend.h"
#include "weights/checkpoint.h"

namespace met::engine {

/// How far loading has come; called from the loading threads, one at a time.
using Progress = std::function<void(std::size_t done_bytes, std::size_t total_bytes)>;

class RunnerFactory {
 public:
  virtual ~RunnerFactory() = default;
  /// Checks every tensor; the sizes below hold from then on.
  virtual Result<> check(const config::ModelConfig& config) = 0;
  virtual std::size_t weight_bytes() const = 0;
  /// Of them, what a decode step does not read but for single rows: an embedding table that is not the head too.
  virtual std::size_t table_bytes() const = 0;
  /// And those of all experts of mixtures.
  virtual std::size_t expert_bytes() const = 0;
  virtual std::size_t arena_bytes(const config::ModelConfig& config, const RunnerOptions& options) const = 0;
  /// Loads the weights and allocates buffers and cache. `looked_up` is called when every kernel has been looked up,
  /// before the first is launched; its error ends the build.
  virtual Result<std::unique_ptr<ModelRunner>> build(const config::ModelConfig& config,
                                                     const RunnerOptions& options,
                                                     const std::function<Result<>()>& looked_up) = 0;
  /// Builds the model without a runner, so that every kernel is looked up.
  virtual Result<> look_up(const config::ModelConfig& config, const RunnerOptions& options) = 0;
  /// Tensors that no recipe asked for.
  virtual std::vector<std::string> unused() const = 0;
  /// Layers whose E4M3 cache has scales of the checkpoint.
  virtual int scaled_caches() const = 0;
};

/// `device` and `checkpoint` outlive the factory; the runner keeps the device alone. `checkpoint` null: random weights.
std::unique_ptr<RunnerFactory> host_factory(gpu::GpuBackend& device, const weights::Checkpoint* checkpoint,
                                            const config::Settings& settings, const ops::KvFormat& cache,
                                            Progress progress);
std::unique_ptr<RunnerFactory> cuda_factory(gpu::GpuBackend& device, const weights::Checkpoint* checkpoint,
                                            const config::Settings& settings, const ops::KvFormat& cache,
                                            Progress progress);

/// Settings that are valid in themselves but that this device cannot honour: refused, never ignored.
Result<> check_host_settings(const config::Settings& settings);
Result<> check_cuda_settings(const config::Settings& settings);

}  // namespace met::engine
