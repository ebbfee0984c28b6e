// Which files a model's name means. Nothing is ever downloaded.
#pragma once

#include <string>
#include <vector>

#include "config/environment.h"
#include "core/error.h"

namespace met::hub {

enum class SourceKind { kGguf, kSafetensors, kConfigOnly };

struct ModelSource {
  SourceKind kind = SourceKind::kGguf;
  std::string path;  ///< the .gguf file, or the directory with config.json and (but kConfigOnly) safetensors
  std::string
      name;  ///< for users: the Hugging Face id, the directory's name, the file's name without ".gguf"
};

/// What a path holds: a GGUF file; a directory with config.json and model.safetensors or its index; else a
/// directory with exactly one .gguf file; else a directory with config.json alone (whose weights a caller may
/// invent). Errors: kNotFound, or kInvalidArgument that says what was found instead.
Result<ModelSource> inspect_path(const std::string& path);

/// Directories that hold downloaded models, in the order in which they are searched: `cache_dir`
/// (--cache-dir), HF_HUB_CACHE, HF_HOME/hub, the user's cache directory. Absent ones are left out.
std::vector<std::string> cache_directories(const std::string& cache_dir,
                                           const config::Environment& environment);

/// `from_path` (--model-from-path) where given. Else `spec`: a path that exists, or a Hugging Face id
/// ("name" or "org/name"), found as models--org--name in the first cache directory that holds a usable
/// snapshot of it: the one of refs/main, else the newest. Errors: kInvalidArgument ("model" or
/// "model_from_path"), or kNotFound listing every place that was looked at.
Result<ModelSource> resolve_model(const std::string& spec, const std::string& cache_dir,
                                  const std::string& from_path, const config::Environment& environment);

}  // namespace met::hub
