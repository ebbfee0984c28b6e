#include "gpu/cuda/cuda_backend.h"

#include <algorithm>
#include <array>

#include "gpu/cpu/topology.h"
#include "kernels/arch.h"

namespace met::gpu::cuda {
namespace {

constexpr unsigned char kPoison = 0xA7;

CuStream native(Stream stream) { return reinterpret_cast<CuStream>(stream.id); }

/// The context that is current on this thread, so that binding it again costs nothing.
thread_local CuContext bound = nullptr;

}  // namespace

// ---- opening ----

Result<std::unique_ptr<CudaBackend>> CudaBackend::open(const kernels::Target& target,
                                                       const CudaOptions& options) {
  MET_ASSIGN(const Capability capability, probe(options.ordinal));
  if (target.hardware != nullptr)
    MET_TRY(kernels::check_arch(*target.hardware, capability.major, capability.minor));
  MET_ASSIGN(const Driver* driver, open_driver());
  std::unique_ptr<CudaBackend> backend(new CudaBackend(*driver, options));
  MET_TRY(backend->open_device(options.ordinal, capability));
  for (const kernels::Module& module : target.modules) MET_TRY(backend->load(module, target));
  return backend;
}

int CudaBackend::attribute(CuAttribute attribute) const {
  int value = 0;
  return driver_.device_attribute(&value, attribute, device_) == kSuccess ? value : 0;
}

Result<> CudaBackend::open_device(int ordinal, const Capability& capability) {
  MET_TRY(driver_.check(driver_.device_get(&device_, ordinal), "opening the device"));
  MET_TRY(driver_.check(driver_.context_retain(&context_, device_), "retaining the primary context"));
  MET_TRY(bind_thread());
  char name[256] = {};
  MET_TRY(driver_.check(driver_.device_name(name, sizeof name - 1, device_), "naming the device"));
  const std::string_view hardware = kernels::hardware_for_capability(capability.major, capability.minor);
  integrated_ = attribute(CuAttribute::kIntegrated) != 0;
  info_ = {.name = name,
           .hardware = std::string(hardware.empty() ? "cuda" : hardware),
           .arch = "sm_" + std::to_string(capability.major) + std::to_string(capability.minor),
           .multiprocessors = attribute(CuAttribute::kMultiprocessors),
           .shared_memory_max = static_cast<std::size_t>(attribute(CuAttribute::kSharedMemoryOptIn)),
           .unified_memory = false,
           .feeds_ids = true,
           .l2_bytes = static_cast<std::size_t>(attribute(CuAttribute::kL2Bytes))};
  MET_ASSIGN(default_stream_, create_stream());
  return {};
}

Result<> CudaBackend::load(const kernels::Module& module, const kernels::Target& target) {
  CuModule loaded = nullptr;
  const CuResult result = driver_.module_load(&loaded, module.image.data());
  if (result != kSuccess) {
    Error error = driver_.error(result, "loading module '" + std::string(module.name) + "'");
    if (error.code == ErrorCode::kUnsupported && target.hardware != nullptr)
      error.message += " (built for " + std::string(target.hardware->arch) + ", the device is " + info_.arch +
                       ": rebuild with MET_TARGET_HW=" + info_.hardware + ")";
    return std::unexpected(std::move(error));
  }
  modules_.push_back(loaded);
  for (const std::string_view entry : module.entries) {
    CuFunction function = nullptr;
    const std::string name(entry);
    const std::string what = "loading kernel '" + std::string(module.name) + "." + name + "'";
    MET_TRY(driver_.check(driver_.module_function(&function, loaded, name.c_str()), what));
    // All shared memory may be asked for. Setting it also loads the code now, not at the first launch.
    int fixed = 0;
    MET_TRY(driver_.check(driver_.function_attribute(&fixed, kFunctionSharedBytes, function), what));
    const int dynamic = static_cast<int>(info_.shared_memory_max) - fixed;
    MET_TRY(driver_.check(driver_.function_set(function, kFunctionMaxDynamicShared, dynamic), what));
    functions_.push_back({module.name, entry, function});
  }
  return {};
}

CudaBackend::~CudaBackend() {
  if (context_ == nullptr) return;
  (void)bind_thread();
  ledger_.log_leaks("cuda");
  for (const Ledger::Entry& entry : ledger_.live())
    if (entry.site == "pinned")
      driver_.host_free(reinterpret_cast<void*>(entry.address));
    else
      driver_.memory_free(entry.address - (options_.redzones ? kGuardBytes : 0));
  if (default_stream_.id != 0) driver_.stream_destroy(native(default_stream_));
  for (const CuModule module : modules_) driver_.module_unload(module);
  driver_.context_set(nullptr);
  bound = nullptr;
  driver_.context_release(device_);
}

Result<> CudaBackend::bind_thread() {
  if (bound == context_) [[likely]]
    return {};
  MET_TRY(driver_.check(driver_.context_set(context_), "binding the context"));
  bound = context_;
  return {};
}

MemoryInfo CudaBackend::memory() const {
  MemoryInfo memory;
  if (driver_.memory_info(&memory.free, &memory.total) != kSuccess) return {};
  if (integrated_) memory.free = std::min(memory.total, std::max(memory.free, cpu::read_memory().free));
  return memory;
}

// ---- memory ----

Result<DevicePtr> CudaBackend::allocate(std::size_t bytes, std::string_view site) {
  MET_TRY(bind_thread());
  const std::size_t guard = options_.redzones ? kGuardBytes : 0;
  const std::size_t body = std::max<std::size_t>(bytes, 1);
  CuAddress raw = 0;
  const CuResult result = driver_.memory_alloc(&raw, body + 2 * guard);
  if (result != kSuccess) {
    const std::string what = "allocating " + std::to_string(bytes) + " bytes for '" + std::string(site) + "'";
    Error error = driver_.error(result, what);
    // The driver calls absurd sizes invalid; for the caller they are simply too large.
    if (error.code == ErrorCode::kInternal) error.code = ErrorCode::kResourceExhausted;
    return std::unexpected(std::move(error));
  }
  const CuAddress address = raw + guard;
  if (guard > 0) {
    MET_TRY(driver_.check(driver_.fill(raw, kPoison, guard), "poisoning a guard band"));
    MET_TRY(driver_.check(driver_.fill(address + body, kPoison, guard), "poisoning a guard band"));
  }
  ledger_.add(address, body, site);
  return DevicePtr{address};
}

void CudaBackend::free(DevicePtr pointer) {
  if (!pointer) return;
  MET_CHECK(ledger_.remove(pointer.value).has_value(), "freed an address that no allocation begins at");
  (void)bind_thread();
  driver_.memory_free(pointer.value - (options_.redzones ? kGuardBytes : 0));
}

Result<PinnedHost> CudaBackend::allocate_pinned(std::size_t bytes) {
  MET_TRY(bind_thread());
  void* host = nullptr;
  const std::string what = "allocating " + std::to_string(bytes) + " bytes of pinned memory";
  const std::size_t body = std::max<std::size_t>(bytes, 1);
  MET_TRY(driver_.check(driver_.host_alloc(&host, body, kHostMapped), what));
  CuAddress device = 0;
  if (const CuResult result = driver_.host_address(&device, host, 0); result != kSuccess) {
    driver_.host_free(host);
    return std::unexpected(driver_.error(result, what));
  }
  ledger_.add(reinterpret_cast<std::uint64_t>(host), body, "pinned");
  return PinnedHost{.host = host, .device = {device}, .bytes = bytes};
}

void CudaBackend::free_pinned(PinnedHost& memory) {
  if (memory.host == nullptr) return;
  MET_CHECK(ledger_.remove(reinterpret_cast<std::uint64_t>(memory.host)).has_value(),
            "freed pinned memory that is not ours");
  (void)bind_thread();
  driver_.host_free(memory.host);
  memory = {};
}

Result<> CudaBackend::check_redzones() {
  if (!options_.redzones) return {};
  MET_TRY(bind_thread());
  std::array<unsigned char, kGuardBytes> band;
  for (const Ledger::Entry& entry : ledger_.live()) {
    if (entry.site == "pinned") continue;
    for (const CuAddress at : {entry.address - kGuardBytes, entry.address + entry.bytes}) {
      MET_TRY(driver_.check(driver_.copy_dtoh(band.data(), at, band.size()), "reading a guard band"));
      if (!std::all_of(band.begin(), band.end(), [](unsigned char b) { return b == kPoison; }))
        return fail(ErrorCode::kInternal, "the " + std::string(at < entry.address ? "begin" : "end") +
                                              " of '" + entry.site + "' (" + std::to_string(entry.bytes) +
                                              " bytes) was overrun");
    }
  }
  return {};
}

Result<> CudaBackend::check(DevicePtr pointer, std::size_t bytes) const {
  return options_.check_bounds ? ledger_.check_range(pointer.value, bytes) : Result<>{};
}

// ---- copies ----

Result<> CudaBackend::copy_to_device(DevicePtr to, const void* from, std::size_t bytes) {
  if (bytes == 0) return {};
  MET_TRY(bind_thread());
  MET_TRY(check(to, bytes));
  MET_TRY(driver_.check(driver_.copy_htod(to.value, from, bytes), "copying to the device"));
  // The driver may return while pageable memory is still on its way from its own buffer; streams here do not wait for that.
  return driver_.check(driver_.stream_synchronize(nullptr), "copying to the device");
}

Result<> CudaBackend::copy_to_host(void* to, DevicePtr from, std::size_t bytes) {
  if (bytes == 0) return {};
  MET_TRY(bind_thread());
  MET_TRY(check(from, bytes));
  return driver_.check(driver_.copy_dtoh(to, from.value, bytes), "copying to the host");
}

Result<> CudaBackend::copy_to_device_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  MET_TRY(bind_thread());
  MET_TRY(check(to, bytes));
  return driver_.check(driver_.copy_htod_async(to.value, from, bytes, native(stream)),
                       "copying to the device");
}

