// The CPU as a device: kernels are functions, streams are drained by the thread that enqueues, graphs are
// lists.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "gpu/backend.h"
#include "gpu/cpu/heap.h"
#include "gpu/cpu/pool.h"
#include "gpu/cpu/stream.h"
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

class CpuBackend final : public GpuBackend {
 public:
  /// `target` must outlive the backend; `isa` is the best instruction set that the CPU runs.
  CpuBackend(const kernels::Target& target, kernels::CpuIsa isa, const CpuOptions& options = {});
  ~CpuBackend() override;

  const DeviceInfo& info() const override { return info_; }
  MemoryInfo memory() const override { return read_memory(); }
  ThreadPool& pool() { return pool_; }

  Result<DevicePtr> allocate(std::size_t bytes, std::string_view site) override;
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

  Stream default_stream() override;
  Result<Stream> create_stream() override;
  void destroy(Stream stream) override;
  Result<> synchronize(Stream stream) override;
  Result<Event> create_event(bool timing) override;
  void destroy(Event event) override;
  Result<> record(Event event, Stream stream) override;
  Result<> wait(Stream stream, Event event) override;
  Result<bool> done(Event event) override;
  Result<> synchronize(Event event) override;
  Result<double> elapsed_ms(Event begin, Event end) override;

  Result<KernelHandle> kernel(std::string_view module, std::string_view function) override;
  Result<> launch(const KernelLaunch& launch, Stream stream) override;

  Result<> begin_capture(Stream stream) override;
  Result<Graph> end_capture(Stream stream) override;
  void abort_capture(Stream stream) override;
  bool capturing(Stream stream) const override;
  Result<> launch(Graph graph, Stream stream) override;
  void destroy(Graph graph) override;

  Result<> bind_thread() override;

 private:
  struct Function {
    std::string_view module;
    std::string_view name;
    MetCpuKernel run;
  };

  Result<> check(DevicePtr pointer, std::size_t bytes) const;

  DeviceInfo info_;
  bool check_bounds_;
  Heap heap_;
  ThreadPool pool_;
  std::vector<Function> functions_;  // fixed by the constructor: a handle is an index
  StreamState default_stream_;
  std::mutex mutex_;  // of the three lists
  std::vector<std::unique_ptr<StreamState>> streams_;
  std::vector<std::unique_ptr<EventState>> events_;
  std::vector<std::unique_ptr<TaskList>> graphs_;
};

}  // namespace met::gpu::cpu
