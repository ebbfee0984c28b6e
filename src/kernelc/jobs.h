// Running the compile jobs and checking what they made.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "kernelc/elf_symbols.h"
#include "kernelc/plan.h"

namespace met::kernelc {

/// Entry points of each job's object, in the order of Plan::jobs, names as written in the source.
using Entries = std::vector<std::vector<std::string>>;

/// Compiles what the cache lacks, `options.jobs` at a time, and reads every object's entry points. All jobs
/// run even after one has failed; each failure is printed to `log` with the compiler's output. Errors: the
/// number of failures; a toolchain that is absent, with the command that it would run.
Result<Entries> run_jobs(const Plan& plan, const Options& options, std::ostream& log);

/// What is wrong with a CPU object's symbols, one sentence a symbol: entries are the only ones that may be
/// visible, since a symbol shared with another compilation could bring instructions that the CPU lacks.
std::vector<std::string> check_cpu_symbols(const std::vector<Symbol>& symbols, const std::string& suffix);

}  // namespace met::kernelc
