// NVIDIA devices through the driver interface. Streams, events and graphs are the driver's own.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/backend.h"
#include "gpu/cuda/driver.h"
#include "gpu/ledger.h"
#include "kernels/table.h"

namespace met::gpu::cuda {

struct CudaOptions {
  int ordinal = 0;
  bool redzones = false;
  bool check_bounds = false;
};

class CudaBackend final : public GpuBackend {
 public:
  /// Retains the device's primary context, makes it current and loads every module of `target`, whose kernels
  /// must be machine code that runs on the device.
  ///
  /// Errors   kUnavailable without a driver or device; kUnsupported for another architecture, naming what to
  ///          build with; kInvalidArgument for an ordinal that does not exist.
  static Result<std::unique_ptr<CudaBackend>> open(const kernels::Target& target,
                                                   const CudaOptions& options = {});
  ~CudaBackend() override;

  const DeviceInfo& info() const override { return info_; }
  MemoryInfo memory() const override;

  Result<DevicePtr> allocate(std::size_t bytes, std::string_view site) override;
  void free(DevicePtr pointer) override;
  Result<PinnedHost> allocate_pinned(std::size_t bytes) override;
  void free_pinned(PinnedHost& memory) override;
  std::vector<SiteUse> allocations() const override { return ledger_.uses(); }
  Result<> check_redzones() override;

  Result<> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) override;
  Result<> copy_to_host(void* to, DevicePtr from, std::size_t bytes) override;
  Result<> copy_to_device_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) override;
  Result<> copy_to_host_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) override;
  Result<> copy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) override;
  Result<> copy_rows_async(DevicePtr to, std::size_t to_pitch, DevicePtr from, std::size_t from_pitch,
                           std::size_t width_bytes, std::size_t rows, Stream stream) override;
  Result<> fill_async(DevicePtr to, std::uint8_t byte, std::size_t bytes, Stream stream) override;

  Stream default_stream() override { return default_stream_; }
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
  using GpuBackend::launch;
  Result<TensorMap> tensor_map(const TensorMapSpec& spec) override;

  Result<> begin_capture(Stream stream) override;
  Result<Graph> end_capture(Stream stream) override;
  void abort_capture(Stream stream) override;
  bool capturing(Stream stream) const override;
  Result<> launch(Graph graph, Stream stream) override;
  void destroy(Graph graph) override;

  Result<> bind_thread() override;

 private:
  Result<> enqueue(const KernelLaunch& launch, Stream stream) override;
  struct Function {
    std::string_view module;
    std::string_view name;
    CuFunction function;
  };

  CudaBackend(const Driver& driver, const CudaOptions& options) : driver_(driver), options_(options) {}
  Result<> open_device(int ordinal, const Capability& capability);
  Result<> load(const kernels::Module& module, const kernels::Target& target);
  int attribute(CuAttribute attribute) const;
  Result<> check(DevicePtr pointer, std::size_t bytes) const;

  static constexpr std::size_t kGuardBytes = 256;

  const Driver& driver_;
  CudaOptions options_;
  DeviceInfo info_;
  bool integrated_ = false;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
  Stream default_stream_;
  Ledger ledger_;
  std::vector<CuModule> modules_;
  std::vector<Function> functions_;  // fixed once open: a handle is an index
};

}  // namespace met::gpu::cuda
