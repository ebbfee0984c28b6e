// A kernel launch as data: handle, arguments, grid. Built on the stack, no allocation.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "core/error.h"

namespace met::gpu {

/// An address in device memory (seam 1). Arithmetic is in bytes.
struct DevicePtr {
  std::uint64_t value = 0;
  explicit operator bool() const { return value != 0; }
  friend DevicePtr operator+(DevicePtr p, std::size_t bytes) { return {p.value + bytes}; }
  friend bool operator==(DevicePtr, DevicePtr) = default;
};

/// A resolved kernel: an index into its backend's table of functions.
struct KernelHandle {
  std::uint32_t index = UINT32_MAX;
};

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// What a launch is, for tables of where time goes: the operation, the matrix W[n, k] that it multiplies by, and the bytes
/// that it must read at least; 0 where that is not known from the launch alone.
struct LaunchNote {
  const char* operation = "other";
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t bytes = 0;
};

/// Arguments are recorded in order, each as a buffer or as scalar bytes (seam 3). Their values lie in one
/// block laid out as a C struct of the same members; backends that want one pointer an argument use
/// `offsets`.
class KernelLaunch {
 public:
  static constexpr std::size_t kArgumentsMax = 32;
  static constexpr std::size_t kBytesMax = 640;

  KernelLaunch(KernelHandle handle, Dim3 grid = {}, Dim3 block = {}, std::uint32_t shared_bytes = 0)
      : handle_(handle), grid_(grid), block_(block), shared_bytes_(shared_bytes) {}

  KernelLaunch& buffer(DevicePtr pointer) {
    return push(&pointer.value, sizeof pointer.value, alignof(std::uint64_t), true);
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  KernelLaunch& scalar(const T& value) {
    return push(&value, sizeof value, alignof(T), false);
  }

  /// The kernel may start while the one before it ends and waits itself for what it needs (programmatic
  /// dependent launch). Backends without it ignore this.
  KernelLaunch& dependent() {
    dependent_ = true;
    return *this;
  }
  KernelLaunch& note(const LaunchNote& note) {
    note_ = note;
    return *this;
  }
  /// Blocks of a cluster; {1, 1, 1}: no clusters.
  KernelLaunch& cluster(Dim3 blocks) {
    cluster_ = blocks;
    return *this;
  }

  KernelHandle handle() const { return handle_; }
  Dim3 grid() const { return grid_; }
  Dim3 block() const { return block_; }
  std::uint32_t shared_bytes() const { return shared_bytes_; }
  bool is_dependent() const { return dependent_; }
  Dim3 cluster() const { return cluster_; }
  const LaunchNote& note() const { return note_; }
  std::size_t arguments() const { return count_; }
  std::size_t bytes() const { return bytes_; }
  const std::byte* data() const { return block_bytes_.data(); }
  std::size_t offset(std::size_t i) const { return offsets_[i]; }
  bool is_buffer(std::size_t i) const { return buffers_[i]; }

 private:
  KernelLaunch& push(const void* value, std::size_t size, std::size_t align, bool is_buffer) {
    const std::size_t at = (bytes_ + align - 1) / align * align;
    MET_CHECK(count_ < kArgumentsMax && at + size <= kBytesMax, "too many launch arguments");
    std::memcpy(block_bytes_.data() + at, value, size);
    offsets_[count_] = static_cast<std::uint16_t>(at);
    buffers_[count_++] = is_buffer;
    bytes_ = at + size;
    return *this;
  }
  KernelHandle handle_;
  Dim3 grid_, block_;
  std::uint32_t shared_bytes_ = 0;
  bool dependent_ = false;
  Dim3 cluster_;
  LaunchNote note_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::array<std::uint16_t, kArgumentsMax> offsets_{};
  std::array<bool, kArgumentsMax> buffers_{};
  alignas(64) std::array<std::byte, kBytesMax> block_bytes_{};
};

}  // namespace met::gpu
