// The generated kernel table: what the build compiled, one entry a target. Written by the build tool
// (src/kernelc) as constants; nothing here allocates or is computed at start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/cpu_isa.h"
#include "met/cpu_kernel.h"

namespace met::kernels {

/// One entry of a CPU module: the same function for each instruction set, null where it was not compiled.
struct CpuFunction {
  std::string_view name;
  MetCpuKernel by_isa[kCpuIsaCount];
};

/// A compiled source: CPU functions, or a device image (cubin) with the names of its entries.
struct Module {
  std::string_view name;
  std::span<const CpuFunction> functions;
  std::span<const std::byte> image;
  std::span<const std::string_view> entries;
};

struct ModelType {
  std::string_view model_type;
  int hidden_size = 0;  ///< 0: any size (family target)
};

struct AbsentKernel {
  std::string_view module;
  std::string_view kernel;
  std::string_view reason;
};

/// One row of HARDWARE.toml [defaults].
struct Default {
  std::string_view key;
  std::string_view value;
};

struct Hardware {
  std::string_view name;    ///< "cpu", "hopper"
  std::string_view vendor;  ///< "cpu", "nvidia", …
  std::string_view arch;    ///< as given to the compiler: "sm_90a"; of CPUs the one compiled for: "x86-64"
  int sm_count = 0;
  std::span<const Default> defaults;
};

/// One size that an exact target was compiled for: [model.dims].
struct Dim {
  std::string_view key;  ///< "hidden", "layers", "heads", …
  std::int64_t value = 0;
};

struct Target {
  const Hardware* hardware;
  std::string_view model;  ///< directory name
  std::string_view quant;
  std::span<const ModelType> model_types;
  std::span<const std::string_view> match_names;
  std::span<const Module> modules;
  std::span<const AbsentKernel> expected_absent;
  std::span<const AbsentKernel> dropped_by_shadow;
  std::string_view closure_hash;
  std::string_view behavior_json;  ///< MODEL.toml's sampling and behavior tables as one JSON object
  std::span<const Dim> dims;       ///< exact targets: the constants inside their kernels
  std::string_view compiler;       ///< version line
  std::string_view flags;          ///< of HARDWARE.toml and the KERNEL.toml files
};

/// All targets in the binary, sorted by (hardware, model, quant). Defined in the generated file.
std::span<const Target> targets();

/// Every selected hardware with its serving defaults, also in a build that skipped its kernels.
std::span<const Hardware> hardwares();

/// FNV-1a of the generated file, low 48 bits.
std::uint64_t table_hash();

}  // namespace met::kernels
