// The linear kernels as compiled for AMX, over the instructions' description in emulated/immintrin.h.
#include "tests/ops/support/isa.h"

#define MET_ENTRY(name) extern "C" void name##_emulated(const void*, const MetCpuContext*);
#include "tests/ops/support/linear_entries.inc"
#undef MET_ENTRY

namespace met::test {
namespace {

struct Entry {
  std::string_view name;
  MetCpuKernel function;
};
constexpr Entry kEntries[] = {
#define MET_ENTRY(name) {#name, name##_emulated},
#include "tests/ops/support/linear_entries.inc"
#undef MET_ENTRY
};

}  // namespace

MetCpuKernel Isa::find(std::string_view entry) const {
  for (const Entry& e : kEntries)
    if (e.name == entry) return e.function;
  return nullptr;
}

const std::vector<Isa>& isas() {
  static const std::vector<Isa> emulated{{"amx", 0}};
  return emulated;
}

}  // namespace met::test
