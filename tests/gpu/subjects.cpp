#include <cstdint>

#include "gpu/cpu/cpu_backend.h"
#include "gpu/mock/mock_backend.h"
#include "tests/gpu/contract.h"

namespace met::gpu::test {
namespace {

struct AddOneArgs {
  std::uint32_t* cells;
  std::int64_t count;
};
void add_one(const void* args, const MetCpuContext* context) {
  const auto& a = *static_cast<const AddOneArgs*>(args);
  for (std::int64_t i = met_next(context, 1); i < a.count; i = met_next(context, 1)) ++a.cells[i];
}

constexpr kernels::CpuFunction kFunctions[] = {{"probe_add_one", {add_one, nullptr, nullptr, nullptr}}};
constexpr kernels::Module kModules[] = {{"probe", kFunctions, {}, {}}};

const kernels::Target& cpu_target() {
  static const kernels::Target target = [] {
    kernels::Target t{};
    t.modules = kModules;
    return t;
  }();
  return target;
}

}  // namespace

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = {
      {.name = "cpu",
       .open =
           [](std::string&) {
             return std::make_unique<cpu::CpuBackend>(
                 cpu_target(), kernels::CpuIsa::kAvx2,
                 cpu::CpuOptions{.pool = {.threads = 2}, .redzones = true, .check_bounds = true});
           },
       .runs_kernels = true},
      {.name = "mock", .open = [](std::string&) { return std::make_unique<mock::MockBackend>(); }},
  };
  return all;
}

}  // namespace met::gpu::test
