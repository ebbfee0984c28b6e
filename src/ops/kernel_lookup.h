// How an operation finds its kernel when it is planned.
#pragma once

#include <string_view>

#include "gpu/backend.h"

namespace met::ops {

/// The kernel's handle, or an unresolved one where the target lacks it: the kernel audit, which hears of
/// every look-up, refuses the start with the list of all of them (seam 2). Launching an unresolved handle is
/// a defect.
inline gpu::KernelHandle look_up(gpu::GpuBackend& device, std::string_view module,
                                 std::string_view function) {
  return device.kernel(module, function).value_or(gpu::KernelHandle{});
}

}  // namespace met::ops
