// Which models are on which device now: a model's modules and memory belong to its backend, so a swap of
// models opens one and closes the other.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.h"

namespace met::gpu {

/// Safe from any thread.
class Registry {
 public:
  struct Entry {
    std::string model;
    std::string target;  ///< "hardware/model/quant"
    std::string hardware;
    std::size_t modules = 0;
    std::size_t live_bytes = 0;
  };

  /// Opens a backend for a model. Errors: kInvalidArgument for a model that is loaded; those of open_backend.
  Result<GpuBackend*> load(std::string_view model, const DeviceChoice& choice, const kernels::Target& target);

  /// Closes the model's backend: everything that uses it is gone by then. An unknown model is a defect.
  void unload(std::string_view model);

  /// The backend of a loaded model, or null.
  GpuBackend* find(std::string_view model) const;

  std::vector<Entry> entries() const;

 private:
  struct Loaded {
    std::string model;
    const kernels::Target* target = nullptr;
    std::unique_ptr<GpuBackend> backend;
  };
  mutable std::mutex mutex_;
  std::vector<Loaded> loaded_;
};

}  // namespace met::gpu
