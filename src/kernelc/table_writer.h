// The generated table: one C++ file of constants, and an assembly file that embeds the device images.
#pragma once

#include <string>
#include <vector>

#include "closure/tree.h"
#include "kernelc/jobs.h"
#include "kernelc/plan.h"

namespace met::kernelc {

/// Text of kernel_table.cpp: the same plan gives the same bytes. `hardware` lists the selected trees, whose
/// defaults are baked in even where `plan` is empty. Defines what src/kernels/table.h declares.
std::string write_table(const closure::KernelTree& tree, const std::vector<std::string>& hardware,
                        const Plan& plan, const Entries& entries);

/// Assembly that places each device image of the plan in read-only data; empty when there are none.
std::string write_images(const Plan& plan);

/// Expected-absent kernels that a target has after all, as sentences.
std::vector<std::string> stale_absences(const Plan& plan, const Entries& entries);

}  // namespace met::kernelc
