// The kernels of every instruction set that this CPU has, by entry name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "met/cpu_kernel.h"

namespace met::test {

struct Isa {
  std::string name;
  int index;
  /// The entry's function, or null.
  MetCpuKernel find(std::string_view entry) const;
};

/// Those that run here; what is left out is said once on stdout.
const std::vector<Isa>& isas();

}  // namespace met::test
