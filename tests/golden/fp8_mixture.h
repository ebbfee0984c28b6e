// A random mixture of experts whose matrices are E4M3, stored as FP8 checkpoints are, and the same model in floats.
#pragma once

#include <filesystem>

#include "config/model_config.h"

namespace met::golden {

/// Of the family qwen3_moe, with sizes beyond a block of scales: hidden 288, 8 experts of 160 of which 2 are chosen, one
/// dense layer of three. Its tokenizer is that of the golden qwen3_moe-a. Removed with the object.
class Fp8Mixture {
 public:
  using Granularity = config::Fp8Weights::Granularity;

  explicit Fp8Mixture(Granularity granularity);
  ~Fp8Mixture() { std::filesystem::remove_all(folder_); }
  Fp8Mixture(const Fp8Mixture&) = delete;
  Fp8Mixture& operator=(const Fp8Mixture&) = delete;

  std::filesystem::path fp8() const { return folder_ / "fp8"; }
  /// Every matrix as F32: numbers times scales.
  std::filesystem::path floats() const { return folder_ / "floats"; }

 private:
  std::filesystem::path folder_;
};

inline constexpr config::Fp8Weights::Granularity kGranularities[] = {config::Fp8Weights::Granularity::kTensor,
                                                                     config::Fp8Weights::Granularity::kRow,
                                                                     config::Fp8Weights::Granularity::kBlock};

}  // namespace met::golden
