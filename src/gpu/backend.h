// The only way to a device. Implementations: gpu/cuda, gpu/cpu, gpu/mock. No call allocates or locks in a
// step except the calls whose names say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "gpu/launch.h"
#include "gpu/tensor_map.h"

namespace met::gpu {

struct Stream {
  std::uint64_t id = 0;
};
struct Event {
  std::uint64_t id = 0;
};
struct Graph {
  std::uint64_t id = 0;
};

struct DeviceInfo {
  std::string name;         ///< as the driver or cpuid says
  std::string hardware;     ///< kernel tree: "cpu", "hopper", "gb10"
  std::string arch;         ///< "sm_90", or the CPU's best instruction set: "avx2", "avx512", "amx"
  int multiprocessors = 0;  ///< SMs, or threads of the pool
  std::size_t shared_memory_max = 0;
  bool unified_memory = false;  ///< device addresses are host addresses
  bool feeds_ids = false;       ///< sampled ids stay on the device (rule E6)
  std::size_t l2_bytes = 0;     ///< last-level cache of the device; 0: unknown
};

struct MemoryInfo {
  std::size_t total = 0;
  std::size_t free = 0;
};

/// Host memory that a device can read; move-only, freed with its backend alive.
struct PinnedHost {
  void* host = nullptr;
  DevicePtr device;
  std::size_t bytes = 0;
};

/// What one owner ("site") holds of a device's memory.
struct SiteUse {
  std::string site;
  std::size_t live_bytes = 0;
  std::size_t live_count = 0;
  std::size_t peak_bytes = 0;
  std::size_t total_count = 0;  ///< allocations ever made
};

class TimingSpans;

class GpuBackend {
 public:
  virtual ~GpuBackend() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual MemoryInfo memory() const = 0;

  // Memory. `site` names the owner in the allocation ledger ("kv pool", "weights"). 256-byte aligned (CPU:
  // 64).
  virtual Result<DevicePtr> allocate(std::size_t bytes, std::string_view site) = 0;
  /// As allocate(), for memory of which much may never be touched (a KV pool): the CPU takes small pages for
  /// it.
  virtual Result<DevicePtr> allocate_sparse(std::size_t bytes, std::string_view site) {
    return allocate(bytes, site);
  }
  virtual void free(DevicePtr pointer) = 0;
  virtual Result<PinnedHost> allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(PinnedHost& memory) = 0;

  /// The allocation ledger, by site name. Pinned memory is site "pinned".
  virtual std::vector<SiteUse> allocations() const = 0;
  /// Scans the guard bands, where the backend was opened with redzones; the error names the site.
  virtual Result<> check_redzones() = 0;

  // Copies: without a stream they block until done.
  virtual Result<> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) = 0;
  virtual Result<> copy_to_host(void* to, DevicePtr from, std::size_t bytes) = 0;
  virtual Result<> copy_to_device_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual Result<> copy_to_host_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) = 0;
  virtual Result<> copy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) = 0;
  virtual Result<> copy_rows_async(DevicePtr to, std::size_t to_pitch, DevicePtr from, std::size_t from_pitch,
                                   std::size_t width_bytes, std::size_t rows, Stream stream) = 0;
  virtual Result<> fill_async(DevicePtr to, std::uint8_t byte, std::size_t bytes, Stream stream) = 0;

  // Streams and events.
  virtual Stream default_stream() = 0;
  virtual Result<Stream> create_stream() = 0;
  virtual void destroy(Stream stream) = 0;
  virtual Result<> synchronize(Stream stream) = 0;
  virtual Result<Event> create_event(bool timing) = 0;
  virtual void destroy(Event event) = 0;
  virtual Result<> record(Event event, Stream stream) = 0;
  virtual Result<> wait(Stream stream, Event event) = 0;
  virtual Result<bool> done(Event event) = 0;
  virtual Result<> synchronize(Event event) = 0;
  virtual Result<double> elapsed_ms(Event begin, Event end) = 0;

  // Kernels: resolved at load, never in a step (seam 2).
  virtual Result<KernelHandle> kernel(std::string_view module, std::string_view function) = 0;
  /// Hears of every look-up from now on: the kernel audit listens while a model is built.
  using LookupListener = std::function<void(std::string_view module, std::string_view function, bool found)>;
  void listen_to_lookups(LookupListener listener) { listener_ = std::move(listener); }
  /// Enqueues a kernel, within a span where launches are timed.
  Result<> launch(const KernelLaunch& launch, Stream stream);
  /// Spans that every launch from now on opens, one a note; null: none. Only eager steps have times.
  void time_launches(TimingSpans* spans) { spans_ = spans; }
  /// Errors: kUnsupported on devices without bulk tensor copies.
  virtual Result<TensorMap> tensor_map(const TensorMapSpec&) {
    return fail(ErrorCode::kUnsupported, "bulk tensor copies are not supported by " + info().name);
  }

  // Graphs: what is enqueued on the stream between begin and end is recorded, not run.
  virtual Result<> begin_capture(Stream stream) = 0;
  virtual Result<Graph> end_capture(Stream stream) = 0;
  virtual void abort_capture(Stream stream) = 0;
  virtual bool capturing(Stream stream) const = 0;
  virtual Result<> launch(Graph graph, Stream stream) = 0;
  virtual void destroy(Graph graph) = 0;

  /// Makes the device current for the calling thread; the executor thread calls it once.
  virtual Result<> bind_thread() = 0;

 protected:
  virtual Result<> enqueue(const KernelLaunch& launch, Stream stream) = 0;
  /// Each implementation of kernel() reports what it found.
  void looked_up(std::string_view module, std::string_view function, bool found) const {
    if (listener_) listener_(module, function, found);
  }

 private:
  LookupListener listener_;
  TimingSpans* spans_ = nullptr;
};

}  // namespace met::gpu
