#include "storage/store_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>

#include "tests/storage/temp_directory.h"

namespace met::storage {
namespace {

Key key(int thread, int i) { return {.tenant = static_cast<std::uint64_t>(thread), .id = std::to_string(i)}; }

std::unique_ptr<ObjectStore> store_in(const std::string& directory, const StoreLimits& limits = {}) {
  static const UnixClock clock;
  auto store = ObjectStore::open(directory, limits, clock);
  EXPECT_TRUE(store) << store.error().message;
  return std::move(*store);
}

/// Runs it there and waits; what the thread says of it.
bool wait_for(StoreThread& thread, StoreThread::Work work) {
  std::promise<bool> done;
  thread.post(std::move(work), [&](const Error* error) { done.set_value(error == nullptr); });
  return done.get_future().get();
}

class Threads : public ::testing::TestWithParam<bool> {
 protected:
  TempDirectory directory_;
  std::string home() const { return GetParam() ? directory_.path() : std::string(); }
};
INSTANTIATE_TEST_SUITE_P(, Threads, ::testing::Bool(),
                         [](const auto& home) { return home.param ? "File" : "Memory"; });

TEST_P(Threads, WhatIsDoneIsThere) {
  constexpr int kThreads = 4;
  constexpr int kWrites = 50;
  StoreThread thread(store_in(home()));
  {
    std::vector<std::jthread> writers;
    for (int t = 0; t < kThreads; ++t)
      writers.emplace_back([&thread, t] {
        for (int i = 0; i < kWrites; ++i) {
          EXPECT_TRUE(
              wait_for(thread, [&](ObjectStore& s) { return s.put(key(t, i), {.body = "x"}).has_value(); }));
          bool found = false;
          EXPECT_TRUE(wait_for(thread, [&](ObjectStore& s) { return found = s.get(key(t, i)).has_value(); }));
          EXPECT_TRUE(found);
        }
      });
  }
  std::int64_t entries = 0;
  wait_for(thread, [&](ObjectStore& s) { return (entries = s.entries(0)) > 0; });
  EXPECT_EQ(entries, kThreads * kWrites);
}

TEST_P(Threads, StopEndsWhatWasPosted) {
  StoreThread thread(store_in(home()));
  std::atomic<int> done = 0;
  for (int i = 0; i < 100; ++i)
    thread.post([i](ObjectStore& s) { return s.put(key(1, i), {.body = "x"}).has_value(); },
                [&](const Error* error) { done += error == nullptr ? 1 : 0; });
  thread.stop();
  EXPECT_EQ(done, 100);
  EXPECT_FALSE(wait_for(thread, [](ObjectStore&) { return true; })) << "it has ended";
}

TEST_P(Threads, WhatIsRefusedLeavesItsNeighboursAlone) {
  StoreThread thread(store_in(home(), {.bytes_max = 2000}));
  std::latch gate(1);
  thread.post([&](ObjectStore&) { return gate.wait(), true; }, [](const Error*) {});
  std::atomic<int> kept = 0;
  for (int i = 0; i < 3; ++i)
    thread.post(
        [&, i](ObjectStore& s) {
          const bool fits = s.put(key(1, i), {.body = std::string(i == 1 ? 5000U : 100U, 'x')}).has_value();
          kept += fits ? 1 : 0;
          return fits;
        },
        [](const Error* error) { EXPECT_EQ(error, nullptr); });
  gate.count_down();
  std::vector<Listed> all;
  wait_for(thread, [&](ObjectStore& s) { return all = s.list(0, 1), true; });
  EXPECT_EQ(kept, 2);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].id, "0");
  EXPECT_EQ(all[1].id, "2");
}

}  // namespace
}  // namespace met::storage
