// What a bulk tensor copy (TMA) reads, described once at load.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/launch.h"

namespace met::gpu {

/// The device's own form, opaque to us: a kernel takes it by value as a `__grid_constant__` argument
/// (KernelLaunch::scalar).
struct alignas(64) TensorMap {
  std::array<std::byte, 128> bytes{};
};

enum class TensorElement : std::uint8_t { kByte, kBf16, kF16, kF32 };

/// A tensor in device memory and the box of it that one copy moves. Index 0 varies fastest.
struct TensorMapSpec {
  static constexpr int kRankMax = 5;

  DevicePtr base;  ///< 16-byte aligned
  TensorElement element = TensorElement::kBf16;
  int rank = 2;                                   ///< 1 … 5
  std::array<std::uint64_t, kRankMax> extents{};  ///< elements; what a box reads beyond them is zero
  std::array<std::uint64_t, kRankMax - 1>
      strides{};                              ///< bytes from one index 1, 2, … to the next, multiples of 16
  std::array<std::uint32_t, kRankMax> box{};  ///< elements, at most 256 each
  bool swizzle_128b = true;  ///< rows of 128 bytes, 16-byte units permuted by row mod 8; else row after row
};

}  // namespace met::gpu
