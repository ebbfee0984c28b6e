// Test data: reproducible numbers, memory with guard bands, comparison with FP64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace met::test {

using Random = std::mt19937_64;

inline std::vector<float> normal_floats(Random& random, std::size_t count, float magnitude) {
  std::normal_distribution<float> normal(0.0F, magnitude);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

/// Output memory between two bands that nobody may touch; starts as NaN.
class Guarded {
 public:
  explicit Guarded(std::size_t count) : values_(count + 2 * kBand, kMark), count_(count) {
    std::fill(data(), data() + count, std::nanf(""));
  }
  float* data() { return values_.data() + kBand; }
  std::span<const float> values() const { return {values_.data() + kBand, count_}; }
  bool intact() const {
    const auto marked = [](float v) { return v == kMark; };
    return std::all_of(values_.begin(), values_.begin() + kBand, marked) &&
           std::all_of(values_.end() - kBand, values_.end(), marked);
  }

 private:
  static constexpr std::size_t kBand = 64;
  static constexpr float kMark = 12345.0F;
  std::vector<float> values_;
  std::size_t count_;
};

/// 64-byte aligned bytes.
class Aligned {
 public:
  explicit Aligned(std::size_t bytes) : memory_(bytes + 64) {}
  std::byte* data() {
    return memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }

 private:
  std::vector<std::byte> memory_;
};

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace met::test
