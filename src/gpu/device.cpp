#include "gpu/device.h"

#include <algorithm>
#include <charconv>

#include "gpu/cpu/cpu_backend.h"
#include "gpu/cuda/cuda_backend.h"
#include "gpu/mock/mock_backend.h"
#include "kernels/arch.h"
#include "kernels/isa.h"

namespace met::gpu {
namespace {

DeviceKind kind_of(const kernels::Target& target) {
  const bool nvidia = target.hardware != nullptr && target.hardware->vendor == "nvidia";
  return nvidia ? DeviceKind::kCuda : DeviceKind::kCpu;
}

bool has_targets(std::string_view hardware) {
  return std::ranges::any_of(kernels::targets(), [&](const kernels::Target& target) {
    return target.hardware != nullptr && target.hardware->name == hardware;
  });
}

Result<std::unique_ptr<GpuBackend>> open_cpu(const DeviceChoice& choice, const kernels::Target& target) {
  MET_ASSIGN(const CpuIsa isa, kernels::choose_isa(choice.isa));
  cpu::CpuOptions options{.pool = {.threads = choice.threads, .pin = choice.pin}};
  options.redzones = choice.redzones;
  options.check_bounds |= choice.redzones;
  return std::make_unique<cpu::CpuBackend>(target, isa, options);
}

}  // namespace

Result<DeviceChoice> parse_device(std::string_view text) {
  DeviceChoice choice;
  if (text == "auto") return choice;
  choice.kind = DeviceKind::kCpu;
  if (text == "cpu") return choice;
  choice.kind = DeviceKind::kMock;
  if (text == "mock") return choice;
  choice.kind = DeviceKind::kCuda;
  if (text == "cuda") return choice;
  if (text.starts_with("cuda:")) {
    const char* begin = text.data() + 5;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, choice.ordinal);
    if (error == std::errc() && stop == end && choice.ordinal >= 0) return choice;
  }
  return invalid("device", "'" + std::string(text.substr(0, 40)) +
                               "' is not a device: auto, cpu, cuda, cuda:<number> and mock are");
}

Result<std::string> hardware_of(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::kCpu) return "cpu";
  if (choice.kind == DeviceKind::kMock) return "mock";
  const auto found = cuda::probe(choice.ordinal);
  const std::string_view hardware =
      found ? kernels::hardware_for_capability(found->major, found->minor) : std::string_view();
  if (choice.kind == DeviceKind::kAuto)
    return std::string(!hardware.empty() && has_targets(hardware) ? hardware : "cpu");
  if (!found) return std::unexpected(found.error());
  if (hardware.empty())
    return unsupported("device", "no kernel tree is for compute capability " + std::to_string(found->major) +
                                     "." + std::to_string(found->minor) + " yet");
  return std::string(hardware);
}

Result<std::unique_ptr<GpuBackend>> open_backend(const DeviceChoice& choice, const kernels::Target& target) {
  if (choice.kind == DeviceKind::kMock) return std::make_unique<mock::MockBackend>();
  const DeviceKind kind = kind_of(target);
  if (choice.kind != DeviceKind::kAuto && choice.kind != kind)
    return invalid("device", "the kernel target is for " +
                                 std::string(target.hardware != nullptr ? target.hardware->name : "cpu") +
                                 ", the chosen device is not");
  if (kind == DeviceKind::kCpu) return open_cpu(choice, target);
  return cuda::CudaBackend::open(
      target, {.ordinal = choice.ordinal, .redzones = choice.redzones, .check_bounds = choice.redzones});
}

}  // namespace met::gpu
