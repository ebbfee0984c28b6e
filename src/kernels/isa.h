// The instruction set that CPU kernels run with, chosen once at start.
#pragma once

#include <string_view>

#include "core/cpu_isa.h"
#include "core/error.h"

namespace met::kernels {

/// "generic", "avx2", "avx512", "amx", "dotprod", "i8mm".
std::string_view name(CpuIsa isa);

/// Architecture of the processors that this binary runs on: "x86-64", "aarch64"; another one has only kGeneric.
std::string_view cpu_arch();

/// What Linux's two words of features (AT_HWCAP, AT_HWCAP2) offer on Arm.
CpuIsa arm_isa(unsigned long features, unsigned long more_features);

/// The best set that this processor and its system offer. For amx the process asks the system for the tile
/// registers; a refusal leaves avx512.
CpuIsa detect_isa();

/// A name as given on the command line, on a processor of `arch` whose best set is `best`; empty or "auto": the
/// best. Errors: unknown name, or a set that this processor lacks.
Result<CpuIsa> choose_isa(std::string_view wanted, std::string_view arch, CpuIsa best);

/// The same on this processor.
Result<CpuIsa> choose_isa(std::string_view wanted);

}  // namespace met::kernels
