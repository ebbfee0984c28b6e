// A small pool that runs CPU kernels as the backend does: all threads enter at once, spinning barrier, shared
// counter.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "met/cpu_kernel.h"

namespace met::test {

class Pool {
 public:
  explicit Pool(int threads, std::size_t scratch_bytes = 256 * 1024);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(scratch_.size()); }
  void run(MetCpuKernel kernel, const void* args);

 private:
  static void barrier(const MetCpuContext* context);
  static std::int64_t next(const MetCpuContext* context, std::int64_t count);
  void enter(int thread);
  void serve(int thread);

  std::vector<std::unique_ptr<std::byte[]>> scratch_;
  std::size_t scratch_bytes_;
  std::vector<std::thread> workers_;
  MetCpuKernel kernel_ = nullptr;
  const void* args_ = nullptr;
  std::atomic<std::uint64_t> launch_{0};
  std::atomic<int> running_{0};
  std::atomic<std::int64_t> counter_{0};
  std::atomic<int> waiting_{0};
  std::atomic<std::uint64_t> phase_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace met::test
