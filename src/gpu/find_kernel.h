// How a backend finds a kernel among the functions of its target.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/launch.h"

namespace met::gpu {

/// The place of a function of that module and name; kNotFound names it and the architecture.
template <class Function>
Result<KernelHandle> find_kernel(const std::vector<Function>& functions, std::string_view module,
                                 std::string_view name, std::string_view arch) {
  for (std::size_t i = 0; i < functions.size(); ++i)
    if (functions[i].module == module && functions[i].name == name)
      return KernelHandle{static_cast<std::uint32_t>(i)};
  return fail(ErrorCode::kNotFound, "no kernel '" + std::string(module) + "." + std::string(name) + "' for " +
                                        std::string(arch) + " in this target");
}

}  // namespace met::gpu
