// Names of a checkpoint's tensors by what they are for.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace met::arch {

enum class Role {
  kEmbedding,
  kFinalNorm,
  kHead,
  kAttnNorm,
  kQuery,
  kKey,
  kValue,
  kQueryNorm,
  kKeyNorm,
  kAttnOut,
  kPostAttnNorm,
  kFfnNorm,
  kGate,
  kUp,
  kDown,
  kPostFfnNorm,
  kRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
};

/// One tensor's name without ".weight"; {} is the layer number, a second {} the expert's. Experts without one are
/// slices of one tensor.
struct WeightName {
  Role role;
  std::string_view name;
};

/// Names of Hugging Face checkpoints that most decoder families share.
std::span<const WeightName> common_names();
/// The same for gemma3, whose blocks have four norms.
std::span<const WeightName> gemma3_names();
/// Names that GGUF files use for every family.
std::span<const WeightName> gguf_names();

/// The name of `role` in `names` with the layer number filled in.
std::string weight_name(std::span<const WeightName> names, Role role, int layer);

}  // namespace met::arch
