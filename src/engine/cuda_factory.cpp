#include "arch/registry.h"
#include "engine/cuda_runner.h"
#include "engine/runner_factory.h"

namespace met::engine {

namespace {

// Reading and widening host memory is bound by memory long before it is bound by threads.
constexpr int kUploadThreads = 8;

class CudaFactory final : public RunnerFactory {
 public:
  CudaFactory(gpu::GpuBackend& device, const weights::Checkpoint* checkpoint,
              layers::cuda::MatrixLoader::Options options)
      : device_(device), loader_(device, checkpoint, std::move(options)) {}

  Result<> check(const config::ModelConfig& config) override { return arch::check_model(config, loader_); }
  std::size_t weight_bytes() const override { return loader_.device_bytes(); }
  std::size_t table_bytes() const override { return loader_.table_bytes(); }
  std::size_t expert_bytes() const override { return loader_.expert_bytes(); }
  std::size_t arena_bytes(const config::ModelConfig& config, const RunnerOptions& options) const override {
    return CudaRunner::arena_bytes(device_, config, options);
  }
  Result<std::unique_ptr<ModelRunner>> build(const config::ModelConfig& config, const RunnerOptions& options,
                                             const std::function<Result<>()>& looked_up) override {
    MET_ASSIGN(std::unique_ptr<layers::cuda::Decoder> decoder, make_decoder(config, options));
    MET_TRY(looked_up());
    return CudaRunner::make(device_, std::move(decoder), options);
  }
  Result<> look_up(const config::ModelConfig& config, const RunnerOptions& options) override {
    MET_TRY(make_decoder(config, options));
    return {};
  }
  std::vector<std::string> unused() const override { return loader_.finder().unused(); }
  int scaled_caches() const override { return loader_.finder().scaled_caches(); }

 private:
  Result<std::unique_ptr<layers::cuda::Decoder>> make_decoder(const config::ModelConfig& config,
                                                              const RunnerOptions& options) {
    MET_ASSIGN(layers::cuda::DecoderWeights weights, arch::build_model(config, loader_));
    return layers::cuda::Decoder::make(device_, config, std::move(weights),
                                       CudaRunner::decoder_limits(options));
  }

  gpu::GpuBackend& device_;
  layers::cuda::MatrixLoader loader_;
};

}  // namespace

Result<> check_cuda_settings(const config::Settings& s) {
  const auto refuse = [](const char* flag, const std::string& why) { return unsupported(flag, why); };
  if (s.kv_cache_dtype != "auto" && s.kv_cache_dtype != "bf16" && s.kv_cache_dtype != "fp8")
    return refuse("--kv-cache-dtype",
                  "the CUDA device's cache is bf16 or fp8; '" + s.kv_cache_dtype + "' is not supported");
  if (s.max_batch_size && *s.max_batch_size > layers::cuda::kHeadRows)
    return refuse("--max-batch-size", "a step of the CUDA kernels holds at most 256 sequences");
  const config::Settings neutral;
  if (s.threads) return refuse("--threads", "counts the CPU's threads; the model is served on a CUDA device");
  if (s.repack_cache != neutral.repack_cache)
    return refuse("--repack-cache",
                  "keeps what the CPU's kernels read; the model is served on a CUDA device");
  if (s.kv_high_precision_layers != neutral.kv_high_precision_layers)
    return refuse("--kv-high-precision-layers", "the CUDA device's cache has one type for all layers");
  if (s.cpu_isa != neutral.cpu_isa || s.cpu_activations != neutral.cpu_activations)
    return refuse(s.cpu_isa != neutral.cpu_isa ? "--cpu-isa" : "--cpu-activations",
                  "belongs to the CPU; the model is served on a CUDA device");
  return {};
}

std::unique_ptr<RunnerFactory> cuda_factory(gpu::GpuBackend& device, const weights::Checkpoint* checkpoint,
                                            const config::Settings& settings, const ops::KvFormat& cache,
                                            Progress progress) {
  return std::make_unique<CudaFactory>(
      device, checkpoint,
      layers::cuda::MatrixLoader::Options{.quantize = settings.quantization == "fp8",
                                          .kv_cache = cache,
                                          .threads = kUploadThreads,
                                          .progress = std::move(progress)});
}

}  // namespace met::engine
