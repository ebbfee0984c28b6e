#include "gpu/mock/mock_backend.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace met::gpu::mock {
namespace {

constexpr std::uint64_t kBase = 0x10000000;
constexpr std::uint64_t kAlign = 256;

struct MockRecording final : Recording {
  std::vector<std::function<void()>> work;
};

}  // namespace

MockBackend::MockBackend(const MockOptions& options) : options_(options), next_address_(kBase) {
  info_ = {.name = "mock",
           .hardware = "mock",
           .arch = "mock",
           .multiprocessors = options.multiprocessors,
           .shared_memory_max = options.shared_memory_max,
           .unified_memory = false,
           .feeds_ids = true};
}

MockBackend::~MockBackend() { ledger_.log_leaks("mock"); }

MemoryInfo MockBackend::memory() const {
  return {options_.total, options_.free - std::min(options_.free, ledger_.live_bytes())};
}

// ---- memory ----

Result<DevicePtr> MockBackend::allocate(std::size_t bytes, std::string_view site) {
  if (bytes > memory().free)
    return fail(ErrorCode::kResourceExhausted,
                "no memory for " + std::to_string(bytes) + " bytes of '" + std::string(site) + "'");
  const std::size_t body = std::max<std::size_t>(bytes, 1);
  const std::uint64_t address = next_address_;
  next_address_ = (address + body + kAlign - 1) / kAlign * kAlign + kAlign;  // a gap between any two
  bytes_.emplace(address, std::vector<std::byte>(body, std::byte{0xA7}));
  ledger_.add(address, body, site);
  return DevicePtr{address};
}

void MockBackend::free(DevicePtr pointer) {
  if (!pointer) return;
  MET_CHECK(ledger_.remove(pointer.value).has_value(), "freed an address that no allocation begins at");
  bytes_.erase(pointer.value);
}

Result<PinnedHost> MockBackend::allocate_pinned(std::size_t bytes) {
  MET_ASSIGN(const DevicePtr pointer, allocate(bytes, "pinned"));
  return PinnedHost{.host = bytes_.at(pointer.value).data(), .device = pointer, .bytes = bytes};
}

void MockBackend::free_pinned(PinnedHost& memory) {
  free(memory.device);
  memory = {};
}

Result<std::byte*> MockBackend::resolve(DevicePtr pointer, std::size_t bytes) const {
  const auto entry = ledger_.find(pointer.value);
  if (!entry)
    return fail(ErrorCode::kInternal,
                "address " + std::to_string(pointer.value) + " is in no live allocation");
  const std::size_t offset = pointer.value - entry->address;
  if (bytes > entry->bytes - offset)
    return fail(ErrorCode::kInternal, std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                                          " leave '" + entry->site + "' (" + std::to_string(entry->bytes) +
                                          " bytes)");
  return const_cast<std::byte*>(bytes_.at(entry->address).data()) + offset;
}

Result<TensorMap> MockBackend::tensor_map(const TensorMapSpec& spec) {
  constexpr std::uint64_t kBytes[] = {1, 2, 2, 4};
  std::uint64_t end = spec.extents[0] * kBytes[static_cast<int>(spec.element)];
  for (std::size_t i = 1; i < static_cast<std::size_t>(spec.rank); ++i)
    end += (spec.extents[i] - 1) * spec.strides[i - 1];
  MET_TRY(resolve(spec.base, end));
  TensorMap map;
  std::memcpy(map.bytes.data(), &spec.base.value, sizeof spec.base.value);
  return map;
}

// ---- copies ----

template <class Work>
Result<> MockBackend::enqueue(Stream stream, Work work) {
  if (Recording* into = recording(stream))
    static_cast<MockRecording*>(into)->work.emplace_back(std::move(work));
  else
    work();
  return {};
}

Result<> MockBackend::copy_to_device(DevicePtr to, const void* from, std::size_t bytes) {
  ++counts_[default_stream().id].blocking_to_device;
  if (bytes == 0) return {};
  MET_ASSIGN(std::byte * target, resolve(to, bytes));
  std::memcpy(target, from, bytes);
  return {};
}

Result<> MockBackend::copy_to_host(void* to, DevicePtr from, std::size_t bytes) {
  ++counts_[default_stream().id].blocking_to_host;
  if (bytes == 0) return {};
  MET_ASSIGN(const std::byte* source, resolve(from, bytes));
  std::memcpy(to, source, bytes);
  return {};
}

