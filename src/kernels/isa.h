// The instruction set that CPU kernels run with, chosen once at start.
#pragma once

#include <string_view>

#include "core/error.h"
#include "kernels/table.h"

namespace met::kernels {

/// "generic", "avx2", "avx512", "amx".
std::string_view name(CpuIsa isa);

/// The best set that this processor and its system offer. For amx the process asks the system for the tile
/// registers; a refusal leaves avx512.
CpuIsa detect_isa();

/// A name as given on the command line; empty or "auto": the best. Errors: unknown name, or a set that this
/// processor lacks.
Result<CpuIsa> choose_isa(std::string_view wanted);

}  // namespace met::kernels
