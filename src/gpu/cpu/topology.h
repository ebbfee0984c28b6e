// What this process may use of the machine: CPUs of its affinity mask, CPU quota and memory limit of its
// cgroup.
#pragma once

#include <string>
#include <vector>

#include "gpu/backend.h"

namespace met::gpu::cpu {

struct Topology {
  std::string name;       ///< as cpuid says
  std::vector<int> cpus;  ///< CPUs of the affinity mask, one hyperthread of each core first
  int cores = 1;          ///< physical cores among them
  double quota = 0;       ///< CPUs that the cgroup grants; 0: no limit

  /// Threads of a pool that asks for none: physical cores, at most the quota, at least 1.
  int default_threads() const;
};

/// `root` is where /proc and /sys are found; tests give a tree of their own.
Topology read_topology(const std::string& root = "");

/// Total and available bytes: the smaller of the system's and the cgroup's.
MemoryInfo read_memory(const std::string& root = "");

}  // namespace met::gpu::cpu
