// The CPU as a device: kernels are functions, streams are drained by the thread that enqueues, graphs are
// lists.
#pragma once

#include <memory>
#include <vector>

#include "gpu/backend.h"
#include "gpu/cpu/heap.h"
#include "gpu/cpu/pool.h"
#include "gpu/cpu/task_list.h"
#include "kernels/table.h"

namespace met::gpu::cpu {

struct CpuOptions {
  PoolOptions pool;
  bool redzones = false;
#if defined(NDEBUG)
  bool check_bounds = false;
#else
  bool check_bounds = true;
#endif
};

class CpuBackend final : public DrainedBackend {
 public:
  /// `target` must outlive the backend; `isa` is the best instruction set that the CPU runs.
  CpuBackend(const kernels::Target& target, CpuIsa isa, const CpuOptions& options = {});
  ~CpuBackend() override;

  const DeviceInfo& info() const override { return info_; }
  MemoryInfo memory() const override { return read_memory(); }
  ThreadPool& pool() { return pool_; }

  Result<DevicePtr> allocate(std::size_t bytes, std::string_view site) override;
  Result<DevicePtr> allocate_sparse(std::size_t bytes, std::string_view site) override;
  void free(DevicePtr pointer) override;
  Result<PinnedHost> allocate_pinned(std::size_t bytes) override;
  void free_pinned(PinnedHost& memory) override;
  std::vector<SiteUse> allocations() const override { return heap_.ledger().uses(); }
  Result<> check_redzones() override { return heap_.check_redzones(); }

  Result<> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) override;
  Result<> copy_to_host(void* to, DevicePtr from, std::size_t bytes) override;
  Result<> copy_to_device_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) override;
  Result<> copy_to_host_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) override;
  Result<> copy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) override;
  Result<> copy_rows_async(DevicePtr to, std::size_t to_pitch, DevicePtr from, std::size_t from_pitch,
                           std::size_t width_bytes, std::size_t rows, Stream stream) override;
  Result<> fill_async(DevicePtr to, std::uint8_t byte, std::size_t bytes, Stream stream) override;

  Result<KernelHandle> kernel(std::string_view module, std::string_view function) override;
  using GpuBackend::launch;

  using DrainedBackend::launch;
  Result<> bind_thread() override;

 private:
  Result<> enqueue(const KernelLaunch& launch, Stream stream) override;
  struct Function {
    std::string_view module;
    std::string_view name;
    MetCpuKernel run;
  };

  std::unique_ptr<Recording> new_recording() override;
  void finish(Recording& recording) override;
  Result<> replay(Recording& recording, Stream stream) override;

  Result<> check(DevicePtr pointer, std::size_t bytes) const;
  template <class Args>
  Result<> transfer(Stream stream, MetCpuKernel run, const Args& args);

  DeviceInfo info_;
  bool check_bounds_;
  Heap heap_;
  ThreadPool pool_;
  std::vector<Function> functions_;  // fixed by the constructor: a handle is an index
};

}  // namespace met::gpu::cpu
