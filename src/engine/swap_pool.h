// The host's places for swapped blocks, and the copies to and from them. One way for every backend (M6, S17).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/backend.h"
#include "scheduler/device.h"

namespace met::engine {

/// Pinned memory of fixed slots, one block of all layers each. Copies are enqueued in front of a step's rows.
class SwapPool {
 public:
  /// K or V of one layer in the paged cache.
  struct Part {
    gpu::DevicePtr base;
    std::size_t block_bytes = 0;
  };
  /// Slots begin at multiples of it, so that a disk can read and write them past the page cache.
  static constexpr std::size_t kAlignment = 4096;
  static std::size_t slot_bytes(std::size_t block_bytes) {
    return (block_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Takes memory for `slots` blocks (M6). The backend outlives the pool. Errors: kResourceExhausted.
  static Result<SwapPool> make(gpu::GpuBackend& device, std::vector<Part> parts, std::int64_t slots);
  SwapPool(SwapPool&& other) noexcept { *this = std::move(other); }
  SwapPool& operator=(SwapPool&& other) noexcept;
  ~SwapPool();

  Result<> copy_out(std::span<const scheduler::SwapCopy> copies, gpu::Stream stream);
  Result<> copy_in(std::span<const scheduler::SwapCopy> copies, gpu::Stream stream);
  /// Nanoseconds of a block out and back, measured with the null block, which nobody reads. Nothing else runs.
  Result<std::int64_t> measure(gpu::Stream stream);

  std::span<std::byte> memory() const { return memory_; }
  std::size_t slot_bytes() const { return slot_bytes_; }

 private:
  SwapPool() = default;
  std::byte* slot(cache::SwapSlot index) const {
    return memory_.data() + static_cast<std::size_t>(index) * slot_bytes_;
  }

  gpu::GpuBackend* device_ = nullptr;
  gpu::PinnedHost pinned_;
  std::span<std::byte> memory_;
  std::vector<Part> parts_;
  std::size_t slot_bytes_ = 0;
};

}  // namespace met::engine
