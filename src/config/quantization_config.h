// `quantization_config` of config.json.
#pragma once

#include <optional>

#include "config/json_fields.h"
#include "config/model_config.h"

namespace met::config {

/// How the checkpoint's matrices are stored, or nothing where they are plain floats. Understood are E4M3 weights:
/// quant_method "fp8" (a scale a matrix, or a block of 128 x 128) and "compressed-tensors" with format "float-quantized"
/// (a scale a matrix, a row, or a block). What is said of activations and of the KV cache is checked for form only: a
/// device that keeps both in wider types computes what the checkpoint means.
/// Errors: kUnsupported, kInvalidArgument naming the key.
Result<std::optional<Fp8Weights>> read_quantization(const Fields& config);

}  // namespace met::config
