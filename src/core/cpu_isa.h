// Instruction sets that CPU kernels are compiled for: one list for the build tool and for the start.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace met {

/// kGeneric is the weakest of every architecture; each other set includes those before it of its architecture.
enum class CpuIsa : std::uint8_t { kGeneric, kAvx2, kAvx512, kAmx, kDotprod, kI8mm };

struct CpuIsaRow {
  std::string_view name;
  std::string_view arch;  ///< "x86-64" or "aarch64"; empty: every one
};

/// In the order of CpuIsa.
inline constexpr CpuIsaRow kCpuIsas[] = {{"generic", ""},   {"avx2", "x86-64"},     {"avx512", "x86-64"},
                                         {"amx", "x86-64"}, {"dotprod", "aarch64"}, {"i8mm", "aarch64"}};
inline constexpr int kCpuIsaCount = static_cast<int>(std::size(kCpuIsas));
static_assert(kCpuIsaCount == static_cast<int>(CpuIsa::kI8mm) + 1);

inline constexpr std::string_view kCpuArchs[] = {"x86-64", "aarch64"};

/// Whether processors of `arch` may have the set called `name`.
constexpr bool is_isa_of(std::string_view arch, std::string_view name) {
  for (const CpuIsaRow& row : kCpuIsas)
    if (row.name == name) return row.arch.empty() || row.arch == arch;
  return false;
}

/// "generic, avx2, avx512, amx".
inline std::string isas_of(std::string_view arch) {
  std::string out;
  for (const CpuIsaRow& row : kCpuIsas)
    if (is_isa_of(arch, row.name)) out += (out.empty() ? "" : ", ") + std::string(row.name);
  return out;
}

}  // namespace met
