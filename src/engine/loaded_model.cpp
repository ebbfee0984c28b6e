#include "engine/loaded_model.h"

#include <chrono>

#include "arch/registry.h"
#include "config/environment.h"
#include "config/read_model_config.h"
#include "core/log.h"
#include "gpu/device.h"
#include "kernels/audit.h"
#include "kernels/lookup.h"
#include "kernels/resolve.h"
#include "layers/weight_loader.h"
#include "weights/checkpoint.h"

namespace met::engine {

namespace {

// Serving defaults where neither a flag nor the hardware's [defaults] says otherwise (rule S5, section 13).
constexpr std::int64_t kMaxPrefillTokens = 256;
constexpr std::int64_t kMixedPrefillTokens = 128;
constexpr std::int64_t kMaxBatchSize = 16;
constexpr std::int64_t kCpuStepMaxUs = 250'000;
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

// Settings that are valid in themselves but that this engine cannot honour: refused, never ignored.
Result<> check_settings(const config::Settings& s) {
  const auto refuse = [](const char* flag, const std::string& why) { return unsupported(flag, why); };
  if (s.device == "cuda")
    return refuse("--device", "models are served on the CPU; the CUDA backend runs single operations so far");
  if (s.kv_cache_dtype != "auto" && s.kv_cache_dtype != "f16" && s.kv_cache_dtype != "f32")
    return refuse("--kv-cache-dtype",
                  "the CPU's cache is f16 or f32; '" + s.kv_cache_dtype + "' is not supported");
  if (s.block_size != ops::kKvBlockTokens)
    return refuse("--block-size",
                  "the CPU's blocks hold " + std::to_string(ops::kKvBlockTokens) + " positions");
  if (s.scheduler != "fifo") return refuse("--scheduler", "'" + s.scheduler + "' is not supported; fifo is");
  if (s.scheduler_config == "async")
    return refuse("--scheduler-config",
                  "async needs a device that feeds sampled ids to its next step; the CPU does not");
  if (s.cpu_activations == "bf16")
    return refuse("--cpu-activations", "bf16 is not supported; int8 and f32 are");
  const config::Settings neutral;
  if (s.gpu_ordinal != neutral.gpu_ordinal)
    return refuse("--gpu-ordinal", "there is no GPU to choose: models are served on the CPU");
  if (s.gpu_memory_utilization != neutral.gpu_memory_utilization)
    return refuse("--gpu-memory-utilization", "bounds a GPU's memory; on the CPU use --kv-cache-gb");
  if (s.tbt_deadline_ms != neutral.tbt_deadline_ms)
    return refuse("--tbt-deadline-ms", "belongs to --scheduler slai, which is not supported");
  if (s.prefill_codispatch == "on")
    return refuse("--prefill-codispatch", "waves that wait for each other are not supported");
  if (s.prefill_varlen_batch == "off")
    return refuse("--prefill-varlen-batch", "prefill waves are always ragged here");
  return {};
}

std::int64_t default_or(const kernels::Hardware& hardware, std::string_view key, std::int64_t otherwise) {
  const std::string_view text = kernels::default_of(hardware, key);
  return text.empty() ? otherwise : std::stoll(std::string(text));
}

// What loading decides before it takes memory.
struct Prepared {
  hub::ModelSource source;
  std::unique_ptr<weights::Checkpoint> checkpoint;
  config::ModelDescription description;
  const kernels::Target* target = nullptr;
  std::unique_ptr<gpu::GpuBackend> device;
  std::unique_ptr<kernels::KernelAudit> audit = std::make_unique<kernels::KernelAudit>();
  std::optional<layers::WeightLoader> loader;
  scheduler::PlanConfig plan;
  ModelRunner::Options runner;
  MemoryPlan memory;
};

Result<const kernels::Target*> choose_target(const config::Settings& settings, const Prepared& p) {
  const config::ModelConfig& model = p.description.model;
  const std::string_view identities[] = {p.source.name, settings.model_name, model.name};
  const kernels::Dim dims[] = {{"hidden", model.hidden},     {"layers", model.layers},
                               {"heads", model.heads},       {"kv_heads", model.kv_heads},
                               {"head_dim", model.head_dim}, {"ffn", model.ffn},
                               {"vocab", model.vocabulary}};
  kernels::Storage storage = kernels::Storage::kGguf;
  if (!model.gguf)
    storage = model.weight_dtype == DType::kF16   ? kernels::Storage::kFp16
              : model.weight_dtype == DType::kF32 ? kernels::Storage::kFp32
                                                  : kernels::Storage::kBf16;
  return kernels::resolve(kernels::targets(), {.hardware = "cpu",
                                               .model_type = model.model_type,
                                               .hidden_size = model.hidden,
                                               .storage = storage,
                                               .dims = dims,
                                               .identities = identities,
                                               .pinned = settings.kernel_target});
}

scheduler::PlanConfig plan_config(const config::Settings& s, const kernels::Hardware& hardware,
                                  std::int64_t max_seq_len) {
  scheduler::PlanConfig plan;
  plan.block_tokens = ops::kKvBlockTokens;
  plan.max_batch_size =
      static_cast<int>(s.max_batch_size.value_or(default_or(hardware, "max_batch_size", kMaxBatchSize)));
  plan.max_seq_len = max_seq_len;
  plan.max_prefill_tokens =
      s.max_prefill_tokens.value_or(default_or(hardware, "max_prefill_tokens", kMaxPrefillTokens));
  plan.mixed_prefill_tokens =
      s.mixed_prefill_tokens.value_or(default_or(hardware, "mixed_prefill_tokens", kMixedPrefillTokens));
  plan.kv_admit_watermark = s.kv_admit_watermark;
  plan.step_max_us = kCpuStepMaxUs;
  return plan;
}

Result<> plan_model_memory(const config::Settings& s, Prepared& p) {
  const config::ModelConfig& model = p.description.model;
  const std::int64_t wanted = s.max_seq_len.value_or(model.max_positions);
  if (wanted > model.max_positions)
    return invalid("--max-seq-len", std::to_string(wanted) + " is more than the model's " +
                                        std::to_string(model.max_positions) + " positions");
  p.plan = plan_config(s, *p.target->hardware, wanted);
  const auto fill = [&](std::int64_t max_seq_len) {
    p.plan.max_seq_len = max_seq_len;
    p.runner.limits = scheduler::step_limits(p.plan);
    p.runner.positions = max_seq_len;
    p.runner.linear_row_bytes = p.loader->workspace_row_bytes();
    p.runner.graphs = !s.no_graphs;
  };
  fill(wanted);
  const gpu::MemoryInfo memory = p.device->memory();
  MET_ASSIGN(
      p.memory,
      plan_memory({.total = memory.total,
                   .free = memory.free,
                   .utilization = s.gpu_memory_utilization,
                   .host_memory = p.device->info().unified_memory,
                   .kv_bytes = s.kv_cache_gb ? static_cast<std::size_t>(*s.kv_cache_gb * kGigabyte) : 0,
                   .weights = p.loader->packed_bytes(),
                   .arena = ModelRunner::arena_bytes(p.device->info(), model, p.runner),
                   .block = ModelRunner::block_bytes(model, p.runner.cache),
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

// Everything up to the memory plan: files are opened and every tensor is checked, no weight is read.
Result<Prepared> prepare(const config::Settings& settings, const Progress& progress, Stopwatch& watch) {
  MET_TRY(check_settings(settings));
  Prepared p;
  MET_ASSIGN(p.source, hub::resolve_model(settings.model, settings.cache_dir, settings.model_from_path,
                                          config::Environment::process()));
  MET_ASSIGN(weights::Checkpoint checkpoint, weights::Checkpoint::open(p.source));
  p.checkpoint = std::make_unique<weights::Checkpoint>(std::move(checkpoint));
  MET_ASSIGN(p.description, p.checkpoint->gguf() != nullptr ? config::describe_gguf(*p.checkpoint->gguf())
                                                            : config::read_model_directory(p.source.path));
  watch.lap("open");
  MET_ASSIGN(p.target, choose_target(settings, p));
  MET_ASSIGN(p.device, gpu::open_backend({.kind = gpu::DeviceKind::kCpu,
                                          .threads = static_cast<int>(settings.threads.value_or(0)),
                                          .isa = settings.cpu_isa},
                                         *p.target));
  p.device->listen_to_lookups(
      [audit = p.audit.get()](std::string_view module, std::string_view function, bool found) {
        audit->record(module, function, found);
      });
  watch.lap("device");
  const bool exact = settings.cpu_activations == "f32";
  p.runner.cache = settings.kv_cache_dtype == "f32" || (exact && settings.kv_cache_dtype == "auto")
                       ? DType::kF32
                       : DType::kF16;
  p.loader.emplace(*p.device, *p.checkpoint,
                   layers::WeightLoader::Options{
                       .activations = exact ? ops::ActivationMode::kF32 : ops::ActivationMode::kInt8,
                       .kv_cache = p.runner.cache,
                       .threads = p.device->info().multiprocessors,
                       .progress = progress});
  MET_TRY(arch::check_model(p.description.model, *p.loader));
  MET_TRY(plan_model_memory(settings, p));
  watch.lap("check");
  return p;
}

// What was allocated beside what was planned (M2).
void warn_if_over_plan(const Prepared& p, const ModelRunner& runner) {
  const std::size_t planned =
      static_cast<std::size_t>(p.runner.blocks) * ModelRunner::block_bytes(runner.config(), p.runner.cache) +
      ModelRunner::arena_bytes(p.device->info(), runner.config(), p.runner);
  if (runner.allocated_bytes() > planned + planned / 50)
    log::warn("buffers take " + std::to_string(runner.allocated_bytes()) + " bytes, " +
              std::to_string(planned) + " were planned");
}

}  // namespace

Result<LoadedModel> load_parts(const config::Settings& settings, const Progress& progress) {
  LoadedModel model;
  Stopwatch watch(model.phases);
  MET_ASSIGN(Prepared p, prepare(settings, progress, watch));
  p.checkpoint->prefetch();
  MET_ASSIGN(std::unique_ptr<arch::Model> built, arch::build_model(p.description.model, *p.loader));
  p.device->listen_to_lookups({});
  MET_TRY(p.audit->check(*p.target, settings.allow_unresolved_kernels));
  watch.lap("weights");
  model.unused = p.loader->unused();
  if (!model.unused.empty())
    log::warn(std::to_string(model.unused.size()) + " tensors of the checkpoint are not used, the first is " +
              model.unused.front());
  MET_ASSIGN(model.runner, ModelRunner::make(*p.device, std::move(built), p.runner));
  watch.lap("buffers");
  model.weight_bytes =
      p.loader->packed_bytes() - (p.description.model.tied_head ? 0 : p.loader->table_bytes());
  warn_if_over_plan(p, *model.runner);
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

Result<KernelReport> check_kernels(const config::Settings& settings) {
  std::vector<Phase> phases;
  Stopwatch watch(phases);
  MET_ASSIGN(Prepared p, prepare(settings, {}, watch));
  MET_TRY(arch::build_model(p.description.model, *p.loader));
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
