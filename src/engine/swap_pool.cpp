#include "engine/swap_pool.h"

#include <chrono>
#include <string>
#include <utility>

namespace met::engine {

Result<SwapPool> SwapPool::make(gpu::GpuBackend& device, std::vector<Part> parts, std::int64_t slots) {
  SwapPool pool;
  std::size_t block = 0;
  for (const Part& part : parts) block += part.block_bytes;
  pool.slot_bytes_ = slot_bytes(block);
  const std::size_t bytes = pool.slot_bytes_ * static_cast<std::size_t>(slots);
  auto pinned = device.allocate_pinned(bytes + kAlignment);
  if (!pinned)
    return fail(
        ErrorCode::kResourceExhausted,
        "the swap pool of " + std::to_string(bytes) + " bytes cannot be had: " + pinned.error().message,
        "--swap-space-gb");
  pool.device_ = &device;
  pool.pinned_ = *pinned;
  const auto address = reinterpret_cast<std::uintptr_t>(pool.pinned_.host);
  pool.memory_ = {
      static_cast<std::byte*>(pool.pinned_.host) + (kAlignment - address % kAlignment) % kAlignment, bytes};
  pool.parts_ = std::move(parts);
  return pool;
}

SwapPool& SwapPool::operator=(SwapPool&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pinned_, other.pinned_);
  std::swap(memory_, other.memory_);
  std::swap(parts_, other.parts_);
  std::swap(slot_bytes_, other.slot_bytes_);
  return *this;
}

SwapPool::~SwapPool() {
  if (device_ != nullptr) device_->free_pinned(pinned_);
}

Result<> SwapPool::copy_out(std::span<const scheduler::SwapCopy> copies, gpu::Stream stream) {
  for (const scheduler::SwapCopy& copy : copies) {
    std::byte* to = slot(copy.slot);
    for (const Part& part : parts_) {
      const gpu::DevicePtr from = part.base + part.block_bytes * static_cast<std::size_t>(copy.block);
      MET_TRY(device_->copy_to_host_async(to, from, part.block_bytes, stream));
      to += part.block_bytes;
    }
  }
  return {};
}

Result<> SwapPool::copy_in(std::span<const scheduler::SwapCopy> copies, gpu::Stream stream) {
  for (const scheduler::SwapCopy& copy : copies) {
    const std::byte* from = slot(copy.slot);
    for (const Part& part : parts_) {
      const gpu::DevicePtr to = part.base + part.block_bytes * static_cast<std::size_t>(copy.block);
      MET_TRY(device_->copy_to_device_async(to, from, part.block_bytes, stream));
      from += part.block_bytes;
    }
  }
  return {};
}

Result<std::int64_t> SwapPool::measure(gpu::Stream stream) {
  using std::chrono::steady_clock;
  constexpr int kRounds = 8;
  const scheduler::SwapCopy copy{.block = 0, .slot = 0};
  const auto round = [&]() -> Result<> {
    MET_TRY(copy_out({&copy, 1}, stream));
    return copy_in({&copy, 1}, stream);
  };
  MET_TRY(round());  // touches the memory
  MET_TRY(device_->synchronize(stream));
  const steady_clock::time_point began = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) MET_TRY(round());
  MET_TRY(device_->synchronize(stream));
  return std::chrono::nanoseconds(steady_clock::now() - began).count() / kRounds;
}

}  // namespace met::engine
