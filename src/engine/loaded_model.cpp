#include "engine/loaded_model.h"

#include <chrono>
#include <cmath>

#include "config/environment.h"
#include "config/read_model_config.h"
#include "core/log.h"
#include "engine/serve_plan.h"
#include "gpu/device.h"
#include "kernels/audit.h"
#include "kernels/resolve.h"
#include "ops/attention/attention.h"
#include "weights/checkpoint.h"

namespace met::engine {

namespace {

constexpr std::size_t kGigabyte = 1'000'000'000;

class Stopwatch {
 public:
  explicit Stopwatch(std::vector<Phase>& phases) : phases_(phases) {}
  void lap(std::string name) {
    const auto now = std::chrono::steady_clock::now();
    phases_.push_back({std::move(name), std::chrono::duration<double, std::milli>(now - last_).count()});
    last_ = now;
  }

 private:
  std::vector<Phase>& phases_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// What no device of this build can honour.
Result<> check_settings(const config::Settings& s) {
  if (s.block_size != ops::kKvBlockTokens)
    return unsupported("--block-size", "blocks hold " + std::to_string(ops::kKvBlockTokens) + " positions");
  const config::Settings neutral;
  if (!s.swap_dir.empty() && s.swap_space_gb == 0)
    return unsupported("--swap-dir", "the disk stands behind the host's swap pool: give --swap-space-gb too");
  if (s.swap_dir.empty() && s.swap_disk_gb != neutral.swap_disk_gb)
    return unsupported("--swap-disk-gb", "belongs to --swap-dir, which is not given");
  if (s.scheduler == "fifo" && s.tbt_deadline_ms != neutral.tbt_deadline_ms)
    return unsupported("--tbt-deadline-ms", "belongs to --scheduler slai, and the scheduler is fifo");
  return {};
}

// What loading decides before it takes memory.
struct Prepared {
  hub::ModelSource source;
  std::unique_ptr<weights::Checkpoint> checkpoint;
  config::ModelDescription description;
  const kernels::Target* target = nullptr;
  std::unique_ptr<gpu::GpuBackend> device;
  std::unique_ptr<kernels::KernelAudit> audit = std::make_unique<kernels::KernelAudit>();
  std::unique_ptr<RunnerFactory> factory;
  scheduler::PlanConfig plan;
  RunnerOptions runner;
  MemoryPlan memory;
};

// What the CUDA kernels do not read.
Result<> check_cuda_model(const config::ModelConfig& model) {
  if (model.gguf)
    return unsupported("--device", "a GGUF file is not served on CUDA devices; --device cpu serves it");
  return {};
}

// The device that serves the model: a GGUF file is read by the CPU's kernels, whatever else there is.
Result<gpu::DeviceChoice> choose_device(const config::Settings& settings, const config::ModelConfig& model) {
  MET_ASSIGN(gpu::DeviceChoice choice, gpu::parse_device(settings.device));
  choice.threads = static_cast<int>(settings.threads.value_or(0));
  choice.isa = settings.cpu_isa;
  if (settings.gpu_ordinal != 0) choice.ordinal = static_cast<int>(settings.gpu_ordinal);
  if (choice.kind == gpu::DeviceKind::kMock)
    return unsupported("--device", "mock runs no kernels: it is for tests");
  if (choice.kind == gpu::DeviceKind::kAuto) {
    MET_ASSIGN(const std::string hardware, gpu::hardware_of(choice));
    choice.kind = hardware == "cpu" || model.gguf ? gpu::DeviceKind::kCpu : gpu::DeviceKind::kCuda;
    if (hardware != "cpu" && model.gguf) log::info("a GGUF file is served on the CPU");
  }
  if (choice.kind == gpu::DeviceKind::kCuda) MET_TRY(check_cuda_model(model));
  return choice;
}

Result<const kernels::Target*> choose_target(const config::Settings& settings, const Prepared& p,
                                             const std::string& hardware) {
  const config::ModelConfig& model = p.description.model;
  const std::string_view identities[] = {p.source.name, settings.model_name, model.name};
  const kernels::Dim dims[] = {{"hidden", model.hidden},     {"layers", model.layers},
                               {"heads", model.heads},       {"kv_heads", model.kv_heads},
                               {"head_dim", model.head_dim}, {"ffn", model.ffn},
                               {"vocab", model.vocabulary}};
  kernels::Storage storage = kernels::Storage::kGguf;
  if (!model.gguf)
    storage = model.fp8                           ? kernels::Storage::kFp8
              : model.weight_dtype == DType::kF16 ? kernels::Storage::kFp16
              : model.weight_dtype == DType::kF32 ? kernels::Storage::kFp32
                                                  : kernels::Storage::kBf16;
  return kernels::resolve(kernels::targets(), {.hardware = hardware,
                                               .model_type = model.model_type,
                                               .hidden_size = model.hidden,
                                               .storage = storage,
                                               .dims = dims,
                                               .identities = identities,
                                               .pinned = settings.kernel_target});
}

Result<> plan_model_memory(const config::Settings& s, Prepared& p) {
  const config::ModelConfig& model = p.description.model;
  const std::int64_t wanted = s.max_seq_len.value_or(model.max_positions);
  if (wanted > model.max_positions)
    return invalid("--max-seq-len", std::to_string(wanted) + " is more than the model's " +
                                        std::to_string(model.max_positions) + " positions");
  const gpu::DeviceInfo& device = p.device->info();
  MET_ASSIGN(
      p.plan,
      plan_config(s, *p.target->hardware,
                  {.feeds_ids = device.feeds_ids, .unified_memory = device.unified_memory, .recurrent = {}},
                  wanted));
  const auto fill = [&](std::int64_t max_seq_len) {
    p.plan.max_seq_len = max_seq_len;
    p.runner.limits = scheduler::step_limits(p.plan);
    p.runner.positions = max_seq_len;
    p.runner.prefill = p.plan.prefill;
    p.runner.graphs = !s.no_graphs;
    p.runner.batch_invariant = s.batch_invariant;
    p.runner.log_routes = config::Environment::process().get("METRALE_GEMM_SHAPE_LOG") == "1";
  };
  fill(wanted);
  const std::size_t slot = SwapPool::slot_bytes(kv_block_bytes(model, p.runner.cache));
  const auto slots = [&](double gb) {
    return static_cast<int>(std::min(gb * kGigabyte / static_cast<double>(slot), 1e9));
  };
  p.plan.swap_blocks = slots(s.swap_space_gb);
  p.plan.disk_blocks = s.swap_dir.empty() ? 0 : slots(s.swap_disk_gb);
  if (s.swap_space_gb > 0 && p.plan.swap_blocks == 0)
    return invalid("--swap-space-gb", "a block takes " + std::to_string(slot) + " bytes");
  if (!s.swap_dir.empty() && p.plan.disk_blocks == 0)
    return invalid("--swap-disk-gb", "a block takes " + std::to_string(slot) + " bytes");
  p.runner.swap_blocks = p.plan.swap_blocks;
  const gpu::MemoryInfo memory = p.device->memory();
  MET_ASSIGN(
      p.memory,
      plan_memory({.total = memory.total,
                   .free = memory.free,
                   .utilization = s.gpu_memory_utilization,
                   .host_memory = p.device->info().unified_memory,
                   .kv_bytes = s.kv_cache_gb ? static_cast<std::size_t>(*s.kv_cache_gb * kGigabyte) : 0,
                   .weights = p.factory->weight_bytes(),
                   .arena = p.factory->arena_bytes(model, p.runner),
                   .block = kv_block_bytes(model, p.runner.cache),
                   .swap = slot * static_cast<std::size_t>(p.plan.swap_blocks),
                   .block_tokens = p.plan.block_tokens,
                   .max_seq_len = s.max_seq_len.value_or(0),
                   .model_positions = model.max_positions,
                   .max_batch_size = p.plan.max_batch_size}));
  if (p.memory.seq_len_lowered)
    log::warn("max_seq_len lowered to " + std::to_string(p.memory.max_seq_len) +
              " tokens: the KV pool holds no more");
  fill(p.memory.max_seq_len);
  p.plan.blocks_total = static_cast<int>(p.memory.blocks);
  p.runner.blocks = p.memory.blocks;
  return scheduler::validate(p.plan);
}

DType cache_type(const config::Settings& settings, bool cuda) {
  if (cuda) return settings.kv_cache_dtype == "fp8" ? DType::kF8E4M3 : DType::kBF16;
  const std::string& wanted = settings.kv_cache_dtype;
  if (wanted == "auto") return settings.cpu_activations == "f32" ? DType::kF32 : DType::kF16;
  if (wanted == "f32") return DType::kF32;
  if (wanted == "bf16") return DType::kBF16;
  if (wanted == "fp8") return DType::kF8E4M3;
  return wanted == "int8" ? DType::kI8 : DType::kF16;
}

// Everything up to the memory plan: files are opened and every tensor is checked, no weight is read.
Result<Prepared> prepare(const config::Settings& settings, const Progress& progress, Stopwatch& watch) {
  MET_TRY(check_settings(settings));
  Prepared p;
  MET_ASSIGN(p.source, hub::resolve_model(settings.model, settings.cache_dir, settings.model_from_path,
                                          config::Environment::process()));
  if (settings.load_format != "dummy") {
    MET_ASSIGN(weights::Checkpoint checkpoint, weights::Checkpoint::open(p.source));
    p.checkpoint = std::make_unique<weights::Checkpoint>(std::move(checkpoint));
  } else if (p.source.kind == hub::SourceKind::kGguf) {
    return unsupported("--load-format", "dummy takes a directory with config.json, not a GGUF file");
  }
  const bool gguf = p.checkpoint != nullptr && p.checkpoint->gguf() != nullptr;
  MET_ASSIGN(p.description, gguf ? config::describe_gguf(*p.checkpoint->gguf())
                                 : config::read_model_directory(p.source.path));
  watch.lap("open");
  MET_ASSIGN(const gpu::DeviceChoice choice, choose_device(settings, p.description.model));
  const bool cuda = choice.kind == gpu::DeviceKind::kCuda;
  MET_TRY(cuda ? check_cuda_settings(settings) : check_host_settings(settings));
  MET_ASSIGN(const std::string hardware, gpu::hardware_of(choice));
  MET_ASSIGN(p.target, choose_target(settings, p, hardware));
  MET_ASSIGN(p.device, gpu::open_backend(choice, *p.target));
  p.device->listen_to_lookups(
      [audit = p.audit.get()](std::string_view module, std::string_view function, bool found) {
        audit->record(module, function, found);
      });
  watch.lap("device");
  MET_ASSIGN(p.runner.cache, ops::kv_format(cache_type(settings, cuda), settings.kv_high_precision_layers,
                                            p.description.model.layers));
  if (settings.quantization == "fp8" || p.description.model.fp8) p.runner.weights = DType::kF8E4M3;
  p.factory =
      (cuda ? cuda_factory : host_factory)(*p.device, p.checkpoint.get(), settings, p.runner.cache, progress);
  MET_TRY(p.factory->check(p.description.model));
  MET_TRY(plan_model_memory(settings, p));
  watch.lap("check");
  return p;
}

// What was allocated beside what was planned (M2).
void warn_if_over_plan(const Prepared& p, const ModelRunner& runner) {
  const std::size_t planned =
      static_cast<std::size_t>(p.runner.blocks) * kv_block_bytes(runner.config(), p.runner.cache) +
      p.factory->arena_bytes(runner.config(), p.runner);
  if (runner.allocated_bytes() > planned + planned / 50)
    log::warn("buffers take " + std::to_string(runner.allocated_bytes()) + " bytes, " +
              std::to_string(planned) + " were planned");
}

}  // namespace

Result<LoadedModel> load_parts(const config::Settings& settings, const Progress& progress) {
  LoadedModel model;
  Stopwatch watch(model.phases);
  MET_ASSIGN(Prepared p, prepare(settings, progress, watch));
  if (p.checkpoint) p.checkpoint->prefetch();
  const auto looked_up = [&]() -> Result<> {
    p.device->listen_to_lookups({});
    model.kernels_unresolved = static_cast<int>(p.audit->unresolved(*p.target).size());
    return p.audit->check(*p.target, settings.allow_unresolved_kernels);
  };
  MET_ASSIGN(model.runner, p.factory->build(p.description.model, p.runner, looked_up));
  watch.lap("weights and buffers");
  model.unused = p.factory->unused();
  if (!model.unused.empty())
    log::warn(std::to_string(model.unused.size()) + " tensors of the checkpoint are not used, the first is " +
              model.unused.front());
  if (p.runner.cache.type == DType::kF8E4M3)
    log::info("of " + std::to_string(p.description.model.layers) + " layers " +
              std::to_string(p.factory->scaled_caches()) +
              " have scales of their fp8 cache in the checkpoint");
  model.weight_bytes =
      p.factory->weight_bytes() - (p.description.model.tied_head ? 0 : p.factory->table_bytes());
  model.expert_bytes = p.factory->expert_bytes();
  warn_if_over_plan(p, *model.runner);
  if (SwapPool* swap = model.runner->swap_pool()) {
    MET_ASSIGN(model.swap_block_ns, swap->measure(p.device->default_stream()));
  }
  model.kernel_target = kernels::full_name(*p.target);
  model.source = std::move(p.source);
  model.config = std::move(p.description.model);
  model.generation = std::move(p.description.generation);
  model.device = std::move(p.device);
  model.plan = p.plan;
  model.memory = std::move(p.memory);
  model.cache = p.runner.cache;
  return model;
}

double LoadedModel::step_weight_bytes(int tokens) const {
  const auto all = static_cast<double>(weight_bytes);
  if (expert_bytes == 0) return all;
  const double missed = 1 - static_cast<double>(config.experts_per_token) / config.experts;
  return all - static_cast<double>(expert_bytes) * std::pow(missed, tokens);
}

Result<KernelReport> check_kernels(const config::Settings& settings) {
  std::vector<Phase> phases;
  Stopwatch watch(phases);
  MET_ASSIGN(Prepared p, prepare(settings, {}, watch));
  MET_TRY(p.factory->look_up(p.description.model, p.runner));
  p.device->listen_to_lookups({});
  return KernelReport{p.audit->report(*p.target), p.audit->exit_status(*p.target)};
}

Result<MemoryPlan> dry_run(const config::Settings& settings) {
  std::vector<Phase> phases;
  Stopwatch watch(phases);
  MET_ASSIGN(Prepared p, prepare(settings, {}, watch));
  return std::move(p.memory);
}

}  // namespace met::engine
