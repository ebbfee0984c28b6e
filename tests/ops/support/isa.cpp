#include "tests/ops/support/isa.h"

#include <cstdio>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define MET_SETS(name) name##_generic, name##_dotprod, name##_i8mm
#else
#define MET_SETS(name) name##_generic, name##_avx2, name##_avx512
#endif

using Kernel = void(const void*, const MetCpuContext*);
#define MET_ENTRY(name) extern "C" Kernel MET_SETS(name);
#include "tests/ops/support/entries.inc"
#undef MET_ENTRY

namespace met::test {
namespace {

struct Entry {
  std::string_view name;
  MetCpuKernel function[3];
};
constexpr Entry kEntries[] = {
#define MET_ENTRY(name) {#name, {MET_SETS(name)}},
#include "tests/ops/support/entries.inc"
#undef MET_ENTRY
};

/// The first set runs everywhere; the others are listed where they run, else named once.
std::vector<Isa> find_isas() {
  std::vector<Isa> found{{"generic", 0}};
  const auto offer = [&](const char* name, int index, bool runs) {
    if (runs)
      found.push_back({name, index});
    else
      std::printf("this CPU lacks %s: its kernels are not tested here\n", name);
  };
#if defined(__aarch64__)
  offer("dotprod", 1, (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0);
  offer("i8mm", 2, (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0);
#else
  __builtin_cpu_init();
  offer("avx2", 1, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  offer("avx512", 2, __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16"));
#endif
  return found;
}

}  // namespace

MetCpuKernel Isa::find(std::string_view entry) const {
  for (const Entry& e : kEntries)
    if (e.name == entry) return e.function[index];
  return nullptr;
}

const std::vector<Isa>& isas() {
  static const std::vector<Isa> found = find_isas();
  return found;
}

}  // namespace met::test
