// Kernels of a resolved target by (module, function).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/table.h"

namespace met::kernels {

/// The module of that name, or nullptr.
const Module* find_module(const Target& target, std::string_view module);

/// The CPU function compiled for `isa`, or for the best set below it; null where there is none.
MetCpuKernel find_cpu_kernel(const Target& target, std::string_view module, std::string_view function,
                             CpuIsa isa);

/// Whether the target holds that entry, for whatever instruction set.
bool has_kernel(const Target& target, std::string_view module, std::string_view function);

/// A serving default of a hardware, empty where HARDWARE.toml states none.
std::string_view default_of(const Hardware& hardware, std::string_view key);

/// The hardware of that name that this build was made for, or nullptr.
const Hardware* find_hardware(std::string_view name);

/// What each target was made of, as one JSON object: "hardware/model/quant" → hash, arch, compiler, flags.
/// Benchmark records carry it. A target without a hash attests to nothing and is left out.
std::string closures_json(std::span<const Target> targets);

}  // namespace met::kernels
