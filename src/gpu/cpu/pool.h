// Fork-join over a fixed team of threads. Member 0 is the thread that calls run(); the others are pinned
// workers that spin briefly between regions and then sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "gpu/cpu/topology.h"
#include "met/cpu_kernel.h"

namespace met::gpu::cpu {

struct PoolOptions {
  int threads = 0;  ///< 0: Topology::default_threads()
  bool pin = true;
  std::size_t scratch_bytes = std::size_t{1} << 20;  ///< of each thread, rounded up to 64
  int barrier_spin_us = 50;                          ///< longest spin before a thread sleeps in a barrier
  int idle_spin_us = 200;                            ///< … before a worker sleeps between regions
};

/// One entry of a region.
struct Task {
  MetCpuKernel run;
  const void* args;
};

class ThreadPool {
 public:
  ThreadPool(const PoolOptions& options, const Topology& topology);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(members_.size()); }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  /// Runs the tasks in order, each on all threads, with a barrier behind each. Returns when the last is done.
  /// One region at a time, and none from within a task: anything else is a defect.
  void run(std::span<const Task> tasks);

  /// Pins the calling thread to member 0's CPU, if threads are pinned.
  void pin_caller() const;

 private:
  /// How long a thread spins: halved when a spin ends in sleep, doubled when it is met in time. Every 32nd
  /// wait tries the longest spin again, so that a pool recovers when the machine's load goes away.
  struct Patience {
    std::uint32_t most = 0;
    std::uint32_t now = 0;
    std::uint32_t waits = 0;
    std::uint32_t limit() { return (++waits & 31U) == 0 ? most : now; }
    void met(std::uint32_t turns) { now = std::min(most, 2 * std::max(now, turns)); }
    void missed();
  };
  struct alignas(64) Member {
    MetCpuContext context;
    ThreadPool* pool = nullptr;
    std::atomic<std::int64_t>* next = nullptr;  ///< the running task's counter
    std::uint32_t target = 0;                   ///< barrier count at which this member's last barrier opens
    std::uint32_t epoch = 0;                    ///< regions that this member has run
    std::uint32_t tasks = 0;                    ///< tasks that it has run, to alternate the counters
    Patience barrier;
    Patience idle;
    int cpu = -1;
    std::thread thread;
  };
  struct alignas(64) Line {
    std::atomic<std::uint32_t> word{0};
    std::atomic<std::uint32_t> sleepers{0};
  };
  struct alignas(64) Counter {
    std::atomic<std::int64_t> value{0};
  };

  static void barrier(const MetCpuContext* context);
  static std::int64_t next(const MetCpuContext* context, std::int64_t count);
  static bool reached(std::uint32_t word, std::uint32_t target) {
    return static_cast<std::int32_t>(word - target) >= 0;
  }
  static void wait_for(Line& line, std::uint32_t target, Patience& patience);

  void arrive(Member& member);
  void run_region(Member& member);
  void work(Member& member);

  std::vector<std::unique_ptr<Member>> members_;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
  bool pinned_ = false;
  std::span<const Task> tasks_;  // published by epoch_
  std::atomic<bool> stop_{false};
  std::atomic<bool> busy_{false};
  Line arrived_;  // counts barrier arrivals of all members, for ever
  Line epoch_;    // counts regions
  Counter counters_[2];
};

}  // namespace met::gpu::cpu
