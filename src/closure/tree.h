// The kernel tree as found on disk: hardwares, their models and the storage families of each.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "closure/manifest.h"

namespace met::closure {

struct Hardware {
  HardwareManifest manifest;
  std::map<std::string, ModelManifest> models;  ///< by directory name; every directory with a MODEL.toml
};

class KernelTree {
 public:
  /// Reads every HARDWARE.toml, MODEL.toml and BENCH.toml under `root` (the folder `kernels`). Errors:
  /// symbolic links anywhere, unknown files or keys, a parent that is missing, of another vendor or has a
  /// parent itself, a name that is not its folder's.
  static Result<KernelTree> load(const std::filesystem::path& root);

  const std::filesystem::path& root() const { return root_; }
  const std::map<std::string, Hardware>& hardwares() const { return hardwares_; }
  const Hardware* hardware(const std::string& name) const;

  /// Storage families of a model: its own folders, the parent's for the same model, `supported_quants`.
  Strings quants(const std::string& hardware, const std::string& model) const;

  /// A path relative to the root, as messages name it: "kernels/cpu/common".
  std::string label(const std::filesystem::path& path) const;

 private:
  std::filesystem::path root_;
  std::map<std::string, Hardware> hardwares_;
};

}  // namespace met::closure
