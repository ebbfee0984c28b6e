// Where a ModelConfig comes from: config.json, generation_config.json, or the metadata of a GGUF file.
//
// Families: gemma3_text, llama, ministral3, mistral, qwen2, qwen3, qwen3_moe, smollm3. Older keys (rope_theta,
// rope_scaling, torch_dtype) and newer ones (rope_parameters, dtype) give the same result; absent keys take
// the defaults of the family's reference implementation. All sizes are checked, so that a recipe may multiply
// them without overflow. Errors: kInvalidArgument or kUnsupported; `field` is the key.
#pragma once

#include <string>

#include "config/model_config.h"
#include "formats/gguf.h"

namespace met::config {

/// `config_json` is the whole document; `text_config` of gemma3 and mistral3 is entered. End ids are those of
/// this file alone.
Result<ModelConfig> model_config_from_json(const json::Value& config_json);

/// `file` may be closed afterwards: nothing of it is referenced.
Result<ModelConfig> model_config_from_gguf(const formats::GgufFile& file);

Result<GenerationDefaults> generation_defaults_from_json(const json::Value& generation_config_json);

struct ModelDescription {
  ModelConfig model;
  GenerationDefaults generation;
};

/// config.json and, where it exists, generation_config.json of a directory. `model.eos_ids` are those of
/// both, the latter's first; `model.name` is the directory's name.
Result<ModelDescription> read_model_directory(const std::string& directory);

/// The same of a GGUF file.
Result<ModelDescription> describe_gguf(const formats::GgufFile& file);

}  // namespace met::config
