#include "gpu/cuda/driver.h"

#include <dlfcn.h>

namespace met::gpu::cuda {
namespace {

constexpr int kOldestDriver = 12000;  // the first with cuTensorMapEncodeTiled

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
    case 401:  // CUDA_ERROR_ILLEGAL_STATE
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

Result<Capability> probe(int ordinal) {
  MET_ASSIGN(const Driver* driver, open_driver());
  Capability found;
  MET_TRY(driver->check(driver->device_count(&found.devices), "counting devices"));
  if (found.devices == 0) return fail(ErrorCode::kUnavailable, "no CUDA driver: it finds no device");
  if (ordinal < 0 || ordinal >= found.devices)
    return invalid("device", "CUDA device " + std::to_string(ordinal) + " does not exist, there are " +
                                 std::to_string(found.devices));
  CuDevice device = 0;
  MET_TRY(driver->check(driver->device_get(&device, ordinal), "opening the device"));
  MET_TRY(driver->check(driver->device_attribute(&found.major, CuAttribute::kComputeMajor, device),
                        "reading the compute capability"));
  MET_TRY(driver->check(driver->device_attribute(&found.minor, CuAttribute::kComputeMinor, device),
                        "reading the compute capability"));
  return found;
}

}  // namespace met::gpu::cuda
