// What one target is made of: its four layers resolved to one file a name and one source a stem.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "closure/tree.h"

namespace met::closure {

enum class Role { kCommon, kLeaf };
enum class Tier { kParent, kOwn };

/// "common" or "leaf".
std::string_view name(Role role);

/// The files of a role after the own tier has won, by name: what its stage folder holds.
struct RoleFiles {
  std::map<std::string, std::filesystem::path> files;
  std::vector<std::filesystem::path> folders;  ///< original folders of its layers, own tier first
};

/// One source that is compiled.
struct Source {
  std::string stem;
  std::string module;  ///< what a launch looks up
  std::string file;    ///< name in its role
  Role role = Role::kCommon;
  std::filesystem::path path;
  Strings isa;  ///< cpu: instruction sets; empty: all of the hardware
};

/// An entry point of a file that lost, absent from the one that won.
struct Dropped {
  std::string module;
  std::string kernel;
  std::string reason;  ///< of the shadow
};

struct Target {
  std::string hardware;
  std::string model;
  std::string quant;
  const HardwareManifest* hardware_manifest = nullptr;
  const ModelManifest* model_manifest = nullptr;
  RoleFiles common;
  RoleFiles leaf;
  std::vector<Source> sources;  ///< sorted by module
  Strings flags;                ///< HARDWARE.toml, then the merged KERNEL.toml files
  std::vector<Dropped> dropped;
  Strings warnings;                              ///< dropped entries that [shadow_exempt] does not name
  std::vector<std::filesystem::path> manifests;  ///< TOML files that this target was made from

  const RoleFiles& files(Role role) const { return role == Role::kLeaf ? leaf : common; }
  std::string name() const { return hardware + "/" + model + "/" + quant; }
};

/// Errors: each broken rule of docs/kernels.md, naming the file and the key. `tree` outlives the target.
Result<Target> resolve(const KernelTree& tree, const std::string& hardware, const std::string& model,
                       const std::string& quant);

/// Whether a file of this name is compiled for the vendor (.cpp, .cu, .metal), or is a header.
bool is_source(const std::string& file, Vendor vendor);
bool is_header(const std::string& file);

}  // namespace met::closure
