#include "gpu/cpu/cpu_backend.h"

#include <cstring>
#include <string>

#include "gpu/find_kernel.h"
#include "kernels/isa.h"

namespace met::gpu::cpu {
namespace {

void* host(DevicePtr pointer) { return reinterpret_cast<void*>(pointer.value); }

}  // namespace

CpuBackend::CpuBackend(const kernels::Target& target, CpuIsa isa, const CpuOptions& options)
    : check_bounds_(options.check_bounds), heap_(options.redzones), pool_(options.pool, read_topology()) {
  info_ = {.name = read_topology().name,
           .hardware = "cpu",
           .arch = std::string(kernels::name(isa)),
           .multiprocessors = pool_.threads(),
           .shared_memory_max = pool_.scratch_bytes(),
           .unified_memory = true,
           .feeds_ids = false};
  for (const kernels::Module& module : target.modules)
    for (const kernels::CpuFunction& function : module.functions)
      for (int level = static_cast<int>(isa); level >= 0; --level)
        if (function.by_isa[level] != nullptr) {
          functions_.push_back({module.name, function.name, function.by_isa[level]});
          break;
        }
}

CpuBackend::~CpuBackend() = default;

Result<> CpuBackend::check(DevicePtr pointer, std::size_t bytes) const {
  return check_bounds_ ? heap_.ledger().check_range(pointer.value, bytes) : Result<>{};
}

// ---- memory ----

Result<DevicePtr> CpuBackend::allocate(std::size_t bytes, std::string_view site) {
  return heap_.allocate(bytes, site, true);
}

Result<DevicePtr> CpuBackend::allocate_sparse(std::size_t bytes, std::string_view site) {
  return heap_.allocate(bytes, site, false);
}

void CpuBackend::free(DevicePtr pointer) { heap_.free(pointer); }

Result<PinnedHost> CpuBackend::allocate_pinned(std::size_t bytes) {
  MET_ASSIGN(const DevicePtr pointer, heap_.allocate(bytes, "pinned", true));
  return PinnedHost{.host = host(pointer), .device = pointer, .bytes = bytes};
}

void CpuBackend::free_pinned(PinnedHost& memory) {
  heap_.free(memory.device);
  memory = {};
}

// ---- copies ----

/// Runs on the calling thread alone, which may be a loader beside the executor, or is recorded.
template <class Args>
Result<> CpuBackend::transfer(Stream stream, MetCpuKernel run, const Args& args) {
  if (Recording* list = recording(stream)) {
    static_cast<TaskList*>(list)->add(run, &args, sizeof args);
    return {};
  }
  const MetCpuContext alone{.thread = 0,
                            .threads = 1,
                            .scratch = nullptr,
                            .scratch_bytes = 0,
                            .barrier = nullptr,
                            .next = nullptr,
                            .pool = nullptr};
  run(&args, &alone);
  return {};
}

Result<> CpuBackend::copy_to_device(DevicePtr to, const void* from, std::size_t bytes) {
  MET_TRY(check(to, bytes));
  if (bytes > 0) std::memcpy(host(to), from, bytes);
  return {};
}

Result<> CpuBackend::copy_to_host(void* to, DevicePtr from, std::size_t bytes) {
  MET_TRY(check(from, bytes));
  if (bytes > 0) std::memcpy(to, host(from), bytes);
  return {};
}

Result<> CpuBackend::copy_to_device_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) {
  MET_TRY(check(to, bytes));
  return transfer(stream, copy_task, CopyArgs{host(to), from, bytes});
}

Result<> CpuBackend::copy_to_host_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) {
  MET_TRY(check(from, bytes));
  return transfer(stream, copy_task, CopyArgs{to, host(from), bytes});
}

Result<> CpuBackend::copy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) {
  MET_TRY(check(to, bytes));
  MET_TRY(check(from, bytes));
  return transfer(stream, copy_task, CopyArgs{host(to), host(from), bytes});
}

Result<> CpuBackend::copy_rows_async(DevicePtr to, std::size_t to_pitch, DevicePtr from,
                                     std::size_t from_pitch, std::size_t width_bytes, std::size_t rows,
                                     Stream stream) {
  if (rows == 0) return {};
  MET_TRY(check(to, (rows - 1) * to_pitch + width_bytes));
  MET_TRY(check(from, (rows - 1) * from_pitch + width_bytes));
  return transfer(stream, copy_rows_task,
                  CopyRowsArgs{static_cast<std::byte*>(host(to)), to_pitch,
                               static_cast<std::byte*>(host(from)), from_pitch, width_bytes, rows});
}

Result<> CpuBackend::fill_async(DevicePtr to, std::uint8_t byte, std::size_t bytes, Stream stream) {
  MET_TRY(check(to, bytes));
  return transfer(stream, fill_task, FillArgs{host(to), bytes, byte});
}

// ---- kernels ----

Result<KernelHandle> CpuBackend::kernel(std::string_view module, std::string_view function) {
  auto found = find_kernel(functions_, module, function, info_.arch);
  looked_up(module, function, found.has_value());
  return found;
}

Result<> CpuBackend::enqueue(const KernelLaunch& launch, Stream stream) {
  MET_CHECK(launch.handle().index < functions_.size(), "launch of an unresolved kernel");
  const MetCpuKernel run = functions_[launch.handle().index].run;
  if (Recording* list = recording(stream)) {
    static_cast<TaskList*>(list)->add(run, launch.data(), launch.bytes());
    return {};
  }
  const Task task{run, launch.data()};
  pool_.run({&task, 1});
  return {};
}

// ---- graphs ----

std::unique_ptr<Recording> CpuBackend::new_recording() { return std::make_unique<TaskList>(); }

void CpuBackend::finish(Recording& recording) { static_cast<TaskList&>(recording).freeze(); }

Result<> CpuBackend::replay(Recording& recording, Stream) {
  pool_.run(static_cast<TaskList&>(recording).tasks());
  return {};
}

Result<> CpuBackend::bind_thread() {
  pool_.pin_caller();
  return {};
}

}  // namespace met::gpu::cpu
