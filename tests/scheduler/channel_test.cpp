// The event channel between a thread that writes and one that starts to listen at any moment. Also run under
// ThreadSanitizer. Rules R2, R3.
#include "scheduler/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace met::scheduler::testing {
namespace {

Channel small() { return {1, 8, 8, false}; }

TEST(Channel, TellsAListenerOfWhatWasThere) {
  Channel channel = small();
  channel.accepted();
  int wakes = 0;
  channel.on_ready([&] { ++wakes; });
  EXPECT_EQ(wakes, 1);
  channel.token(0, 5, nullptr);
  EXPECT_EQ(wakes, 1);  // not empty before it
  while (channel.poll()) {
  }
  channel.token(0, 6, nullptr);
  EXPECT_EQ(wakes, 2);
}

TEST(Channel, ARemovedListenerHearsNothing) {
  Channel channel = small();
  int wakes = 0;
  channel.on_ready([&] { ++wakes; });
  channel.on_ready({});
  channel.accepted();
  EXPECT_EQ(wakes, 0);
}

// Whichever comes first, the event or the listener: no event that is not read stays untold.
TEST(Channel, NoWakeIsLostBetweenAListenerAndAnEvent) {
  constexpr int kRounds = 100'000;
  std::atomic<Channel*> handed{nullptr};  // the writer takes it, both go on together
  std::thread writer([&] {
    for (int round = 0; round < kRounds; ++round) {
      Channel* channel = nullptr;
      while ((channel = handed.load(std::memory_order_acquire)) == nullptr) std::this_thread::yield();
      channel->accepted();
      handed.store(nullptr, std::memory_order_release);
    }
  });
  int lost = 0;
  for (int round = 0; round < kRounds; ++round) {
    Channel channel = small();
    std::atomic<int> wakes{0};
    handed.store(&channel, std::memory_order_release);
    for (int spin = round % 256; spin > 0; --spin) (void)handed.load(std::memory_order_acquire);
    channel.on_ready([&] { wakes.fetch_add(1, std::memory_order_relaxed); });
    while (handed.load(std::memory_order_acquire) != nullptr) std::this_thread::yield();
    lost += wakes.load() == 0 ? 1 : 0;
  }
  writer.join();
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace met::scheduler::testing
