// Hashes that say what a kernel is made of.
#pragma once

#include <string>

#include "closure/includes.h"

namespace met::closure {

/// Key of one compile job: text of everything reached, generated header where it is used, architecture or
/// instruction set, sorted flags, compiler. Equal keys mean equal objects.
std::string job_key(const Reach& reach, const ModelManifest& model, const std::string& arch, Strings flags,
                    const std::string& compiler);

/// Closure hash of a target: every source reached, the manifests, flags, architecture, compiler. 64 hex
/// digits. BENCH.toml is no part of it.
Result<std::string> closure_hash(const KernelTree& tree, const Target& target, const std::string& compiler);

}  // namespace met::closure
