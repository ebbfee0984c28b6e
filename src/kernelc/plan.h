// The work plan: every target's modules, and the unique compile jobs behind them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "closure/hash.h"
#include "closure/layers.h"
#include "kernelc/process.h"
#include "kernelc/vendor.h"

namespace met::kernelc {

/// One compilation, shared by all targets whose key is the same.
struct Job {
  std::string key;     ///< 64 hex digits, closure::job_key
  std::string source;  ///< "kernels/cpu/common/linear.cpp"
  std::string arch;    ///< or instruction set
  std::string suffix;  ///< of CPU entries
  closure::Vendor vendor = closure::Vendor::kCpu;
  bool compiler_present = false;
  std::filesystem::path object;  ///< in the cache
  std::filesystem::path fresh;   ///< what the commands write; moved to `object` once it is checked
  std::vector<Command> commands;
};

struct PlannedModule {
  std::string name;
  std::map<std::string, std::size_t> builds;  ///< arch or instruction set → job
};

struct PlannedTarget {
  closure::Target target;
  std::vector<PlannedModule> modules;
  std::string closure_hash;
  std::string compiler;
};

struct Plan {
  std::vector<Job> jobs;  ///< in the order of first use
  std::vector<PlannedTarget> targets;
  std::string cpu_arch;  ///< of the CPU jobs; empty without any
};

/// Errors: those of reading the sources; a compiler for processors that a CPU tree has no instruction sets of.
Result<Plan> make_plan(const closure::KernelTree& tree, std::vector<closure::Target> targets,
                       const Options& options, const Stager& stager);

}  // namespace met::kernelc
