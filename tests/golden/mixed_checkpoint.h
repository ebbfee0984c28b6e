// Copies of stored FP8 checkpoints: with some matrices as floats, as exclusions leave them, and with scales of the cache.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ops/attention/attention.h"

namespace met::golden {

/// Of llama-fp8-block: one of query, key and value, gate with up, and down in one of two layers.
inline const std::vector<std::string> kFloatsBesideFp8 = {
    "model.layers.0.self_attn.k_proj", "model.layers.0.mlp.down_proj", "model.layers.1.mlp.gate_proj",
    "model.layers.1.mlp.up_proj"};

/// A copy of checkpoint `name`, whose scales are those of blocks of 128, with these matrices (without ".weight") as F32:
/// numbers times scales, so that it means what it meant. Removed with the object.
class MixedCheckpoint {
 public:
  MixedCheckpoint(const std::string& name, const std::vector<std::string>& matrices);
  ~MixedCheckpoint() { std::filesystem::remove_all(folder_); }
  MixedCheckpoint(const MixedCheckpoint&) = delete;
  MixedCheckpoint& operator=(const MixedCheckpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

/// A copy of checkpoint `name`, whose matrices have F32 scales and whose K is not normalised, that means what it meant with K
/// and V `scales` times as large. Where `told`, it says so as calibration does, in "k_proj.k_scale" and "v_proj.v_scale".
/// Removed with the object.
class ScaledCacheCheckpoint {
 public:
  ScaledCacheCheckpoint(const std::string& name, const ops::KvScales& scales, bool told);
  ~ScaledCacheCheckpoint() { std::filesystem::remove_all(folder_); }
  ScaledCacheCheckpoint(const ScaledCacheCheckpoint&) = delete;
  ScaledCacheCheckpoint& operator=(const ScaledCacheCheckpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace met::golden
