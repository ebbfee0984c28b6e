// A model made ready to serve: loaded, and its engine started.
#pragma once

#include "engine/loaded_model.h"
#include "scheduler/request.h"

namespace met::engine {

/// A model and the engine that serves it. Destroying it ends live requests and frees the device.
class ModelHost {
 public:
  virtual ~ModelHost() = default;
  virtual scheduler::Client& client() = 0;
  virtual const LoadedModel& model() const = 0;
};

/// Starts the engine's threads over a loaded model. `on_fault` is called once when the device has failed (F4).
Result<std::unique_ptr<ModelHost>> start_host(LoadedModel model, const config::Settings& settings,
                                              std::function<void(const Error&)> on_fault);
/// load_parts, then start_host.
Result<std::unique_ptr<ModelHost>> load_model(const config::Settings& settings, const Progress& progress,
                                              std::function<void(const Error&)> on_fault);

}  // namespace met::engine
