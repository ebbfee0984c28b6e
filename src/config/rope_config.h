// Rotary embedding as config.json declares it.
#pragma once

#include "config/json_fields.h"
#include "config/model_config.h"

namespace met::config {

struct RopeDefaults {
  double theta = 10000;
  int max_positions = 0;  ///< of the model: what yarn and longrope start from when nothing else is given
};

/// Of all layers, from `rope_parameters`, or `rope_theta` and `rope_scaling`.
/// Errors: unknown rope type (with the list of the known ones); a member of it missing or out of range.
Result<RopeConfig> rope_from_json(const Fields& config, const RopeDefaults& defaults);

struct RopePair {
  RopeConfig full;
  RopeConfig local;
};
/// Of full and of sliding layers (gemma3): from `rope_parameters` by layer type, or the older keys with
/// `rope_local_base_freq`.
Result<RopePair> rope_pair_from_json(const Fields& config, const RopeDefaults& defaults);

}  // namespace met::config
