#include "kernels/lookup.h"

#include <algorithm>

#include "core/json.h"
#include "kernels/resolve.h"

namespace met::kernels {

const Module* find_module(const Target& target, std::string_view module) {
  const auto it = std::ranges::find(target.modules, module, &Module::name);
  return it == target.modules.end() ? nullptr : &*it;
}

MetCpuKernel find_cpu_kernel(const Target& target, std::string_view module, std::string_view function,
                             CpuIsa isa) {
  const Module* found = find_module(target, module);
  if (found == nullptr) return nullptr;
  const auto it = std::ranges::find(found->functions, function, &CpuFunction::name);
  if (it == found->functions.end()) return nullptr;
  for (int i = static_cast<int>(isa); i >= 0; --i)
    if (it->by_isa[i] != nullptr) return it->by_isa[i];
  return nullptr;
}

bool has_kernel(const Target& target, std::string_view module, std::string_view function) {
  const Module* found = find_module(target, module);
  return found != nullptr &&
         (std::ranges::find(found->functions, function, &CpuFunction::name) != found->functions.end() ||
          std::ranges::find(found->entries, function) != found->entries.end());
}

std::string_view default_of(const Hardware& hardware, std::string_view key) {
  const auto it = std::ranges::find(hardware.defaults, key, &Default::key);
  return it == hardware.defaults.end() ? std::string_view() : it->value;
}

const Hardware* find_hardware(std::string_view name) {
  const auto all = hardwares();
  const auto it = std::ranges::find(all, name, &Hardware::name);
  return it == all.end() ? nullptr : &*it;
}

std::string closures_json(std::span<const Target> targets) {
  json::Object all;
  for (const Target& target : targets) {
    if (target.closure_hash.empty()) continue;
    all.append(full_name(target), json::Object{{"hash", target.closure_hash},
                                               {"arch", target.hardware->arch},
                                               {"compiler", target.compiler},
                                               {"flags", target.flags}});
  }
  return json::write(all);
}

}  // namespace met::kernels
