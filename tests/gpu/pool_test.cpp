// The pool's promises: every task on every thread, barriers that order, next() that gives each item once.
#include "gpu/cpu/pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace met::gpu::cpu {
namespace {

PoolOptions with_threads(int threads) { return {.threads = threads, .scratch_bytes = 4096}; }

struct Claim {
  std::int64_t items;
  std::int64_t chunk;
  int* times;  // [items], how often an item was given out; each is touched by its owner alone
};
void claim_task(const void* args, const MetCpuContext* context) {
  const auto& a = *static_cast<const Claim*>(args);
  for (std::int64_t at = met_next(context, a.chunk); at < a.items; at = met_next(context, a.chunk))
    for (std::int64_t i = at; i < std::min(a.items, at + a.chunk); ++i) ++a.times[i];
}

struct Phases {
  int rounds;
  int* written;  // [threads], plain memory: a data race here means a broken barrier
  std::atomic<int>* wrong;
};
void phases_task(const void* args, const MetCpuContext* context) {
  const auto& a = *static_cast<const Phases*>(args);
  for (int round = 1; round <= a.rounds; ++round) {
    a.written[context->thread] += round;
    met_barrier(context);
    for (int t = 1; t < context->threads; ++t)
      if (a.written[t] != a.written[0]) a.wrong->fetch_add(1);
    met_barrier(context);
  }
}

struct Sum {
  std::int64_t* cell;
  std::int64_t factor;
};
/// Only right when the task before is complete and seen: cell = cell * factor + 1 by a rotating owner.
void chain_task(const void* args, const MetCpuContext* context) {
  const auto& a = *static_cast<const Sum*>(args);
  if (context->thread == static_cast<int>(a.factor) % context->threads)
    *a.cell = (*a.cell * 3 + a.factor) % 1000003;
}

class PoolTest : public testing::TestWithParam<int> {
 protected:
  ThreadPool pool{with_threads(GetParam()), read_topology()};
};

TEST_P(PoolTest, NextGivesEachItemOnceInEveryLaunch) {
  for (int round = 0; round < 50; ++round) {
    for (const auto& [items, chunk] : {std::pair{1, 1}, {7, 1}, {1000, 1}, {1000, 7}, {64, 100}}) {
      std::vector<int> times(items);
      const Claim args{items, chunk, times.data()};
      const Task tasks[] = {{claim_task, &args}, {claim_task, &args}, {claim_task, &args}};
      pool.run(tasks);
      ASSERT_EQ(std::count(times.begin(), times.end(), 3), items) << items << " by " << chunk;
    }
  }
}

TEST_P(PoolTest, BarrierOrdersPlainMemory) {
  std::vector<int> written(pool.threads() * 16);
  std::atomic<int> wrong{0};
  const Phases args{300, written.data(), &wrong};
  const Task task{phases_task, &args};
  pool.run({&task, 1});
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(written[pool.threads() - 1], 300 * 301 / 2);
}

TEST_P(PoolTest, TasksOfARegionRunInOrder) {
  constexpr int kTasks = 500;
  std::int64_t cell = 1;
  std::int64_t want = 1;
  std::vector<Sum> args;
  for (int i = 0; i < kTasks; ++i) args.push_back({&cell, i});
  std::vector<Task> tasks;
  for (const Sum& a : args) tasks.push_back({chain_task, &a});
  for (int i = 0; i < kTasks; ++i) want = (want * 3 + i) % 1000003;
  pool.run(tasks);
  EXPECT_EQ(cell, want);
}

TEST_P(PoolTest, ManySmallRegions) {
  std::int64_t cell = 0;
  std::int64_t want = 0;
  for (int i = 0; i < 3000; ++i) {
    const Sum args{&cell, i};
    const Task task{chain_task, &args};
    pool.run({&task, 1});
    want = (want * 3 + i) % 1000003;
  }
  EXPECT_EQ(cell, want);
}

TEST_P(PoolTest, ScratchIsAlignedAndOwn) {
  std::vector<void*> seen(pool.threads());
  const auto note = [](const void* args, const MetCpuContext* context) {
    (*static_cast<std::vector<void*>* const*>(args))->at(context->thread) = context->scratch;
    static_cast<char*>(context->scratch)[context->scratch_bytes - 1] = static_cast<char>(context->thread);
  };
  std::vector<void*>* args = &seen;
  const Task task{note, &args};
  pool.run({&task, 1});
  for (int i = 0; i < pool.threads(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(seen[i]) % 64, 0U);
    EXPECT_EQ(static_cast<char*>(seen[i])[pool.scratch_bytes() - 1], i);
  }
}

// More threads than any machine of the day has CPUs: nobody may burn time slices.
INSTANTIATE_TEST_SUITE_P(Threads, PoolTest, testing::Values(1, 2, 3, 4, 16));

TEST(Pool, OversubscribedFinishesQuickly) {
  const Topology topology = read_topology();
  ThreadPool pool(with_threads(8 * static_cast<int>(topology.cpus.size())), topology);
  const auto nothing = [](const void*, const MetCpuContext*) {};
  const std::vector<Task> tasks(500, Task{nothing, nullptr});
  const auto begin = std::chrono::steady_clock::now();
  pool.run(tasks);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 10.0) << "500 barriers of " << pool.threads() << " threads";
}

TEST(Pool, SleepersAreWokenWhenEverySpinFails) {
  PoolOptions options = with_threads(2);
  options.barrier_spin_us = options.idle_spin_us = 0;
  ThreadPool pool(options, read_topology());
  std::vector<int> written(32);
  std::atomic<int> wrong{0};
  const Phases args{300, written.data(), &wrong};
  const Task task{phases_task, &args};
  for (int i = 0; i < 5; ++i) pool.run({&task, 1});
  EXPECT_EQ(wrong, 0);
}

TEST(PoolDeathTest, RegionWithinARegionIsADefect) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto nested = [] {
    ThreadPool pool(with_threads(1), read_topology());
    ThreadPool* args = &pool;
    const Task task{[](const void* a, const MetCpuContext*) {
                      const Task inner{[](const void*, const MetCpuContext*) {}, nullptr};
                      (*static_cast<ThreadPool* const*>(a))->run({&inner, 1});
                    },
                    &args};
    pool.run({&task, 1});
  };
  EXPECT_DEATH(nested(), "a region runs already");
}

}  // namespace
}  // namespace met::gpu::cpu
