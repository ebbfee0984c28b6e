#include <cstdint>
#include <span>
#include <string_view>

#include "gpu/cpu/cpu_backend.h"
#include "gpu/cuda/cuda_backend.h"
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

// The same kernel for the CUDA driver, which compiles this text when it loads it: no toolkit is needed to
// test.
constexpr std::string_view kProbePtx = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry probe_add_one(.param .u64 cells, .param .u64 count) {
  .reg .pred %done;
  .reg .b32 %block, %threads, %thread, %blocks, %value;
  .reg .b64 %base, %end, %i, %stride, %at;
  ld.param.u64 %base, [cells];
  ld.param.u64 %end, [count];
  cvta.to.global.u64 %base, %base;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %blocks, %nctaid.x;
  mad.lo.u32 %thread, %block, %threads, %thread;
  mul.lo.u32 %blocks, %blocks, %threads;
  cvt.u64.u32 %i, %thread;
  cvt.u64.u32 %stride, %blocks;
next:
  setp.ge.u64 %done, %i, %end;
  @%done bra finish;
  shl.b64 %at, %i, 2;
  add.u64 %at, %base, %at;
  ld.global.u32 %value, [%at];
  add.u32 %value, %value, 1;
  st.global.u32 [%at], %value;
  add.u64 %i, %i, %stride;
  bra next;
finish:
  ret;
}
)";

const kernels::Target& cuda_target() {
  static constexpr std::string_view kEntries[] = {"probe_add_one"};
  static const kernels::Module module{"probe", {}, std::as_bytes(std::span(kProbePtx)), kEntries};
  static const kernels::Target target = [] {
    kernels::Target t{};
    t.modules = {&module, 1};
    return t;
  }();
  return target;
}

std::unique_ptr<GpuBackend> open_cuda(std::string& why) {
  auto backend = cuda::CudaBackend::open(cuda_target(), {.redzones = true, .check_bounds = true});
  if (backend) return std::move(*backend);
  why = backend.error().message;
  return nullptr;
}

}  // namespace

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> known = [] {
    std::vector<Subject> all = {
        {.name = "cpu",
         .open =
             [](std::string&) {
               return std::make_unique<cpu::CpuBackend>(
                   cpu_target(), CpuIsa::kAvx2,
                   cpu::CpuOptions{.pool = {.threads = 2}, .redzones = true, .check_bounds = true});
             },
         .runs_kernels = true},
        {.name = "mock", .open = [](std::string&) { return std::make_unique<mock::MockBackend>(); }},
    };
    if (cuda::open_driver()) all.push_back({.name = "cuda", .open = open_cuda, .runs_kernels = true});
    return all;
  }();
  return known;
}

}  // namespace met::gpu::test
