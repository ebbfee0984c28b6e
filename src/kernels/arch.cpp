#include "kernels/arch.h"

#include <charconv>
#include <optional>

namespace met::kernels {
namespace {

struct CapabilityRow {
  int major;
  int minor;
  std::string_view hardware;
};
constexpr CapabilityRow kCapabilities[] = {{9, 0, "hopper"}, {12, 1, "gb10"}};

struct Arch {
  int major = 0;
  int minor = 0;
  char suffix = '\0';  // 'a': this capability alone; 'f': its family
};

std::optional<Arch> parse(std::string_view text) {
  if (!text.starts_with("sm_")) return std::nullopt;
  text.remove_prefix(3);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 10) return std::nullopt;
  const std::string_view rest(end, text.data() + text.size());
  if (rest.size() > 1 || (rest.size() == 1 && rest != "a" && rest != "f")) return std::nullopt;
  return Arch{number / 10, number % 10, rest.empty() ? '\0' : rest.front()};
}

}  // namespace

std::string_view hardware_for_capability(int major, int minor) {
  for (const CapabilityRow& row : kCapabilities)
    if (row.major == major && row.minor == minor) return row.hardware;
  return {};
}

Result<> check_arch(const Hardware& hardware, int major, int minor) {
  const auto arch = parse(hardware.arch);
  const std::string capability = std::to_string(major) + "." + std::to_string(minor);
  if (!arch)
    return unsupported("hardware",
                       "kernels for " + std::string(hardware.arch) + " do not run on a CUDA device");
  const bool runs =
      arch->major == major && (arch->suffix == 'a' ? arch->minor == minor : arch->minor <= minor);
  if (runs) return {};
  const std::string_view other = hardware_for_capability(major, minor);
  return unsupported("hardware", "kernels compiled for " + std::string(hardware.arch) +
                                     " do not run on a device of compute capability " + capability + ": " +
                                     (other.empty() ? "no kernel tree is for it yet"
                                                    : "build with MET_TARGET_HW=" + std::string(other)));
}

std::string sm_count_warning(const Hardware& hardware, int multiprocessors) {
  if (hardware.sm_count == 0 || hardware.sm_count == multiprocessors) return {};
  return "the device has " + std::to_string(multiprocessors) + " multiprocessors, kernels/" +
         std::string(hardware.name) + "/HARDWARE.toml says " + std::to_string(hardware.sm_count) +
         ": split counts follow the file";
}

}  // namespace met::kernels
