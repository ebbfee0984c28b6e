// What the mock records for the tests of others.
#include "gpu/mock/mock_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace met::gpu::mock {
namespace {

using testing::HasSubstr;

TEST(MockBackend, SaysWhatItPretendsToBe) {
  MockBackend gpu;
  EXPECT_EQ(gpu.info().multiprocessors, 48);
  EXPECT_EQ(gpu.memory().total, std::size_t{128} << 30);
  EXPECT_EQ(gpu.memory().free, std::size_t{120} << 30);
  const DevicePtr p = gpu.allocate(1000, "a").value();
  EXPECT_EQ(p.value, 0x10000000U);
  EXPECT_EQ(gpu.memory().free, (std::size_t{120} << 30) - 1000);
  const DevicePtr q = gpu.allocate(1, "b").value();
  EXPECT_EQ(q.value % 256, 0U);
  EXPECT_GT(q.value, p.value + 1000);
  gpu.free(p);
  gpu.free(q);
}

TEST(MockBackend, RecordsLaunchesWithTheirArguments) {
  MockBackend gpu;
  const KernelHandle kernel = gpu.kernel("linear", "linear_bf16").value();
  EXPECT_EQ(gpu.kernel("linear", "linear_bf16").value().index, kernel.index);
  const DevicePtr p = gpu.allocate(64, "x").value();
  KernelLaunch launch(kernel, {3, 2}, {128}, 4096);
  launch.buffer(p + 16).scalar(std::int32_t{7}).scalar(0.5F);
  ASSERT_TRUE(gpu.launch(launch, gpu.default_stream()).has_value());
  ASSERT_EQ(gpu.launches().size(), 1U);
  const LaunchRecord& record = gpu.launches()[0];
  EXPECT_EQ(record.function, "linear_bf16");
  EXPECT_EQ(record.grid.y, 2U);
  EXPECT_EQ(record.shared_bytes, 4096U);
  ASSERT_EQ(record.arguments.size(), 3U);
  EXPECT_TRUE(record.arguments[0].is_buffer);
  std::uint64_t address = 0;
  std::memcpy(&address, record.arguments[0].bytes.data(), sizeof address);
  EXPECT_EQ(address, p.value + 16);
  EXPECT_FALSE(record.arguments[1].is_buffer);
  EXPECT_EQ(record.arguments[1].bytes.size(), 4U);
  gpu.free(p);
}

TEST(MockBackend, DeniesKernelsAndModulesAndRemembersLookups) {
  MockBackend gpu;
  gpu.deny_kernel("attention", "fa3");
  gpu.deny_module("moe");
  EXPECT_THAT(gpu.kernel("attention", "fa3").error().message, HasSubstr("attention.fa3"));
  EXPECT_TRUE(gpu.kernel("attention", "paged").has_value());
  EXPECT_FALSE(gpu.kernel("moe", "any").has_value());
  ASSERT_EQ(gpu.lookups().size(), 3U);
  EXPECT_FALSE(gpu.lookups()[0].found);
  EXPECT_TRUE(gpu.lookups()[1].found);
  EXPECT_EQ(gpu.lookups()[2].module, "moe");
}

TEST(MockBackend, CountsPerStream) {
  MockBackend gpu;
  const Stream other = gpu.create_stream().value();
  const DevicePtr p = gpu.allocate(64, "x").value();
  char host[64] = {};
  ASSERT_TRUE(gpu.copy_to_device(p, host, 64).has_value());
  ASSERT_TRUE(gpu.copy_to_host_async(host, p, 64, other).has_value());
  ASSERT_TRUE(gpu.synchronize(other).has_value());
  EXPECT_EQ(gpu.counts(gpu.default_stream()).blocking_to_device, 1U);
  EXPECT_EQ(gpu.counts(gpu.default_stream()).synchronizes, 0U);
  EXPECT_EQ(gpu.counts(other).to_host, 1U);
  EXPECT_EQ(gpu.counts(other).synchronizes, 1U);
  gpu.free(p);
}

TEST(MockBackend, AddressesOutsideAnyAllocationAreRefused) {
  MockBackend gpu;
  const DevicePtr p = gpu.allocate(64, "x").value();
  char host[64] = {};
  EXPECT_FALSE(gpu.copy_to_device({0x10}, host, 1).has_value());
  EXPECT_FALSE(gpu.copy_to_device(p + 64, host, 1).has_value());
  gpu.free(p);
  EXPECT_FALSE(gpu.copy_to_device(p, host, 1).has_value()) << "freed";
}

}  // namespace
}  // namespace met::gpu::mock