Result<> CudaBackend::copy_to_host_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  MET_TRY(bind_thread());
  MET_TRY(check(from, bytes));
  return driver_.check(driver_.copy_dtoh_async(to, from.value, bytes, native(stream)), "copying to the host");
}

Result<> CudaBackend::copy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  MET_TRY(bind_thread());
  MET_TRY(check(to, bytes));
  MET_TRY(check(from, bytes));
  return driver_.check(driver_.copy_dtod_async(to.value, from.value, bytes, native(stream)),
                       "copying on the device");
}

Result<> CudaBackend::copy_rows_async(DevicePtr to, std::size_t to_pitch, DevicePtr from,
                                      std::size_t from_pitch, std::size_t width_bytes, std::size_t rows,
                                      Stream stream) {
  if (rows == 0 || width_bytes == 0) return {};
  MET_TRY(bind_thread());
  MET_TRY(check(to, (rows - 1) * to_pitch + width_bytes));
  MET_TRY(check(from, (rows - 1) * from_pitch + width_bytes));
  CuCopy2D copy{};
  copy.from_type = copy.to_type = kMemoryDevice;
  copy.from_device = from.value;
  copy.from_pitch = from_pitch;
  copy.to_device = to.value;
  copy.to_pitch = to_pitch;
  copy.width_bytes = width_bytes;
  copy.height = rows;
  return driver_.check(driver_.copy_2d_async(&copy, native(stream)), "copying rows on the device");
}

Result<> CudaBackend::fill_async(DevicePtr to, std::uint8_t byte, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  MET_TRY(bind_thread());
  MET_TRY(check(to, bytes));
  return driver_.check(driver_.fill_async(to.value, byte, bytes, native(stream)), "filling device memory");
}

}  // namespace met::gpu::cuda