Result<> MockBackend::copy_to_device_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) {
  ++counts_[stream.id].to_device;
  if (bytes == 0) return {};
  MET_ASSIGN(std::byte * target, resolve(to, bytes));
  return enqueue(stream, [=] { std::memcpy(target, from, bytes); });
}

Result<> MockBackend::copy_to_host_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) {
  ++counts_[stream.id].to_host;
  if (bytes == 0) return {};
  MET_ASSIGN(const std::byte* source, resolve(from, bytes));
  return enqueue(stream, [=] { std::memcpy(to, source, bytes); });
}

Result<> MockBackend::copy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) {
  ++counts_[stream.id].device;
  if (bytes == 0) return {};
  MET_ASSIGN(std::byte * target, resolve(to, bytes));
  MET_ASSIGN(const std::byte* source, resolve(from, bytes));
  return enqueue(stream, [=] { std::memcpy(target, source, bytes); });
}

Result<> MockBackend::copy_rows_async(DevicePtr to, std::size_t to_pitch, DevicePtr from,
                                      std::size_t from_pitch, std::size_t width_bytes, std::size_t rows,
                                      Stream stream) {
  ++counts_[stream.id].rows;
  if (rows == 0 || width_bytes == 0) return {};
  MET_ASSIGN(std::byte * target, resolve(to, (rows - 1) * to_pitch + width_bytes));
  MET_ASSIGN(const std::byte* source, resolve(from, (rows - 1) * from_pitch + width_bytes));
  return enqueue(stream, [=] {
    for (std::size_t row = 0; row < rows; ++row)
      std::memcpy(target + row * to_pitch, source + row * from_pitch, width_bytes);
  });
}

Result<> MockBackend::fill_async(DevicePtr to, std::uint8_t byte, std::size_t bytes, Stream stream) {
  ++counts_[stream.id].fills;
  if (bytes == 0) return {};
  MET_ASSIGN(std::byte * target, resolve(to, bytes));
  return enqueue(stream, [=] { std::memset(target, byte, bytes); });
}

// ---- streams and kernels ----

Result<> MockBackend::synchronize(Stream stream) {
  ++counts_[stream.id].synchronizes;
  return DrainedBackend::synchronize(stream);
}

Result<> MockBackend::record(Event event, Stream stream) {
  ++counts_[stream.id].records;
  return DrainedBackend::record(event, stream);
}

Result<> MockBackend::wait(Stream stream, Event event) {
  ++counts_[stream.id].waits;
  return DrainedBackend::wait(stream, event);
}

Result<KernelHandle> MockBackend::kernel(std::string_view module, std::string_view function) {
  std::pair wanted{std::string(module), std::string(function)};
  const bool found = !denied_.contains(wanted) && !denied_modules_.contains(wanted.first);
  looked_up(module, function, found);
  lookups_.push_back({wanted.first, wanted.second, found});
  if (!found)
    return fail(ErrorCode::kNotFound,
                "no kernel '" + wanted.first + "." + wanted.second + "' for mock in this target");
  const auto known = std::find(kernels_.begin(), kernels_.end(), wanted);
  const auto index = static_cast<std::uint32_t>(known - kernels_.begin());
  if (known == kernels_.end()) kernels_.push_back(std::move(wanted));
  return KernelHandle{index};
}

Result<> MockBackend::enqueue(const KernelLaunch& launch, Stream stream) {
  MET_CHECK(launch.handle().index < kernels_.size(), "launch of an unresolved kernel");
  ++counts_[stream.id].launches;
  LaunchRecord record;
  std::tie(record.module, record.function) = kernels_[launch.handle().index];
  record.grid = launch.grid();
  record.block = launch.block();
  record.shared_bytes = launch.shared_bytes();
  record.stream = stream;
  record.captured = recording(stream) != nullptr;
  for (std::size_t i = 0; i < launch.arguments(); ++i) {
    const std::size_t end = i + 1 < launch.arguments() ? launch.offset(i + 1) : launch.bytes();
    record.arguments.push_back(
        {launch.is_buffer(i), {launch.data() + launch.offset(i), launch.data() + end}});
  }
  launches_.push_back(std::move(record));
  return {};
}

std::unique_ptr<Recording> MockBackend::new_recording() { return std::make_unique<MockRecording>(); }

Result<> MockBackend::replay(Recording& recording, Stream stream) {
  ++counts_[stream.id].graph_launches;
  for (const auto& work : static_cast<MockRecording&>(recording).work) work();
  return {};
}

}  // namespace met::gpu::mock
