// Packed float weights, in their own type: pairs of tiles, k after k of both, so that one row of x keeps four sums
// in flight on AVX2 while it reads one stream. `pair` is at element [k][2][16]; BF16: [k][16][2], whose two columns are a shift and a
// mask away from f32.
#pragma once

#include "packed.h"

namespace {
namespace packed {

constexpr int kPairColumns = 2 * kColumns;

struct F32 {
  using Element = float;
  static constexpr int place(int tile, int column) { return tile * kColumns + column; }
  static simd::Vf load(const Element* p, int tile, int h) {
    return simd::load(p + tile * kColumns + h * simd::kLanes);
  }
  static simd::Vf widen(const Element* p) { return simd::load(p); }
};
struct F16 {
  using Element = std::uint16_t;
  static constexpr int place(int tile, int column) { return tile * kColumns + column; }
  static simd::Vf load(const Element* p, int tile, int h) {
    return simd::load_f16(p + tile * kColumns + h * simd::kLanes);
  }
  static simd::Vf widen(const Element* p) { return simd::load_f16(p); }
};
struct BF16 {
  using Element = std::uint16_t;
  static constexpr int place(int tile, int column) { return 2 * column + tile; }
  static simd::Vf load(const Element* p, int tile, int h) {
    const simd::Vi both = simd::iload(p + 2 * h * simd::kLanes);
    return simd::as_float(tile == 0 ? simd::shift_left32(both, 16) : simd::iand(both, simd::iset1(-0x10000)));
  }
  static simd::Vf widen(const Element* p) { return simd::load_bf16(p); }
};

template <class T>
struct Floats {
  using Element = typename T::Element;
  static constexpr int kTilesAtOnce = 2;
  static constexpr std::int64_t kElementBytes = sizeof(Element);
  static std::size_t tile_bytes(std::int64_t k) {
    return static_cast<std::size_t>(k) * kColumns * sizeof(Element);
  }
  struct Wide {
    const Element* p;
    Wide(const std::uint8_t* pair, std::int64_t b)
        : p(reinterpret_cast<const Element*>(pair) + b * kBlock * kPairColumns) {}
    /// Part h of both tiles' columns.
    simd::Vf load(int i, int h) const { return T::load(p + i * kPairColumns, h / kParts, h % kParts); }
  };
};

}  // namespace packed
}  // namespace
