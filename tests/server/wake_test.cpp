#include "server/wake.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace met::server {
namespace {

using std::chrono::milliseconds;

/// Runs one coroutine to its end on a loop of its own; `work` gets the loop's wake.
template <class Work>
void on_loop(Work work) {
  asio::io_context loop(1);
  Wake wake(loop.get_executor());
  asio::co_spawn(loop, work(wake), [&loop](const std::exception_ptr&) { loop.stop(); });
  loop.run_for(std::chrono::seconds(20));
}

TEST(Wake, NotificationsBetweenTwoWaitsAreOne) {
  std::vector<bool> told;
  on_loop([&](Wake& wake) -> awaitable<void> {
    for (int i = 0; i < 3; ++i) wake.notify();
    for (int i = 0; i < 2; ++i) {
      const bool notified = co_await wake.wait(Clock::now() + milliseconds(20));
      told.push_back(notified);
    }
  });
  EXPECT_EQ(told, (std::vector{true, false}));
}

TEST(Wake, ADeadlineIsNeitherEarlyNorForgottenAfterOtherDeadlines) {
  struct Case {
    milliseconds first, second;
  };
  for (const auto& [first, second] :
       {Case{milliseconds(10), milliseconds(60)}, {milliseconds(60), milliseconds(10)}}) {
    std::optional<bool> told;
    std::optional<Clock::duration> took;
    on_loop([&](Wake& wake) -> awaitable<void> {
      wake.notify();
      co_await wake.wait(Clock::now() + first);  // told: its timer is left
      const Clock::time_point begin = Clock::now();
      const bool notified = co_await wake.wait(begin + second);
      told = notified;
      took = Clock::now() - begin;
    });
    EXPECT_EQ(told, false);
    ASSERT_TRUE(took);
    EXPECT_GE(*took, second);
    EXPECT_LT(*took, second + std::chrono::seconds(5));
  }
}

TEST(Wake, NothingIsLostBetweenThreadsAndTheLoop) {
  constexpr int kThreads = 3;
  constexpr int kEach = 3000;
  std::atomic<int> written = 0;
  int read = 0;
  std::vector<std::jthread> threads;
  on_loop([&](Wake& wake) -> awaitable<void> {
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&written, tell = wake.notifier()] {
        for (int n = 0; n < kEach; ++n) {
          ++written;
          tell();
        }
      });
    while (read < kThreads * kEach) {
      const bool notified = co_await wake.wait(Clock::now() + std::chrono::seconds(10));
      if (!notified) co_return;
      read = written;
    }
  });
  EXPECT_EQ(read, kThreads * kEach);
}

TEST(Wake, ManyOfOneLoopAreWokenInTheOrderInWhichTheyWereTold) {
  constexpr int kWaiters = 50;
  std::vector<int> woken;
  asio::io_context loop(1);
  std::vector<std::unique_ptr<Wake>> wakes;
  for (int i = 0; i < kWaiters; ++i) {
    wakes.push_back(std::make_unique<Wake>(loop.get_executor()));
    asio::co_spawn(
        loop,
        [](Wake& wake, int number, std::vector<int>& all) -> awaitable<void> {
          const bool notified = co_await wake.wait(Clock::now() + std::chrono::seconds(10));
          if (notified) all.push_back(number);
        }(*wakes.back(), i, woken),
        asio::detached);
  }
  loop.poll();
  EXPECT_TRUE(woken.empty());
  for (int i = kWaiters; i-- > 0;) wakes[static_cast<std::size_t>(i)]->notify();
  loop.poll();
  ASSERT_EQ(woken.size(), kWaiters);
  for (int i = 0; i < kWaiters; ++i) EXPECT_EQ(woken[static_cast<std::size_t>(i)], kWaiters - 1 - i);
}

TEST(Wake, WhatWaitsGoesWithItsLoop) {
  const auto held = std::make_shared<int>();
  std::function<void()> late;
  {
    asio::io_context loop(1);
    asio::co_spawn(
        loop,
        [](asio::io_context& its, std::shared_ptr<int>, std::function<void()>& tell) -> awaitable<void> {
          Wake wake(its.get_executor());
          tell = wake.notifier();
          co_await wake.wait(Clock::now() + std::chrono::hours(1));
        }(loop, held, late),
        asio::detached);
    loop.poll();
    EXPECT_EQ(held.use_count(), 2);
    late();  // told of, never woken
    late = nullptr;
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace met::server
