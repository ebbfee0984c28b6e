// Everything that a process needs to run a model's steps, made in the order of start-up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.h"
#include "engine/memory_plan.h"
#include "engine/model_runner.h"
#include "engine/runner_factory.h"
#include "hub/model_source.h"
#include "scheduler/plan.h"

namespace met::engine {

/// One start-up phase and what it took.
struct Phase {
  std::string name;
  double ms = 0;
};

/// Members are destroyed last to first: the runner before its device.
struct LoadedModel {
  hub::ModelSource source;
  config::ModelConfig config;
  config::GenerationDefaults generation;
  std::unique_ptr<gpu::GpuBackend> device;
  std::unique_ptr<ModelRunner> runner;
  scheduler::PlanConfig plan;
  MemoryPlan memory;
  ops::KvFormat cache;              ///< of K and V
  std::int64_t swap_block_ns = 0;   ///< a block to the host's swap pool and back, measured
  std::size_t weight_bytes = 0;     ///< packed, of what decode steps read
  std::size_t expert_bytes = 0;     ///< of them, all experts of mixtures
  std::vector<std::string> unused;  ///< tensors of the checkpoint that nothing reads
  std::vector<Phase> phases;
  std::string kernel_target;   ///< "cpu/llama/gguf"
  int kernels_unresolved = 0;  ///< look-ups that found nothing, which a flag allowed

  /// Bytes of weights that a step of so many tokens reads; of a mixture's experts, as many as uniform routing is expected to
  /// touch: experts * (1 - (1 - top_k / experts)^tokens).
  double step_weight_bytes(int tokens) const;
};

/// Loads the model that `settings` names: source, configuration, kernel target, device, check of every
/// tensor, memory plan, weights, buffers.
///
/// Errors   those of hub, formats, config, kernels and plan_memory, each naming its flag, file or tensor; kUnsupported
///          for a setting that this build or device cannot honour.
Result<LoadedModel> load_parts(const config::Settings& settings, const Progress& progress);

/// What the model's construction asked of its kernel target.
struct KernelReport {
  std::string text;     ///< a line a look-up, then one line of JSON
  int exit_status = 0;  ///< unresolved ones, at most 255
};
/// Builds the model and reports (`--check-kernels`).
Result<KernelReport> check_kernels(const config::Settings& settings);

/// The memory plan alone, from headers; no weight is read (`--dry-run`).
Result<MemoryPlan> dry_run(const config::Settings& settings);

}  // namespace met::engine
