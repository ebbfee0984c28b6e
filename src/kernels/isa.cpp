#include "kernels/isa.h"

#include <iterator>
#include <string>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace met::kernels {
namespace {

constexpr std::string_view kNames[] = {"generic", "avx2", "avx512", "amx"};
static_assert(std::size(kNames) == kCpuIsaCount);

#if defined(__x86_64__)

bool amx_permitted() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("bmi2");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16");
}

bool has_amx() {
  return has_avx512() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") &&
         __builtin_cpu_supports("amx-bf16");
}

#endif

}  // namespace

std::string_view name(CpuIsa isa) { return kNames[static_cast<int>(isa)]; }

CpuIsa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_amx() && amx_permitted()) return CpuIsa::kAmx;
  if (has_avx512()) return CpuIsa::kAvx512;
  if (has_avx2()) return CpuIsa::kAvx2;
#endif
  return CpuIsa::kGeneric;
}

Result<CpuIsa> choose_isa(std::string_view wanted) {
  const CpuIsa best = detect_isa();
  if (wanted.empty() || wanted == "auto") return best;
  for (int i = 0; i < kCpuIsaCount; ++i) {
    if (kNames[i] != wanted) continue;
    if (i <= static_cast<int>(best)) return static_cast<CpuIsa>(i);
    return unsupported("--cpu-isa", "this processor offers " + std::string(name(best)) + " at most, not " +
                                        std::string(wanted));
  }
  return invalid("--cpu-isa",
                 "\"" + std::string(wanted) + "\" is not one of auto, generic, avx2, avx512, amx");
}

}  // namespace met::kernels
