// A histogram of fixed bounds: plain numbers that are copied as a whole.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace met {

/// 1 ms to 1,000 s in steps of about 2.5; and powers of two for tokens and other counts.
inline constexpr std::array<double, 22> kSecondBounds = {
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    0.75,    1,      2.5,   5,      10,    25,   50,    100,  250, 500,  1000};
inline constexpr std::array<double, 18> kCountBounds = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

struct Histogram {
  static constexpr std::size_t kBoundsMax = 22;

  std::span<const double> bounds;                     ///< ascending upper bounds, inclusive
  std::array<std::int64_t, kBoundsMax + 1> counts{};  ///< of each bound alone; the last one: above all
  std::int64_t count = 0;
  double sum = 0;

  explicit Histogram(std::span<const double> upper_bounds) : bounds(upper_bounds) {}
  void observe(double value) {
    const auto at = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
    ++counts[static_cast<std::size_t>(at)];
    ++count;
    sum += value;
  }
};

}  // namespace met
