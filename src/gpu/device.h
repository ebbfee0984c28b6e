// From a user's choice of device to an open backend.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gpu/backend.h"
#include "kernels/table.h"

namespace met::gpu {

enum class DeviceKind { kAuto, kCpu, kCuda, kMock };

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kAuto;
  int ordinal = 0;        ///< which CUDA device
  int threads = 0;        ///< CPU: 0 for one on each physical core within affinity and quota
  bool pin = true;        ///< CPU: threads stay on their CPUs
  std::string isa;        ///< CPU: "auto" or empty for the best; one that kernels/isa.h names
  bool redzones = false;  ///< guard bands around every allocation, bounds checks of every copy
};

/// "auto", "cpu", "cuda", "cuda:1" or "mock".
///
/// Errors   kInvalidArgument, field "device".
Result<DeviceChoice> parse_device(std::string_view text);

/// The hardware whose kernel targets the choice needs: "cpu", "hopper", … Auto: the CUDA device where there
/// is one and this binary has kernels for it, else "cpu".
///
/// Errors   kUnavailable where a CUDA device is asked for and there is none; kUnsupported for one that no
/// tree is for.
Result<std::string> hardware_of(const DeviceChoice& choice);

/// Opens the device with the target's kernels. Auto: the device that the target was built for. `target`
/// outlives it.
///
/// Errors   kInvalidArgument where choice and target do not fit or the CPU lacks the instruction set; those
/// of CudaBackend::open.
Result<std::unique_ptr<GpuBackend>> open_backend(const DeviceChoice& choice, const kernels::Target& target);

}  // namespace met::gpu
