// Blocks between device and host pool, and from there to a file: real bytes on the mock, rules M6, S17, S25.
#include "engine/swap_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <random>

#include "engine/disk_spill.h"
#include "gpu/device_memory.h"
#include "gpu/mock/mock_backend.h"

namespace met::engine {
namespace {

constexpr std::size_t kBlocks = 6;

class SwapPoolTest : public ::testing::Test {
 protected:
  /// Two layers of different width, K and V each.
  void SetUp() override {
    for (const std::size_t bytes :
         {std::size_t{640}, std::size_t{640}, std::size_t{2048}, std::size_t{2048}}) {
      auto memory = gpu::DeviceMemory::allocate(gpu_, bytes * kBlocks, "kv pool");
      ASSERT_TRUE(memory);
      parts_.push_back({memory->data(), bytes});
      memory_.push_back(std::move(*memory));
    }
    fill(1);
    auto pool = SwapPool::make(gpu_, parts_, /*slots=*/4);
    ASSERT_TRUE(pool);
    pool_.emplace(std::move(*pool));
  }
  /// Every block of every part gets bytes of its own.
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::vector<std::uint8_t> bytes(parts_[i].block_bytes * kBlocks);
      for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
      ASSERT_TRUE(gpu_.copy_to_device(parts_[i].base, bytes.data(), bytes.size()));
    }
  }
  std::vector<std::uint8_t> block(std::size_t index) {
    std::vector<std::uint8_t> all;
    for (const SwapPool::Part& part : parts_) {
      std::vector<std::uint8_t> bytes(part.block_bytes);
      EXPECT_TRUE(gpu_.copy_to_host(bytes.data(), part.base + part.block_bytes * index, bytes.size()));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  gpu::mock::MockBackend gpu_;
  std::vector<gpu::DeviceMemory> memory_;
  std::vector<SwapPool::Part> parts_;
  std::optional<SwapPool> pool_;
};

TEST_F(SwapPoolTest, ABlockComesBackIntoAnotherOneWithAllItsLayers) {  // S17
  const gpu::Stream stream = gpu_.default_stream();
  const std::vector<std::uint8_t> two = block(2);
  const std::vector<std::uint8_t> five = block(5);
  const scheduler::SwapCopy out[] = {{.block = 2, .slot = 3}, {.block = 5, .slot = 0}};
  ASSERT_TRUE(pool_->copy_out(out, stream));
  fill(2);
  const std::vector<std::uint8_t> three = block(3);
  const scheduler::SwapCopy in[] = {{.block = 1, .slot = 3}, {.block = 4, .slot = 0}};
  ASSERT_TRUE(pool_->copy_in(in, stream));
  ASSERT_TRUE(gpu_.synchronize(stream));
  EXPECT_EQ(block(1), two);
  EXPECT_EQ(block(4), five);
  EXPECT_EQ(block(3), three) << "others are untouched";
}

TEST_F(SwapPoolTest, SlotsAreAlignedForTheDiskAndTheirCostIsKnown) {
  EXPECT_EQ(pool_->slot_bytes(), 8192U) << "5,376 bytes of a block, in whole pages";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool_->memory().data()) % SwapPool::kAlignment, 0U);
  EXPECT_EQ(pool_->memory().size(), 4 * 8192U);
  const std::vector<std::uint8_t> before = block(1);
  const auto ns = pool_->measure(gpu_.default_stream());
  ASSERT_TRUE(ns);
  EXPECT_GT(*ns, 0);
  EXPECT_EQ(block(1), before);
}

TEST_F(SwapPoolTest, MemoryThatIsNotThereIsRefusedByItsFlag) {  // M6
  gpu::mock::MockBackend small({.total = 1 << 20, .free = 1 << 20});
  const auto pool = SwapPool::make(small, parts_, 1 << 30);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().field, "--swap-space-gb");
}

TEST_F(SwapPoolTest, MovesGoToTheFileAndBackAndWakeTheirOwner) {  // S25
  auto file = storage::BlockFile::create(std::filesystem::temp_directory_path(), pool_->slot_bytes(), 8);
  ASSERT_TRUE(file) << file.error().message;
  DiskSpill spill(std::move(*file), pool_->memory(), pool_->slot_bytes());
  std::mutex mutex;
  std::condition_variable woken;
  int wakes = 0;
  spill.on_done([&] {
    const std::lock_guard lock(mutex);
    ++wakes;
    woken.notify_one();
  });
  const auto move = [&](bool store, std::vector<scheduler::SwapSlot> host,
                        std::vector<scheduler::SwapSlot> disk) {
    const int before = wakes;
    spill.start({.store = store, .host = host, .disk = disk});
    std::unique_lock lock(mutex);
    EXPECT_TRUE(woken.wait_for(lock, std::chrono::seconds(20), [&] { return wakes > before; }));
    lock.unlock();
    scheduler::Spill::Done done;
    EXPECT_TRUE(spill.poll(done));
    EXPECT_TRUE(done.result) << done.result.error().message;
    EXPECT_FALSE(spill.poll(done)) << "told once";
  };
  const gpu::Stream stream = gpu_.default_stream();
  const std::vector<std::uint8_t> two = block(2);
  const std::vector<std::uint8_t> five = block(5);
  const scheduler::SwapCopy out[] = {{.block = 2, .slot = 1}, {.block = 5, .slot = 2}};
  ASSERT_TRUE(pool_->copy_out(out, stream));
  move(true, {1, 2}, {7, 0});
  std::ranges::fill(pool_->memory(), std::byte{0});
  move(false, {0, 3}, {0, 7});
  const scheduler::SwapCopy in[] = {{.block = 1, .slot = 0}, {.block = 4, .slot = 3}};
  ASSERT_TRUE(pool_->copy_in(in, stream));
  EXPECT_EQ(block(1), five);
  EXPECT_EQ(block(4), two);
  spill.on_done({});
}

}  // namespace
}  // namespace met::engine
