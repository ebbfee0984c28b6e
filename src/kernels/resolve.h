// Which target serves a checkpoint: chosen once, at start.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "kernels/table.h"

namespace met::kernels {

/// How a checkpoint stores its weights.
enum class Storage { kBf16, kFp16, kFp32, kFp8, kNvfp4, kGguf };

/// "bf16", "fp16", "fp32", "fp8", "nvfp4", "gguf".
std::string_view name(Storage storage);

/// Whether a target of this quant reads such a checkpoint: gguf serves every ggml type, bf16 the plain float
/// types, nvfp4 also fp8 and bf16, fp8 itself.
bool pairs(std::string_view quant, Storage storage);

struct Request {
  std::string_view hardware;  ///< of the chosen device: "cpu", "hopper"
  std::string_view model_type;
  int hidden_size = 0;
  Storage storage = Storage::kBf16;
  std::span<const Dim> dims;  ///< the checkpoint's sizes under the names of [model.dims]; an exact target
                              ///< with other sizes does not serve it
  std::span<const std::string_view> identities;  ///< Hugging Face id, --model-name, model directory
  std::string_view pinned;                       ///< --kernel-target: "model" or "hardware/model/quant"
};

/// Lower case, '-' and '.' as '_'.
std::string normalized_model_type(std::string_view model_type);

/// "hardware/model/quant".
std::string full_name(const Target& target);

/// Exact targets (model_type and hidden_size) come before family targets (model_type). Of several models
/// left, the one whose match_names alone occur in an identity, in any case. A pin chooses among those that
/// could serve. Errors: kNotFound with the list of targets where none serves, kUnsupported where only the
/// storage does not pair, kInvalidArgument for a tie and for a pin that does not serve.
Result<const Target*> resolve(std::span<const Target> targets, const Request& request);

}  // namespace met::kernels
