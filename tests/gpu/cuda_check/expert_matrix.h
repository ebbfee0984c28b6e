// Weights of a mixture's experts as the kernels read them, BF16 or E4M3, and what they mean in FP64.
#pragma once

#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {

/// How the experts' matrices are stored.
enum class ExpertStorage { kBf16, kE4m3Rows, kE4m3Blocks };

class ExpertMatrix {
 public:
  /// Random values of about `magnitude`. E4M3: all codes but NaN; odd experts have subnormals and the least normal ones
  /// alone, under scales that make up for it. `gated`: rows alternate 8 of gate, 8 of up.
  ExpertMatrix(ExpertStorage storage, bool gated, int experts, std::int64_t n, std::int64_t k, Rng& rng,
               double magnitude);

  /// What the device gets: bytes of W, and of its scales (one of 0 with BF16).
  std::vector<std::byte> bytes() const;
  const std::vector<float>& scales() const { return scales_; }
  bool e4m3() const { return storage_ != ExpertStorage::kBf16; }
  bool block_scales() const { return storage_ == ExpertStorage::kE4m3Blocks; }
  DType type() const { return e4m3() ? DType::kF8E4M3 : DType::kBF16; }
  double bytes_each() const { return e4m3() ? 1 : 2; }

  /// W[expert, row, i] as stored, and its scale.
  double number(int expert, std::int64_t row, std::int64_t i) const;
  double scale(int expert, std::int64_t row, std::int64_t i) const;
  double value(int expert, std::int64_t row, std::int64_t i) const {
    return number(expert, row, i) * scale(expert, row, i);
  }

 private:
  std::size_t at(int expert, std::int64_t row, std::int64_t i) const {
    return static_cast<std::size_t>((expert * n_ + row) * k_ + i);
  }
  std::size_t scale_at(int expert, std::int64_t row, std::int64_t i) const;

  ExpertStorage storage_;
  bool gated_;
  std::int64_t n_, k_;
  std::vector<std::uint16_t> bf16_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> scales_;
};

/// " e4m3" and how it is scaled, for the name of a case.
std::string name_of(ExpertStorage storage);

}  // namespace met::gpu::check
