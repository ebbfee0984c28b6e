// Symbols of a 64-bit little-endian ELF file: what an object or a cubin defines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"

namespace met::kernelc {

enum class Binding { kLocal, kGlobal, kWeak, kUnique };

struct Symbol {
  std::string name;
  Binding binding = Binding::kLocal;
  bool function = false;
  bool cuda_entry = false;  ///< a kernel of a cubin
};

/// Defined symbols that are not local, in file order. Errors: kDataLoss for what is no such ELF file.
Result<std::vector<Symbol>> defined_symbols(const std::filesystem::path& path);

}  // namespace met::kernelc
