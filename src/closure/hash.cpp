#include "closure/hash.h"

#include <algorithm>
#include <map>

#include "closure/schema.h"
#include "core/sha256.h"

namespace met::closure {

std::string job_key(const Reach& reach, const ModelManifest& model, const std::string& arch, Strings flags,
                    const std::string& compiler) {
  Sha256 hash;
  for (const ReachedFile& file : reach.files) hash.field(file.label).field(file.text);
  hash.field(reach.uses_target_header ? target_header(model) : "");
  std::ranges::sort(flags);
  for (const std::string& flag : flags) hash.field(flag);
  return hash.field(arch).field(compiler).hex();
}

Result<std::string> closure_hash(const KernelTree& tree, const Target& target, const std::string& compiler) {
  std::map<std::string, std::string> texts;
  for (const Source& source : target.sources) {
    MET_ASSIGN(const Reach reached, reach(tree, target, source));
    for (const ReachedFile& file : reached.files) texts[file.label] = file.text;
  }
  for (const auto& path : target.manifests) {
    MET_ASSIGN(texts[tree.label(path)], read_text(path));
  }
  Sha256 hash;
  for (const auto& [label, text] : texts) hash.field(label).field(text);
  for (const std::string& flag : target.flags) hash.field(flag);
  return hash.field(target.hardware_manifest->arch).field(compiler).hex();
}

}  // namespace met::closure
