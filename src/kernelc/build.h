// The whole run: select, stage, compile, write.
#pragma once

#include <ostream>

#include "kernelc/options.h"

namespace met::kernelc {

/// Writes kernel_table.cpp and libmet_kernel_objects.a into `options.out`; files whose content would not
/// change keep their time. Lines for the user go to `log`.
Result<> build(const Options& options, std::ostream& log);

}  // namespace met::kernelc
