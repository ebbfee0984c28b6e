#include "kernels/isa.h"

#include <string>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace met::kernels {
namespace {

// Bits of the features that the kernels need; asm/hwcap.h has them on Arm alone.
constexpr unsigned long kDotProducts = 1UL << 20;   // HWCAP_ASIMDDP
constexpr unsigned long kInt8Matrices = 1UL << 13;  // HWCAP2_I8MM

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

std::string_view name(CpuIsa isa) { return kCpuIsas[static_cast<int>(isa)].name; }

std::string_view cpu_arch() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "";
#endif
}

CpuIsa arm_isa(unsigned long features, unsigned long more_features) {
  if ((features & kDotProducts) == 0) return CpuIsa::kGeneric;
  return (more_features & kInt8Matrices) != 0 ? CpuIsa::kI8mm : CpuIsa::kDotprod;
}

CpuIsa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_amx() && amx_permitted()) return CpuIsa::kAmx;
  if (has_avx512()) return CpuIsa::kAvx512;
  if (has_avx2()) return CpuIsa::kAvx2;
#elif defined(__aarch64__) && defined(__linux__)
  return arm_isa(::getauxval(AT_HWCAP), ::getauxval(AT_HWCAP2));
#endif
  return CpuIsa::kGeneric;
}

Result<CpuIsa> choose_isa(std::string_view wanted, std::string_view arch, CpuIsa best) {
  if (wanted.empty() || wanted == "auto") return best;
  for (int i = 0; i < kCpuIsaCount; ++i) {
    if (kCpuIsas[i].name != wanted) continue;
    if (!is_isa_of(arch, wanted))
      return unsupported("--cpu-isa", std::string(wanted) + " is a set of " + std::string(kCpuIsas[i].arch) +
                                          " processors; this one may have " + isas_of(arch));
    if (i <= static_cast<int>(best)) return static_cast<CpuIsa>(i);
    return unsupported("--cpu-isa", "this processor offers " + std::string(name(best)) + " at most, not " +
                                        std::string(wanted));
  }
  return invalid("--cpu-isa", "\"" + std::string(wanted) + "\" is not one of auto, " + isas_of(arch));
}

Result<CpuIsa> choose_isa(std::string_view wanted) { return choose_isa(wanted, cpu_arch(), detect_isa()); }

}  // namespace met::kernels
