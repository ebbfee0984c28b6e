// Carried to a machine with a GPU: correctness and speed of the device operations through the CUDA backend.
// usage: gpu_cuda_check [--no-timing | --timing-only] [--shard I/N] [PART OF A GROUP'S NAME]
//   --shard  of each group's cases every N-th, from the I-th on (0 is the first): N processes share the work of the oracles.
// Exit status: 0 passed or no driver, 1 failed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

#include "gpu/cuda/cuda_backend.h"
#include "kernels/arch.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

const kernels::Target* target_for(std::string_view hardware) {
  for (const kernels::Target& target : kernels::targets())
    if (target.hardware != nullptr && target.hardware->name == hardware) return &target;
  return nullptr;
}

Result<> print_transfers(GpuBackend& gpu) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const Stream stream = gpu.default_stream();
  MET_ASSIGN(PinnedHost pinned, gpu.allocate_pinned(kBytes));
  MET_ASSIGN(const DevicePtr device, gpu.allocate(kBytes, "transfers"));
  MET_ASSIGN(const Event begin, gpu.create_event(true));
  MET_ASSIGN(const Event end, gpu.create_event(true));
  for (const bool up : {true, false}) {
    double best = 0;
    for (int round = 0; round < 4; ++round) {
      MET_TRY(gpu.record(begin, stream));
      MET_TRY(up ? gpu.copy_to_device_async(device, pinned.host, kBytes, stream)
                 : gpu.copy_to_host_async(pinned.host, device, kBytes, stream));
      MET_TRY(gpu.record(end, stream));
      MET_TRY(gpu.synchronize(stream));
      MET_ASSIGN(const double ms, gpu.elapsed_ms(begin, end));
      best = std::max(best, static_cast<double>(kBytes) / ms / 1e6);
    }
    std::printf("pinned copy %s the device: best %.1f GB/s\n", up ? "to" : "from", best);
  }
  gpu.destroy(begin);
  gpu.destroy(end);
  gpu.free(device);
  gpu.free_pinned(pinned);
  return {};
}

bool chosen(const CaseGroup& group, std::string_view only) {
  return std::string_view(group.name).find(only) != std::string_view::npos;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Which of a group's cases are run.
struct Shard {
  unsigned index = 0;
  unsigned count = 1;

  static std::optional<Shard> parse(const char* text) {
    Shard shard;
    if (std::sscanf(text, "%u/%u", &shard.index, &shard.count) != 2 || shard.index >= shard.count) return {};
    return shard;
  }
};

/// Runs a group's cases; one line tells how many failed.
Result<bool> check_group(const kernels::Target& target, const CaseGroup& group, const Shard& shard) {
  const auto begin = std::chrono::steady_clock::now();
  MET_ASSIGN(const auto gpu, cuda::CudaBackend::open(target, {.redzones = true, .check_bounds = true}));
  MET_ASSIGN(const std::vector<OpCase> cases, group.make(*gpu, false));
  std::size_t failed = 0;
  std::size_t run = 0;
  for (std::size_t i = shard.index; i < cases.size(); i += shard.count, ++run) {
    MET_ASSIGN(const bool good, run_case(*gpu, cases[i]));
    failed += good ? 0 : 1;
  }
  std::printf("%-18s %4zu cases, each eager and replayed twice, with guard bands: %zu failed, %.1f s\n",
              group.name, run, failed, seconds_since(begin));
  for (const SiteUse& use : gpu->allocations()) {
    if (use.live_count == 0) continue;
    std::printf("FAILED: %zu allocations of '%s' are left\n", use.live_count, use.site.c_str());
    ++failed;
  }
  std::fflush(stdout);
  return failed == 0;
}

/// A group that cannot be made or run is told, and the others go on.
bool correctness(const kernels::Target& target, std::string_view only, const Shard& shard) {
  bool good = true;
  for (const CaseGroup& group : kGroups) {
    if (!chosen(group, only)) continue;
    const Result<bool> result = check_group(target, group, shard);
    if (!result) std::printf("FAILED: %s: %s\n", group.name, result.error().message.c_str());
    good = good && result && *result;
  }
  return good;
}

Result<> speed(const kernels::Target& target, std::string_view only) {
  MET_ASSIGN(const auto gpu, cuda::CudaBackend::open(target));
  if (only.empty()) MET_TRY(print_transfers(*gpu));
  MET_ASSIGN(const double bandwidth, read_bandwidth(*gpu));
  std::printf("%-20s %-24s %9s  (least to most) %12s %13s  share of read bandwidth\n", "operation", "shape",
              "median", "bytes", "rate");
  for (const CaseGroup& group : kGroups) {
    if (!chosen(group, only)) continue;
    MET_ASSIGN(const std::vector<OpCase> cases, group.make(*gpu, true));
    for (const OpCase& op : cases) MET_TRY(time_case(*gpu, op, bandwidth));
    std::fflush(stdout);
  }
  return {};
}

Result<bool> run(bool tested, bool timed, std::string_view only, const Shard& shard) {
  MET_ASSIGN(const auto probe, cuda::probe(0));
  const std::string_view hardware = kernels::hardware_for_capability(probe.major, probe.minor);
  const kernels::Target* target = target_for(hardware);
  if (target == nullptr)
    return fail(ErrorCode::kUnsupported, "no kernels for compute capability " + std::to_string(probe.major) +
                                             "." + std::to_string(probe.minor) + " in this binary");
  {
    MET_ASSIGN(const auto gpu, cuda::CudaBackend::open(*target));
    const DeviceInfo& info = gpu->info();
    const MemoryInfo memory = gpu->memory();
    std::printf("device: %s, %s (%s), %d multiprocessors, %zu MiB L2, %zu of %zu MiB free; driver %d\n",
                info.name.c_str(), info.arch.c_str(), info.hardware.c_str(), info.multiprocessors,
                info.l2_bytes >> 20, memory.free >> 20, memory.total >> 20, (*cuda::open_driver())->version);
    std::printf("target: %.*s/%.*s, closure %.*s\n", static_cast<int>(target->model.size()),
                target->model.data(), static_cast<int>(target->quant.size()), target->quant.data(),
                static_cast<int>(target->closure_hash.size()), target->closure_hash.data());
  }
  const bool good = !tested || correctness(*target, only, shard);
  if (timed) MET_TRY(speed(*target, only));
  return good;
}

}  // namespace
}  // namespace met::gpu::check

int main(int argc, char** argv) {
  using namespace met;
  bool tested = true;
  bool timed = true;
  std::string_view only;
  gpu::check::Shard shard;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--no-timing") == 0)
      timed = false;
    else if (std::strcmp(argv[i], "--timing-only") == 0)
      tested = false;
    else if (std::strcmp(argv[i], "--shard") == 0) {
      const auto wanted = gpu::check::Shard::parse(i + 1 < argc ? argv[++i] : "");
      if (!wanted) {
        std::printf("--shard wants I/N with I below N\n");
        return 1;
      }
      shard = *wanted;
    } else {
      only = argv[i];
    }
  }
  if (const auto driver = gpu::cuda::open_driver(); !driver) {
    std::printf("skipped: %s\n", driver.error().message.c_str());
    return driver.error().message.starts_with("no CUDA driver") ? 0 : 1;
  }
  const auto result = gpu::check::run(tested, timed, only, shard);
  if (!result)
    std::printf("FAILED: %s: %s\n", std::string(name(result.error().code)).c_str(),
                result.error().message.c_str());
  const bool good = result && *result;
  std::printf("%s\n", good ? "passed" : "failed");
  return good ? 0 : 1;
}
