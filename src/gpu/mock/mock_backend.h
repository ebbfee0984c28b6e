// A device that is not there: addresses are simulated, bytes are real, every copy is bounds-checked, launches
// are recorded and not run.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/drained.h"
#include "gpu/ledger.h"

namespace met::gpu::mock {

struct MockOptions {
  std::size_t total = std::size_t{128} << 30;
  std::size_t free = std::size_t{120} << 30;  ///< before the first allocation
  int multiprocessors = 48;
  std::size_t shared_memory_max = std::size_t{48} << 10;
};

struct LaunchRecord {
  struct Argument {
    bool is_buffer = false;
    std::vector<std::byte> bytes;
  };
  std::string module;
  std::string function;
  Dim3 grid, block;
  std::uint32_t shared_bytes = 0;
  std::vector<Argument> arguments;
  Stream stream;
  bool captured = false;  ///< recorded into a graph; replays are counted, not listed
};

struct Lookup {
  std::string module;
  std::string function;
  bool found = false;
};

/// What was asked of one stream. Copies without a stream are `blocking_*` of the default stream.
struct StreamCounts {
  std::size_t blocking_to_device = 0, blocking_to_host = 0;
  std::size_t to_device = 0, to_host = 0, device = 0, rows = 0, fills = 0;
  std::size_t launches = 0, graph_launches = 0, synchronizes = 0, records = 0, waits = 0;
};

/// For one thread.
class MockBackend final : public DrainedBackend {
 public:
  explicit MockBackend(const MockOptions& options = {});
  ~MockBackend() override;

  // What a test asks.
  const std::vector<LaunchRecord>& launches() const { return launches_; }
  const std::vector<Lookup>& lookups() const { return lookups_; }
  const StreamCounts& counts(Stream stream) { return counts_[stream.id]; }
  void deny_kernel(std::string module, std::string function) {
    denied_.emplace(std::move(module), std::move(function));
  }
  void deny_module(std::string module) { denied_modules_.insert(std::move(module)); }

  const DeviceInfo& info() const override { return info_; }
  MemoryInfo memory() const override;

  Result<DevicePtr> allocate(std::size_t bytes, std::string_view site) override;
  void free(DevicePtr pointer) override;
  Result<PinnedHost> allocate_pinned(std::size_t bytes) override;
  void free_pinned(PinnedHost& memory) override;
  std::vector<SiteUse> allocations() const override { return ledger_.uses(); }
  Result<> check_redzones() override { return {}; }  // a write outside is refused before it happens

  Result<> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) override;
  Result<> copy_to_host(void* to, DevicePtr from, std::size_t bytes) override;
  Result<> copy_to_device_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) override;
  Result<> copy_to_host_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) override;
  Result<> copy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) override;
  Result<> copy_rows_async(DevicePtr to, std::size_t to_pitch, DevicePtr from, std::size_t from_pitch,
                           std::size_t width_bytes, std::size_t rows, Stream stream) override;
  Result<> fill_async(DevicePtr to, std::uint8_t byte, std::size_t bytes, Stream stream) override;

  using DrainedBackend::synchronize;
  Result<> synchronize(Stream stream) override;
  Result<> record(Event event, Stream stream) override;
  Result<> wait(Stream stream, Event event) override;

  Result<KernelHandle> kernel(std::string_view module, std::string_view function) override;
  using DrainedBackend::launch;
  using GpuBackend::launch;
  /// The tensor must lie inside one live allocation; its address is the map's first 8 bytes.
  Result<TensorMap> tensor_map(const TensorMapSpec& spec) override;
  Result<> bind_thread() override { return {}; }

 private:
  Result<> enqueue(const KernelLaunch& launch, Stream stream) override;
  std::unique_ptr<Recording> new_recording() override;
  void finish(Recording&) override {}
  Result<> replay(Recording& recording, Stream stream) override;

  /// The host bytes behind a simulated range, which must lie inside one live allocation.
  Result<std::byte*> resolve(DevicePtr pointer, std::size_t bytes) const;
  /// Runs `work` now, or when the graph is replayed.
  template <class Work>
  Result<> enqueue(Stream stream, Work work);

  MockOptions options_;
  DeviceInfo info_;
  Ledger ledger_;
  std::map<std::uint64_t, std::vector<std::byte>> bytes_;
  std::uint64_t next_address_;
  std::vector<std::pair<std::string, std::string>> kernels_;
  std::set<std::pair<std::string, std::string>> denied_;
  std::set<std::string> denied_modules_;
  std::vector<LaunchRecord> launches_;
  std::vector<Lookup> lookups_;
  std::map<std::uint64_t, StreamCounts> counts_;
};

}  // namespace met::gpu::mock
