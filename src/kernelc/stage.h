// Copies of the roles' files in the build folder, so that a quoted include sees the role's own headers.
#pragma once

#include <filesystem>
#include <string>

#include "closure/layers.h"

namespace met::kernelc {

/// Folders below the stage's root, relative to it: commands run there, so that they read alike everywhere.
struct Stage {
  std::string source;                ///< file to compile
  std::vector<std::string> include;  ///< -I in order
};

class Stager {
 public:
  Stager(const closure::KernelTree& tree, std::filesystem::path root) : tree_(tree), root_(std::move(root)) {}

  /// Writes the target's roles, the shared headers and the generated target.h. A file that already has its
  /// text is left alone; others in a role's folder are removed. Each begins with a #line of its original.
  Result<> stage(const closure::Target& target) const;

  Stage paths(const closure::Target& target, const closure::Source& source) const;
  const std::filesystem::path& root() const { return root_; }

 private:
  Result<> stage_role(const closure::RoleFiles& files, const std::string& folder) const;
  const closure::KernelTree& tree_;
  std::filesystem::path root_;
};

/// Writes `text` unless the file holds it already. Errors: kIo.
Result<> write_if_changed(const std::filesystem::path& path, const std::string& text);

}  // namespace met::kernelc
