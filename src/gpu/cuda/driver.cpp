#include "gpu/cuda/driver.h"

#include <dlfcn.h>

#include <array>
#include <charconv>

namespace met::gpu::cuda {
namespace {

constexpr int kOldestDriver = 11080;  // the first with cuLaunchKernelEx

struct Tree {
  int major;
  int minor;
  std::string_view hardware;
};
constexpr std::array kTrees = {Tree{9, 0, "hopper"}, Tree{12, 1, "gb10"}};

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<Driver> load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(ErrorCode::kUnavailable, "no CUDA driver: libcuda.so.1 was not found");
  Driver driver;
  std::string missing;
  const auto resolve = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr && missing.empty()) missing = symbol;
  };
#define MET_CUDA_RESOLVE(name, symbol, parameters) resolve(driver.name, #symbol);
  MET_CUDA_FUNCTIONS(MET_CUDA_RESOLVE)
#undef MET_CUDA_RESOLVE
  if (driver.driver_version != nullptr) driver.driver_version(&driver.version);
  if (!missing.empty() || driver.version < kOldestDriver)
    return fail(ErrorCode::kUnavailable, "CUDA driver too old: " + version_text(driver.version) +
                                             (missing.empty() ? "" : ", without " + missing) + "; " +
                                             version_text(kOldestDriver) + " or newer is needed");
  const CuResult result = driver.init(0);
  if (result == kNoDevice) return fail(ErrorCode::kUnavailable, "no CUDA driver: it finds no device");
  if (result != kSuccess) {
    Error error = driver.error(result, "starting the driver");
    error.code = ErrorCode::kUnavailable;
    error.message = "no CUDA driver: " + error.message;
    return std::unexpected(std::move(error));
  }
  return driver;
}

}  // namespace

Result<const Driver*> open_driver() {
  static const Result<Driver> driver = load();
  if (!driver) return std::unexpected(driver.error());
  return &*driver;
}

ErrorCode code_of(CuResult result) {
  switch (result) {
    case kOutOfMemory:
      return ErrorCode::kResourceExhausted;
    case kNotFound:
      return ErrorCode::kNotFound;
    case kInvalidImage:
    case kNoBinaryForGpu:
      return ErrorCode::kUnsupported;
    case 1:    // CUDA_ERROR_INVALID_VALUE
    case 201:  // CUDA_ERROR_INVALID_CONTEXT
    case 400:  // CUDA_ERROR_INVALID_HANDLE
      return ErrorCode::kInternal;
    default:
      // 900 to 910: misuse of a stream that captures; the context survives.
      return result >= 900 && result <= 910 ? ErrorCode::kInternal : ErrorCode::kDevice;
  }
}

Error Driver::error(CuResult result, std::string_view what) const {
  const char* code = nullptr;
  const char* sentence = nullptr;
  if (error_name != nullptr) error_name(result, &code);
  if (error_string != nullptr) error_string(result, &sentence);
  return {code_of(result), std::string(what) + ": " + (code ? code : "error " + std::to_string(result)) +
                               (sentence ? std::string(", ") + sentence : "")};
}

std::string_view hardware_of(int major, int minor) {
  for (const Tree& tree : kTrees)
    if (tree.major == major && tree.minor == minor) return tree.hardware;
  return "cuda";
}

Result<> check_arch(std::string_view arch, int major, int minor) {
  const std::string_view digits = arch.substr(std::min<std::size_t>(arch.size(), 3));
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const std::string_view suffix(end, digits.data() + digits.size() - end);
  if (!arch.starts_with("sm_") || error != std::errc() || (suffix != "" && suffix != "a" && suffix != "f"))
    return fail(ErrorCode::kUnsupported, "'" + std::string(arch) + "' is not a CUDA architecture");
  const bool same_major = number / 10 == major;
  const bool runs = suffix == "a" ? number == major * 10 + minor : same_major && number % 10 <= minor;
  if (runs) return {};
  const std::string_view hardware = hardware_of(major, minor);
  return fail(ErrorCode::kUnsupported,
              "the kernels are for " + std::string(arch) + ", the device has compute capability " +
                  std::to_string(major) + "." + std::to_string(minor) +
                  (hardware == "cuda" ? ", for which there is no kernel tree"
                                      : ": rebuild with METRALE_TARGET_HW=" + std::string(hardware)));
}

}  // namespace met::gpu::cuda
