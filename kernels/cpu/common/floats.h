// Packed float weights: tiles of [k][16] in their own type, widened by load().
#pragma once

#include "packed.h"

namespace {
namespace packed {

struct F32 {
  using Element = float;
  static simd::Vf widen(const Element* p) { return simd::load(p); }
};
struct F16 {
  using Element = std::uint16_t;
  static simd::Vf widen(const Element* p) { return simd::load_f16(p); }
};
struct BF16 {
  using Element = std::uint16_t;
  static simd::Vf widen(const Element* p) { return simd::load_bf16(p); }
};

template <class T>
struct Floats {
  using Element = typename T::Element;
  static std::size_t tile_bytes(std::int64_t k) {
    return static_cast<std::size_t>(k) * kColumns * sizeof(Element);
  }
  struct Wide {
    const Element* p;
    Wide(const std::uint8_t* tile, std::int64_t b)
        : p(reinterpret_cast<const Element*>(tile) + b * kBlock * kColumns) {}
    simd::Vf load(int i, int h) const { return T::widen(p + i * kColumns + h * simd::kLanes); }
  };
};

}  // namespace packed
}  // namespace
