// Whether a device can run what was compiled for a hardware.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "kernels/table.h"

namespace met::kernels {

/// Kernel tree for an NVIDIA compute capability, "hopper" for 9.0; empty: none yet.
std::string_view hardware_for_capability(int major, int minor);

/// Checks the compiled arch against a CUDA device: "sm_90a" runs on 9.0 alone, "sm_120f" on 12.x from 12.0,
/// "sm_80" on 8.x from 8.0. Errors: kUnsupported, saying which MET_TARGET_HW to build with.
Result<> check_arch(const Hardware& hardware, int major, int minor);

/// One sentence where the driver reports another number of multiprocessors than HARDWARE.toml; else empty.
std::string sm_count_warning(const Hardware& hardware, int multiprocessors);

}  // namespace met::kernels
