// A model made ready to serve: found, checked, planned, loaded, started.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "config/settings.h"
#include "engine/memory_plan.h"
#include "hub/model_source.h"
#include "scheduler/request.h"
#include "weights/checkpoint.h"

namespace met::engine {

/// How far loading has come; called from the loading thread.
using Progress = std::function<void(std::size_t done_bytes, std::size_t total_bytes)>;

/// One start-up phase and what it took.
struct Phase {
  std::string name;
  double ms = 0;
};

/// A model and the engine that serves it. Destroying it ends live requests and frees the device.
class ModelHost {
 public:
  virtual ~ModelHost() = default;
  virtual scheduler::Client& client() = 0;
  virtual const config::ModelConfig& config() const = 0;
  virtual const config::GenerationDefaults& generation_defaults() const = 0;
  virtual const hub::ModelSource& source() const = 0;
  virtual const MemoryPlan& memory_plan() const = 0;
  virtual const std::vector<Phase>& phases() const = 0;
  /// Facts of the device and the kernels chosen, for the log and `met benchmark`.
  virtual const std::string& description() const = 0;
};

/// Loads the model that `settings` names. `on_fault` is called once when the device has failed (F4).
///
/// Errors   those of hub, formats, config, kernels and plan_memory, each naming its flag, file or tensor;
/// none leaves
///          anything behind.
Result<std::unique_ptr<ModelHost>> load_model(const config::Settings& settings, const Progress& progress,
                                              std::function<void(const Error&)> on_fault);

/// The memory plan alone, from headers (`--dry-run`).
Result<MemoryPlan> dry_run(const config::Settings& settings);

}  // namespace met::engine
