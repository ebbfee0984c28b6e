// What the operations of one backend share: memoised kernel handles, "first shape" gates for diagnostics, and
// one scratch buffer that only grows. For the thread that builds and runs the model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/backend.h"

namespace met::gpu {

class OpCache {
 public:
  explicit OpCache(GpuBackend& device) : device_(device) {}
  ~OpCache() { device_.free(scratch_); }
  OpCache(const OpCache&) = delete;
  OpCache& operator=(const OpCache&) = delete;

  /// The backend's kernel(), asked once for each name. A failure is not kept.
  Result<KernelHandle> kernel(std::string_view module, std::string_view function);

  /// True the first time that an operation meets these sizes: log a chosen GEMM variant once, not every step.
  bool first(std::string_view op, std::int64_t m, std::int64_t n, std::int64_t k);

  /// At least `bytes` of scratch. Growing frees the old buffer, so call it while sizes are planned, never in
  /// a step.
  Result<DevicePtr> scratch(std::size_t bytes);

 private:
  GpuBackend& device_;
  std::map<std::pair<std::string, std::string>, KernelHandle> kernels_;
  std::map<std::string, std::set<std::array<std::int64_t, 3>>, std::less<>> shapes_;
  DevicePtr scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace met::gpu
