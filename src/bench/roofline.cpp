#include "bench/roofline.h"

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/device_memory.h"

namespace met::bench {

namespace {

constexpr std::size_t kBytes = std::size_t{512} << 20U;
constexpr int kPasses = 7;

using Vector = std::uint64_t __attribute__((vector_size(16), aligned(8), may_alias));

// Sums with names stay in registers at any optimisation; as an array in memory they were the limit, not the reading.
std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  Vector a = {}, b = {}, c = {}, d = {};
  for (std::size_t i = 0; i + 4 * sizeof a <= bytes; i += 4 * sizeof a) {
    const auto* v = reinterpret_cast<const Vector*>(data + i);
    a ^= v[0];
    b ^= v[1];
    c ^= v[2];
    d ^= v[3];
  }
  a ^= b ^ c ^ d;
  return a[0] ^ a[1];
}

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

/// Memory in huge pages where the system has them, as the weights lie (src/gpu/cpu/heap.cpp).
std::unique_ptr<std::byte[], Free> huge_buffer(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20U;
  std::unique_ptr<std::byte[], Free> buffer(static_cast<std::byte*>(std::aligned_alloc(kHugePage, bytes)));
#if defined(MADV_HUGEPAGE)
  madvise(buffer.get(), bytes, MADV_HUGEPAGE);
#endif
  return buffer;
}

}  // namespace

Result<double> measure_read_bandwidth(gpu::GpuBackend& device) {
  const int units = device.info().multiprocessors;
  if (device.info().unified_memory) return measure_read_bandwidth(units);
  constexpr std::size_t kDeviceBytes = std::size_t{4} << 30U;
  const gpu::Stream stream = device.default_stream();
  MET_ASSIGN(const gpu::KernelHandle kernel, device.kernel("bandwidth", "read_bandwidth"));
  MET_ASSIGN(const gpu::DeviceMemory data, gpu::DeviceMemory::allocate(device, kDeviceBytes, "bandwidth"));
  MET_ASSIGN(const gpu::DeviceMemory sink,
             gpu::DeviceMemory::allocate(device, sizeof(std::uint32_t), "bandwidth"));
  MET_ASSIGN(const gpu::Event begin, device.create_event(/*timing=*/true));
  MET_ASSIGN(const gpu::Event end, device.create_event(/*timing=*/true));
  MET_TRY(device.fill_async(data.data(), 0x5b, kDeviceBytes, stream));
  std::vector<double> times;
  for (int pass = 0; pass < 4 * kPasses; ++pass) {
    const auto blocks = static_cast<std::uint32_t>((2 << pass % 3) * units);
    gpu::KernelLaunch launch(kernel, {blocks}, {512});
    launch.buffer(data.data()).scalar(static_cast<std::int64_t>(kDeviceBytes / 16)).buffer(sink.data());
    MET_TRY(device.record(begin, stream));
    MET_TRY(device.launch(launch, stream));
    MET_TRY(device.record(end, stream));
    MET_TRY(device.synchronize(stream));
    MET_ASSIGN(const double ms, device.elapsed_ms(begin, end));
    times.push_back(ms);
  }
  device.destroy(begin);
  device.destroy(end);
  return static_cast<double>(kDeviceBytes) / *std::ranges::min_element(times) * 1e3;
}

double measure_read_bandwidth(int threads) {
  const auto buffer = huge_buffer(kBytes);
  const std::size_t share = kBytes / static_cast<std::size_t>(threads) / 4096 * 4096;
  using Clock = std::chrono::steady_clock;
  std::barrier start(threads);
  std::vector<std::vector<double>> begin(static_cast<std::size_t>(threads)),
      end(static_cast<std::size_t>(threads));
  std::vector<std::uint64_t> sink(static_cast<std::size_t>(threads));
  const auto work = [&](int t) {
    const auto i = static_cast<std::size_t>(t);
    std::byte* own = buffer.get() + i * share;
    std::memset(own, t + 1, share);  // pages are made by the thread that reads them
    for (int pass = 0; pass < kPasses; ++pass) {
      start.arrive_and_wait();
      begin[i].push_back(std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
      sink[i] ^= read_all(own, share);
      end[i].push_back(std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
  }
  double best = 0;
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    double first = begin[0][pass];
    double last = end[0][pass];
    for (std::size_t t = 1; t < sink.size(); ++t) {
      first = std::min(first, begin[t][pass]);
      last = std::max(last, end[t][pass]);
    }
    best = std::max(best, static_cast<double>(share) * threads / (last - first));
  }
  volatile std::uint64_t keep = sink[0];
  static_cast<void>(keep);
  return best;
}

}  // namespace met::bench
