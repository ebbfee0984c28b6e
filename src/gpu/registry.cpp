#include "gpu/registry.h"

#include <algorithm>

#include "kernels/resolve.h"

namespace met::gpu {

Result<GpuBackend*> Registry::load(std::string_view model, const DeviceChoice& choice,
                                   const kernels::Target& target) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(loaded_, model, &Loaded::model) != loaded_.end())
    return invalid("model", "'" + std::string(model) + "' is loaded already");
  MET_ASSIGN(auto backend, open_backend(choice, target));
  return loaded_.emplace_back(Loaded{std::string(model), &target, std::move(backend)}).backend.get();
}

void Registry::unload(std::string_view model) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(loaded_, model, &Loaded::model);
  MET_CHECK(found != loaded_.end(), "unloaded a model that is not loaded");
  loaded_.erase(found);
}

GpuBackend* Registry::find(std::string_view model) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(loaded_, model, &Loaded::model);
  return found == loaded_.end() ? nullptr : found->backend.get();
}

std::vector<Registry::Entry> Registry::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  for (const Loaded& loaded : loaded_) {
    Entry entry{.model = loaded.model,
                .target = loaded.target->hardware != nullptr ? kernels::full_name(*loaded.target) : "",
                .hardware = loaded.backend->info().hardware,
                .modules = loaded.target->modules.size()};
    for (const SiteUse& use : loaded.backend->allocations()) entry.live_bytes += use.live_bytes;
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace met::gpu
