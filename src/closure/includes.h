// Which files a source reaches through its includes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "closure/layers.h"

namespace met::closure {

/// A file of the tree with its text.
struct ReachedFile {
  std::string label;  ///< "kernels/cpu/common/linear.cpp"
  std::filesystem::path path;
  std::string text;
};

struct Reach {
  std::vector<ReachedFile> files;   ///< the source first, then in the order of first inclusion
  bool uses_target_header = false;  ///< "target.h", generated
};

/// Follows quoted and angled includes as the compiler would (docs/kernels.md), every branch of a conditional.
/// Files outside the tree are the compiler's own and are left out. Errors: a file that cannot be read, an
/// include whose name is a macro.
Result<Reach> reach(const KernelTree& tree, const Target& target, const Source& source);

/// Folders of the tree, besides the role's stage, in which a source's includes are looked up.
std::vector<std::filesystem::path> include_folders(const KernelTree& tree, const Target& target, Role role);

/// `target.h` of a model: its sizes and [kernel] constants; 0 where they are known at run time only.
std::string target_header(const ModelManifest& model);

}  // namespace met::closure
