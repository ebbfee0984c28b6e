#include "tests/ops/support/isa.h"

#include <cstdio>

#define MET_ENTRY(name)                                              \
  extern "C" void name##_generic(const void*, const MetCpuContext*); \
  extern "C" void name##_avx2(const void*, const MetCpuContext*);    \
  extern "C" void name##_avx512(const void*, const MetCpuContext*);
#include "tests/ops/support/entries.inc"
#undef MET_ENTRY

namespace met::test {
namespace {

struct Entry {
  std::string_view name;
  MetCpuKernel function[3];
};
constexpr Entry kEntries[] = {
#define MET_ENTRY(name) {#name, {name##_generic, name##_avx2, name##_avx512}},
#include "tests/ops/support/entries.inc"
#undef MET_ENTRY
};

std::vector<Isa> find_isas() {
  std::vector<Isa> found{{"generic", 0}};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    found.push_back({"avx2", 1});
  else
    std::puts("this CPU has no AVX2: its kernels are not tested here");
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16"))
    found.push_back({"avx512", 2});
  else
    std::puts("this CPU has no AVX-512 VNNI and BF16: those kernels are not tested here");
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
