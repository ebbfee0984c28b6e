// How each vendor's compiler is called.
#pragma once

#include <string>
#include <vector>

#include "closure/manifest.h"
#include "kernelc/options.h"
#include "kernelc/process.h"
#include "kernelc/stage.h"

namespace met::kernelc {

/// The compiler of one hardware.
struct Compiler {
  closure::Vendor vendor = closure::Vendor::kCpu;
  std::string program;
  std::string version;  ///< part of every hash; empty where the program is absent
  bool present = false;
  std::string cpu_arch;  ///< of the processors that a C++ compiler compiles for: "x86-64", "aarch64"
};

/// cpu: the C++ compiler of the machine that `met` will run on; nvidia: nvcc; apple: xcrun; amd: SCALE's nvcc for the arch; hip: hipcc.
Compiler find_compiler(const Options& options, const closure::HardwareManifest& hardware);

/// "x86-64" for a compiler's machine such as "x86_64-linux-gnu"; one that is not known comes back as it is.
std::string cpu_arch_of(std::string_view machine);

/// Flags that every kernel of a vendor is compiled with, before those of the tree.
Strings base_flags(const Options& options, closure::Vendor vendor);

/// File name extension of an object: ".o", ".cubin", ".metallib", ".elf", ".hsaco".
std::string_view object_extension(closure::Vendor vendor);

/// Commands that compile one staged source into `object`, run in order. `suffix` is appended to the names of
/// CPU entries.
std::vector<Command> compile_commands(const Options& options, const Compiler& compiler,
                                      const std::string& arch, const Strings& flags,
                                      const std::string& suffix, const Stage& stage,
                                      const std::filesystem::path& folder,
                                      const std::filesystem::path& object);

}  // namespace met::kernelc
