// A backend under test, with what its kernels can do.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu/backend.h"

namespace met::gpu::test {

struct Subject {
  std::string name;
  /// Opens the backend with redzones; null with a reason in `why` where that fails.
  std::function<std::unique_ptr<GpuBackend>(std::string& why)> open;
  bool runs_kernels =
      false;  ///< module "probe", kernel "probe_add_one"(u32* cells, i64 count) adds 1 to each
};

/// All backends of this build that the machine has a driver for.
const std::vector<Subject>& subjects();

}  // namespace met::gpu::test
