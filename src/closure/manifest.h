// The four TOML files of the kernel tree as values. docs/kernels.md lists every key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace met::closure {

enum class Vendor { kCpu, kNvidia, kApple, kAmd, kHip };

/// "cpu", "nvidia", "apple", "amd", "hip".
std::string_view name(Vendor vendor);

using Strings = std::vector<std::string>;

/// Instruction set → flags.
using IsaFlags = std::vector<std::pair<std::string, Strings>>;

/// HARDWARE.toml.
struct HardwareManifest {
  std::string name;
  Vendor vendor = Vendor::kCpu;
  std::string arch;                ///< as given to the compiler; empty on CPUs
  std::string compute_capability;  ///< "9.0"
  int sm_count = 0;
  std::string inherits;  ///< parent hardware or empty
  Strings flags;
  std::map<std::string, IsaFlags> isa;                        ///< cpu: architecture → its instruction sets
  std::vector<std::pair<std::string, std::string>> defaults;  ///< in the order of default_rows()
  std::vector<std::string> unstated_defaults;                 ///< rows missing from a declared [defaults]
  /// Whether it can be built for; else it is only a parent of others.
  bool is_target() const { return !arch.empty() || !isa.empty(); }
};

struct ModelTypeRow {
  std::string model_type;
  int hidden_size = 0;  ///< 0: any
};

struct AbsentRow {
  std::string module;
  std::string kernel;
  std::string reason;
};

/// MODEL.toml.
struct ModelManifest {
  std::string name;
  std::string kernel_source;
  Strings match_names;
  Strings supported_quants;  ///< empty: any
  std::vector<ModelTypeRow> model_types;
  std::vector<std::pair<std::string, std::int64_t>> dims;       ///< [model.dims]
  std::vector<std::pair<std::string, std::int64_t>> constants;  ///< [kernel]
  std::vector<AbsentRow> expected_absent;
  json::Value behavior;  ///< sampling, behavior, dflash tables as given
  bool exact() const { return !dims.empty(); }
};

/// KERNEL.toml.
struct KernelManifest {
  Strings flags;
  std::map<std::string, std::string> modules;  ///< stem → module name
  std::map<std::string, Strings> isa;          ///< stem → instruction sets it is compiled for
  Strings use;                                 ///< files or folders, relative to kernels/<hw>
  std::map<std::string, std::string> shadow;   ///< file name → reason
  std::map<std::string, Strings> shadow_exempt;
};

// Each reads and checks one file; `name` is what messages call it. Errors: kInvalidArgument naming file and
// key.
Result<HardwareManifest> read_hardware(const std::filesystem::path& path, const std::string& name);
Result<ModelManifest> read_model(const std::filesystem::path& path, const std::string& name);
Result<KernelManifest> read_kernel(const std::filesystem::path& path, const std::string& name);
/// BENCH.toml is checked and otherwise left to the benchmark: it is no part of a kernel.
Result<> check_bench(const std::filesystem::path& path, const std::string& name);

/// One serving default of [defaults]: every hardware that declares the table states each of them.
struct DefaultRow {
  std::string_view key;
  std::string_view what;  ///< "integer" or the allowed words, separated by '|'
};
std::vector<DefaultRow> default_rows();

/// Letters, digits, '.', '_' and '-', not starting with a dot: what a directory of the tree may be called.
bool is_plain_name(std::string_view name);

}  // namespace met::closure
