#include "arch/registry.h"
#include "engine/host_runner.h"
#include "engine/runner_factory.h"

namespace met::engine {

namespace {

class HostFactory final : public RunnerFactory {
 public:
  HostFactory(gpu::GpuBackend& device, const weights::Checkpoint& checkpoint,
              layers::WeightLoader::Options options)
      : device_(device), loader_(device, checkpoint, std::move(options)) {}

  Result<> check(const config::ModelConfig& config) override { return arch::check_model(config, loader_); }
  std::size_t weight_bytes() const override { return loader_.packed_bytes(); }
  std::size_t table_bytes() const override { return loader_.table_bytes(); }
  std::size_t expert_bytes() const override { return loader_.expert_bytes(); }
  std::size_t arena_bytes(const config::ModelConfig& config, const RunnerOptions& options) const override {
    return HostRunner::arena_bytes(device_.info(), config, options, loader_.workspace_row_bytes());
  }
  Result<std::unique_ptr<ModelRunner>> build(const config::ModelConfig& config, const RunnerOptions& options,
                                             const std::function<Result<>()>& looked_up) override {
    MET_ASSIGN(std::unique_ptr<arch::Model> model, arch::build_model(config, loader_));
    MET_TRY(looked_up());
    return HostRunner::make(device_, std::move(model), options, loader_.workspace_row_bytes());
  }
  Result<> look_up(const config::ModelConfig& config, const RunnerOptions&) override {
    MET_TRY(arch::build_model(config, loader_));
    return {};
  }
  std::vector<std::string> unused() const override { return loader_.finder().unused(); }
  int scaled_caches() const override { return loader_.finder().scaled_caches(); }

 private:
  gpu::GpuBackend& device_;
  layers::WeightLoader loader_;
};

}  // namespace

Result<> check_host_settings(const config::Settings& s) {
  const auto refuse = [](const char* flag, const std::string& why) { return unsupported(flag, why); };
  if (s.load_format == "dummy")
    return refuse("--load-format", "random weights are made on CUDA devices; the CPU loads checkpoints");
  if (s.quantization != "none")
    return refuse("--quantization",
                  "the CPU does not quantize while loading; use a GGUF file of the type you want");
  if (s.scheduler_config == "async")
    return refuse("--scheduler-config",
                  "async needs a device that feeds sampled ids to its next step; the CPU does not");
  if (s.cpu_activations == "bf16")
    return refuse("--cpu-activations", "bf16 is not supported; int8 and f32 are");
  const config::Settings neutral;
  if (s.gpu_ordinal != neutral.gpu_ordinal)
    return refuse("--gpu-ordinal", "there is no GPU to choose: the model is served on the CPU");
  if (s.gpu_memory_utilization != neutral.gpu_memory_utilization)
    return refuse("--gpu-memory-utilization", "bounds a GPU's memory; on the CPU use --kv-cache-gb");
  return {};
}

std::unique_ptr<RunnerFactory> host_factory(gpu::GpuBackend& device, const weights::Checkpoint* checkpoint,
                                            const config::Settings& settings, const ops::KvFormat& cache,
                                            Progress progress) {
  MET_CHECK(checkpoint != nullptr, "the CPU loads checkpoints");
  const bool exact = settings.cpu_activations == "f32";
  return std::make_unique<HostFactory>(
      device, *checkpoint,
      layers::WeightLoader::Options{
          .activations = exact ? ops::ActivationMode::kF32 : ops::ActivationMode::kInt8,
          .kv_cache = cache,
          .threads = device.info().multiprocessors,
          .repack_cache = settings.repack_cache == "off" ? "" : settings.repack_cache,
          .progress = std::move(progress)});
}

}  // namespace met::engine
