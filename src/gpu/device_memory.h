// Device memory with an owner.
#pragma once

#include <utility>

#include "gpu/backend.h"

namespace met::gpu {

/// Move-only owner of one allocation; empty by default. Its backend outlives it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  static Result<DeviceMemory> allocate(GpuBackend& device, std::size_t bytes, std::string_view site) {
    return own(device, device.allocate(bytes, site), bytes);
  }
  static Result<DeviceMemory> allocate_sparse(GpuBackend& device, std::size_t bytes, std::string_view site) {
    return own(device, device.allocate_sparse(bytes, site), bytes);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (device_ != nullptr) device_->free(data_);
  }

  DevicePtr data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return device_ != nullptr; }

 private:
  static Result<DeviceMemory> own(GpuBackend& device, Result<DevicePtr> pointer, std::size_t bytes) {
    DeviceMemory memory;
    MET_ASSIGN(memory.data_, std::move(pointer));
    memory.device_ = &device;
    memory.bytes_ = bytes;
    return memory;
  }
  void swap(DeviceMemory& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  GpuBackend* device_ = nullptr;
  DevicePtr data_;
  std::size_t bytes_ = 0;
};

}  // namespace met::gpu
