// Which type the K and V of each layer are kept in: one for all, but for the first and last layers, which may stay in BF16.
#pragma once

#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/error.h"

namespace met::ops {

struct KvFormat {
  DType type = DType::kF16;
  int wide_layers = 0;  ///< so many at each end are BF16

  DType of(int layer, int layers) const {
    return layer < wide_layers || layers - layer <= wide_layers ? DType::kBF16 : type;
  }
  /// Two caches of one name hold the same bytes for the same text.
  std::string name() const;
};

/// The format for a model of `layers` layers under `--kv-high-precision-layers`: a number, `auto` (2), `max` or `all`. Where no
/// layer is left to `type`, the format is BF16. Errors: kInvalidArgument; kUnsupported where `type` has 16 bits or more, so that
/// the flag could not take effect.
Result<KvFormat> kv_format(DType type, std::string_view high_precision_layers, int layers);

}  // namespace met::ops
