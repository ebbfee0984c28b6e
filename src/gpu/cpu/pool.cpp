#include "gpu/cpu/pool.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "core/error.h"
#include "gpu/cpu/futex.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace met::gpu::cpu {
namespace {

constexpr std::size_t kLine = 64;
constexpr int kLeastSpinUs = 2;

void pin_this_thread([[maybe_unused]] int cpu) {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // A refusal (the mask shrank since) leaves the thread unpinned, which is only slower.
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
#endif
}

void name_this_thread([[maybe_unused]] int index) {
#if defined(__linux__)
  pthread_setname_np(pthread_self(), ("met-cpu-" + std::to_string(index)).c_str());
#endif
}

/// Spin turns in a microsecond on this machine: the pause instruction takes 5 to 150 cycles by model.
std::uint32_t turns_per_us() {
  static const std::uint32_t turns = [] {
    constexpr int kTurns = 2000;
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kTurns; ++i) cpu_relax();
      best = std::min(
          best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    return static_cast<std::uint32_t>(std::clamp(kTurns / std::max(best, 1e-3), 1.0, 1000.0));
  }();
  return turns;
}

}  // namespace

void ThreadPool::Patience::missed() {
  now = std::max(now / 2, std::min(most, kLeastSpinUs * turns_per_us()));
}

ThreadPool::ThreadPool(const PoolOptions& options, const Topology& topology) {
  const int threads = std::max(1, options.threads > 0 ? options.threads : topology.default_threads());
  const int cpus = static_cast<int>(topology.cpus.size());
  const bool crowded = threads > cpus;
  pinned_ = options.pin && threads > 1 && !crowded;
  scratch_bytes_ = (options.scratch_bytes + kLine - 1) / kLine * kLine;
  scratch_ = std::make_unique_for_overwrite<std::byte[]>(scratch_bytes_ * threads + kLine);
  const auto base = (reinterpret_cast<std::uintptr_t>(scratch_.get()) + kLine - 1) / kLine * kLine;
  for (int i = 0; i < threads; ++i) {
    auto member = std::make_unique<Member>();
    member->pool = this;
    member->cpu = pinned_ ? topology.cpus[i] : -1;
    member->barrier.most = member->barrier.now = crowded ? 0 : options.barrier_spin_us * turns_per_us();
    member->idle.most = member->idle.now = crowded ? 0 : options.idle_spin_us * turns_per_us();
    member->context = {.thread = i,
                       .threads = threads,
                       .scratch = reinterpret_cast<void*>(base + scratch_bytes_ * i),
                       .scratch_bytes = scratch_bytes_,
                       .barrier = &ThreadPool::barrier,
                       .next = &ThreadPool::next,
                       .pool = member.get()};
    members_.push_back(std::move(member));
  }
  for (int i = 1; i < threads; ++i) members_[i]->thread = std::thread([this, i] { work(*members_[i]); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.word.fetch_add(1);
  futex_wake_all(epoch_.word);
  for (const auto& member : members_)
    if (member->thread.joinable()) member->thread.join();
}

void ThreadPool::pin_caller() const {
  if (pinned_) pin_this_thread(members_[0]->cpu);
}

void ThreadPool::run(std::span<const Task> tasks) {
  MET_CHECK(!busy_.exchange(true, std::memory_order_acquire), "a region runs already");
  if (!tasks.empty()) {
    tasks_ = tasks;
    if (members_.size() > 1) {
      epoch_.word.fetch_add(1);
      if (epoch_.sleepers.load() > 0) futex_wake_all(epoch_.word);
    }
    run_region(*members_[0]);
  }
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::run_region(Member& member) {
  const bool leader = member.context.thread == 0;
  const std::span<const Task> tasks = tasks_;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    member.next = &counters_[member.tasks & 1].value;
    // The other counter served the task before this one, which the last barrier ended for everybody; the task
    // after this one needs it at zero and starts behind a barrier that comes after this store.
    if (leader) counters_[~member.tasks & 1].value.store(0, std::memory_order_relaxed);
    ++member.tasks;
    tasks[i].run(tasks[i].args, &member.context);
    if (!leader && i + 1 == tasks.size())
      arrive(member);
    else
      barrier(&member.context);
  }
}

void ThreadPool::work(Member& member) {
  name_this_thread(member.context.thread);
  if (member.cpu >= 0) pin_this_thread(member.cpu);
  for (;;) {
    wait_for(epoch_, ++member.epoch, member.idle);
    if (stop_.load(std::memory_order_acquire)) return;
    run_region(member);
  }
}

void ThreadPool::wait_for(Line& line, std::uint32_t target, Patience& patience) {
  const std::uint32_t limit = patience.limit();
  for (std::uint32_t turn = 0;; ++turn) {
    if (reached(line.word.load(std::memory_order_acquire), target)) {
      patience.met(turn);
      return;
    }
    if (turn >= limit) break;
    cpu_relax();
  }
  patience.missed();
  line.sleepers.fetch_add(1);
  for (std::uint32_t seen = line.word.load(); !reached(seen, target); seen = line.word.load())
    futex_wait(line.word, seen);
  line.sleepers.fetch_sub(1);
}

void ThreadPool::arrive(Member& member) {
  member.target += static_cast<std::uint32_t>(members_.size());
  const std::uint32_t count = arrived_.word.fetch_add(1) + 1;
  if (reached(count, member.target) && arrived_.sleepers.load() > 0) futex_wake_all(arrived_.word);
}

void ThreadPool::barrier(const MetCpuContext* context) {
  Member& member = *static_cast<Member*>(context->pool);
  ThreadPool& pool = *member.pool;
  if (context->threads == 1) return;
  pool.arrive(member);
  wait_for(pool.arrived_, member.target, member.barrier);
}

std::int64_t ThreadPool::next(const MetCpuContext* context, std::int64_t count) {
  return static_cast<Member*>(context->pool)->next->fetch_add(count, std::memory_order_relaxed);
}

}  // namespace met::gpu::cpu
