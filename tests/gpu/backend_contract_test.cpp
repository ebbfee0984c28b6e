// What every backend promises (docs/gpu.md), the same cases for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/gpu/contract.h"

namespace met::gpu {
namespace {

using test::Subject;
using testing::Each;
using testing::HasSubstr;

#define ASSERT_OK(expression)                                                   \
  do {                                                                          \
    auto ok_ = (expression);                                                    \
    ASSERT_TRUE(ok_.has_value()) << #expression << ": " << ok_.error().message; \
  } while (false)

class BackendContract : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    std::string why;
    gpu_ = GetParam().open(why);
    ASSERT_TRUE(gpu_) << why;
    stream_ = gpu_->default_stream();
    ASSERT_OK(gpu_->bind_thread());
  }
  void TearDown() override {
    if (!gpu_) return;
    for (const DevicePtr p : owned_) gpu_->free(p);
    EXPECT_TRUE(gpu_->check_redzones().has_value());
    for (const SiteUse& use : gpu_->allocations()) EXPECT_EQ(use.live_count, 0U) << use.site;
  }

  DevicePtr cells(std::size_t count, std::uint32_t first = 0) {
    std::vector<std::uint32_t> host(count);
    std::iota(host.begin(), host.end(), first);
    const auto p = gpu_->allocate(count * 4, "cells");
    EXPECT_TRUE(p.has_value());
    EXPECT_TRUE(gpu_->copy_to_device(*p, host.data(), count * 4).has_value());
    owned_.push_back(*p);
    return *p;
  }
  std::vector<std::uint32_t> read(DevicePtr p, std::size_t count) {
    std::vector<std::uint32_t> host(count, 0xdeadbeef);
    EXPECT_TRUE(gpu_->copy_to_host(host.data(), p, count * 4).has_value());
    return host;
  }
  std::vector<std::uint32_t> counted(std::uint32_t first, std::size_t count) {
    std::vector<std::uint32_t> host(count);
    std::iota(host.begin(), host.end(), first);
    return host;
  }

  std::unique_ptr<GpuBackend> gpu_;
  Stream stream_;
  std::vector<DevicePtr> owned_;
};

TEST_P(BackendContract, InfoAndMemoryArePlausible) {
  EXPECT_FALSE(gpu_->info().name.empty());
  EXPECT_FALSE(gpu_->info().hardware.empty());
  EXPECT_GE(gpu_->info().multiprocessors, 1);
  EXPECT_GT(gpu_->memory().total, 0U);
  EXPECT_LE(gpu_->memory().free, gpu_->memory().total);
}

TEST_P(BackendContract, CopiesReachInteriorAddresses) {
  const DevicePtr a = cells(1000);
  const DevicePtr b = cells(1000, 5000);
  ASSERT_OK(gpu_->copy_async(b + 40, a + 400, 80, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  std::vector<std::uint32_t> want = counted(5000, 1000);
  for (int i = 0; i < 20; ++i) want[10 + i] = 100 + i;
  EXPECT_EQ(read(b, 1000), want);
}

TEST_P(BackendContract, EmptyCopiesDoNothing) {
  const DevicePtr a = cells(4);
  ASSERT_OK(gpu_->copy_to_device(a, nullptr, 0));
  ASSERT_OK(gpu_->copy_to_host(nullptr, a, 0));
  ASSERT_OK(gpu_->copy_async(a, a, 0, stream_));
  ASSERT_OK(gpu_->fill_async(a, 1, 0, stream_));
  ASSERT_OK(gpu_->copy_rows_async(a, 4, a, 4, 4, 0, stream_));
  EXPECT_EQ(read(a, 4), counted(0, 4));
}

TEST_P(BackendContract, RowsAndFills) {
  const DevicePtr a = cells(8 * 16);
  const DevicePtr b = cells(8 * 10, 900);
  ASSERT_OK(gpu_->fill_async(b, 0xff, 8 * 10 * 4, stream_));
  ASSERT_OK(gpu_->copy_rows_async(b + 4, 40, a + 8, 64, 12, 8, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  const auto got = read(b, 8 * 10);
  for (std::uint32_t row = 0; row < 8; ++row)
    for (std::uint32_t column = 0; column < 10; ++column)
      ASSERT_EQ(got[row * 10 + column], column >= 1 && column < 4 ? row * 16 + column + 1 : 0xffffffffU)
          << row << ' ' << column;
}

TEST_P(BackendContract, AsyncCopiesThroughPinnedMemory) {
  auto pinned = gpu_->allocate_pinned(4096);
  ASSERT_OK(pinned);
  ASSERT_NE(pinned->host, nullptr);
  auto* host = static_cast<std::uint32_t*>(pinned->host);
  std::iota(host, host + 1024, 7U);
  const DevicePtr a = cells(1024);
  ASSERT_OK(gpu_->copy_to_device_async(a, host, 4096, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  EXPECT_EQ(read(a, 1024), counted(7, 1024));
  std::fill(host, host + 1024, 0U);
  ASSERT_OK(gpu_->copy_to_host_async(host, a, 4096, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  EXPECT_TRUE(std::equal(host, host + 1024, counted(7, 1024).begin()));
  gpu_->free_pinned(*pinned);
  EXPECT_EQ(pinned->host, nullptr);
}

TEST_P(BackendContract, EventsOrderStreams) {
  const auto other = gpu_->create_stream();
  const auto event = gpu_->create_event(false);
  ASSERT_OK(other);
  ASSERT_OK(event);
  ASSERT_OK(gpu_->wait(*other, *event));  // never recorded: done
  EXPECT_TRUE(gpu_->done(*event).value());
  const DevicePtr a = cells(1 << 16);
  const DevicePtr b = cells(1 << 16, 9);
  ASSERT_OK(gpu_->fill_async(a, 3, 4 << 16, stream_));
  ASSERT_OK(gpu_->record(*event, stream_));
  ASSERT_OK(gpu_->wait(*other, *event));
  ASSERT_OK(gpu_->copy_async(b, a, 4 << 16, *other));
  ASSERT_OK(gpu_->synchronize(*other));
  EXPECT_THAT(read(b, 1 << 16), Each(0x03030303U));
  ASSERT_OK(gpu_->synchronize(*event));
  EXPECT_TRUE(gpu_->done(*event).value());
  gpu_->destroy(*event);
  gpu_->destroy(*other);
}

TEST_P(BackendContract, ElapsedTimeNeedsTimingEvents) {
  const auto begin = gpu_->create_event(true);
  const auto end = gpu_->create_event(true);
  const auto plain = gpu_->create_event(false);
  const DevicePtr a = cells(1 << 20);
  ASSERT_OK(gpu_->record(*begin, stream_));
  for (int i = 0; i < 4; ++i) ASSERT_OK(gpu_->fill_async(a, 1, 4 << 20, stream_));
  ASSERT_OK(gpu_->record(*end, stream_));
  ASSERT_OK(gpu_->record(*plain, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  const auto ms = gpu_->elapsed_ms(*begin, *end);
  ASSERT_OK(ms);
  EXPECT_GE(*ms, 0.0);
  EXPECT_LT(*ms, 10000.0);
  EXPECT_FALSE(gpu_->elapsed_ms(*begin, *plain).has_value());
  for (const Event e : {*begin, *end, *plain}) gpu_->destroy(e);
}

TEST_P(BackendContract, CaptureRecordsAndReplayRuns) {
  const DevicePtr a = cells(100);
  const DevicePtr b = cells(100, 1000);
  ASSERT_OK(gpu_->begin_capture(stream_));
  EXPECT_TRUE(gpu_->capturing(stream_));
  ASSERT_OK(gpu_->copy_async(b, a, 200, stream_));
  ASSERT_OK(gpu_->fill_async(a, 0x11, 40, stream_));
  const auto graph = gpu_->end_capture(stream_);
  ASSERT_OK(graph);
  EXPECT_FALSE(gpu_->capturing(stream_));
  EXPECT_EQ(read(b, 100), counted(1000, 100));  // nothing ran yet
  for (int replay = 0; replay < 2; ++replay) {
    ASSERT_OK(gpu_->launch(*graph, stream_));
    ASSERT_OK(gpu_->synchronize(stream_));
    const auto got = read(b, 100);
    for (std::uint32_t i = 0; i < 50; ++i) ASSERT_EQ(got[i], replay == 1 && i < 10 ? 0x11111111U : i);
    for (std::uint32_t i = 50; i < 100; ++i) ASSERT_EQ(got[i], 1000 + i);
  }
  gpu_->destroy(*graph);
}

TEST_P(BackendContract, KernelsRunEagerlyAndInGraphs) {
  if (!GetParam().runs_kernels) GTEST_SKIP() << "kernels do not run on this backend";
  const auto kernel = gpu_->kernel("probe", "probe_add_one");
  ASSERT_OK(kernel);
  const DevicePtr a = cells(1000);
  KernelLaunch launch(*kernel, {4}, {256});
  launch.buffer(a).scalar(std::int64_t{1000});
  ASSERT_OK(gpu_->launch(launch, stream_));
  ASSERT_OK(gpu_->launch(launch, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  EXPECT_EQ(read(a, 1000), counted(2, 1000));
  ASSERT_OK(gpu_->begin_capture(stream_));
  for (int i = 0; i < 10; ++i) ASSERT_OK(gpu_->launch(launch, stream_));
  const auto graph = gpu_->end_capture(stream_);
  ASSERT_OK(graph);
  for (int replay = 0; replay < 3; ++replay) ASSERT_OK(gpu_->launch(*graph, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  EXPECT_EQ(read(a, 1000), counted(32, 1000));
  gpu_->destroy(*graph);
}

TEST_P(BackendContract, ACaptureSpansStreamsThatWaitAndJoin) {
  const auto other = gpu_->create_stream();
  const auto fork = gpu_->create_event(false);
  const auto join = gpu_->create_event(false);
  const DevicePtr a = cells(64);
  const DevicePtr b = cells(64, 500);
  ASSERT_OK(gpu_->begin_capture(stream_));
  ASSERT_OK(gpu_->fill_async(a, 0x22, 128, stream_));
  ASSERT_OK(gpu_->record(*fork, stream_));
  ASSERT_OK(gpu_->wait(*other, *fork));
  EXPECT_TRUE(gpu_->capturing(*other));
  ASSERT_OK(gpu_->copy_async(b, a, 256, *other));
  ASSERT_OK(gpu_->record(*join, *other));
  ASSERT_OK(gpu_->wait(stream_, *join));
  const auto graph = gpu_->end_capture(stream_);
  ASSERT_OK(graph);
  EXPECT_FALSE(gpu_->capturing(*other));
  EXPECT_EQ(read(b, 64), counted(500, 64));
  ASSERT_OK(gpu_->launch(*graph, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  EXPECT_EQ(read(b, 64)[0], 0x22222222U);
  EXPECT_EQ(read(b, 64)[63], 63U);
  gpu_->destroy(*graph);
  gpu_->destroy(*fork);
  gpu_->destroy(*join);
  gpu_->destroy(*other);
}

TEST_P(BackendContract, AnUnjoinedStreamBreaksTheCapture) {
  const auto other = gpu_->create_stream();
  const auto fork = gpu_->create_event(false);
  const DevicePtr a = cells(64);
  ASSERT_OK(gpu_->begin_capture(stream_));
  ASSERT_OK(gpu_->record(*fork, stream_));
  ASSERT_OK(gpu_->wait(*other, *fork));
  ASSERT_OK(gpu_->fill_async(a, 1, 16, *other));
  EXPECT_FALSE(gpu_->end_capture(stream_).has_value());
  EXPECT_FALSE(gpu_->capturing(stream_));
  EXPECT_FALSE(gpu_->capturing(*other));
  gpu_->destroy(*fork);
  gpu_->destroy(*other);
}

TEST_P(BackendContract, AbortLeavesTheStreamUsable) {
  const DevicePtr a = cells(16);
  ASSERT_OK(gpu_->begin_capture(stream_));
  ASSERT_OK(gpu_->fill_async(a, 0x33, 64, stream_));
  gpu_->abort_capture(stream_);
  EXPECT_FALSE(gpu_->capturing(stream_));
  EXPECT_EQ(read(a, 16), counted(0, 16));
  ASSERT_OK(gpu_->fill_async(a, 0x44, 64, stream_));
  ASSERT_OK(gpu_->synchronize(stream_));
  EXPECT_THAT(read(a, 16), Each(0x44444444U));
  gpu_->abort_capture(stream_);  // nothing to abort
}

TEST_P(BackendContract, SynchronizingACaptureBreaksIt) {
  const DevicePtr a = cells(16);
  ASSERT_OK(gpu_->begin_capture(stream_));
  ASSERT_OK(gpu_->fill_async(a, 0x33, 64, stream_));
  EXPECT_FALSE(gpu_->synchronize(stream_).has_value());
  EXPECT_FALSE(gpu_->end_capture(stream_).has_value());
  EXPECT_FALSE(gpu_->capturing(stream_));
  EXPECT_FALSE(gpu_->end_capture(stream_).has_value());  // no capture is open
  ASSERT_OK(gpu_->synchronize(stream_));
  EXPECT_EQ(read(a, 16), counted(0, 16));
}

TEST_P(BackendContract, LedgerKnowsWhoOwnsWhat) {
  const auto a = gpu_->allocate(1000, "kv pool");
  const auto b = gpu_->allocate(24, "kv pool");
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(a->value % 64, 0U);
  const auto use = [&] {
    for (const SiteUse& u : gpu_->allocations())
      if (u.site == "kv pool") return u;
    return SiteUse{};
  };
  EXPECT_EQ(use().live_bytes, 1024U);
  EXPECT_EQ(use().live_count, 2U);
  gpu_->free(*a);
  EXPECT_EQ(use().live_bytes, 24U);
  EXPECT_EQ(use().peak_bytes, 1024U);
  gpu_->free(*b);
  EXPECT_EQ(use().live_count, 0U);
  EXPECT_EQ(use().total_count, 2U);
}

TEST_P(BackendContract, TooMuchMemoryIsRefusedByName) {
  const auto p = gpu_->allocate(std::size_t{1} << 50, "dreams");
  ASSERT_FALSE(p.has_value());
  EXPECT_EQ(p.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(p.error().message, HasSubstr("dreams"));
}

TEST_P(BackendContract, UnknownKernelIsNamed) {
  if (!GetParam().runs_kernels) GTEST_SKIP() << "this backend resolves every name";
  const auto kernel = gpu_->kernel("probe", "no_such_function");
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(kernel.error().message, HasSubstr("probe"));
  EXPECT_THAT(kernel.error().message, HasSubstr("no_such_function"));
}

TEST_P(BackendContract, CopiesThatLeaveAnAllocationAreRefused) {
  const DevicePtr a = cells(16);
  std::vector<std::uint32_t> host(64);
  const auto to = gpu_->copy_to_device(a + 32, host.data(), 36);
  ASSERT_FALSE(to.has_value());
  EXPECT_THAT(to.error().message, HasSubstr("cells"));
  EXPECT_FALSE(gpu_->copy_to_host(host.data(), a, 65).has_value());
  EXPECT_FALSE(gpu_->fill_async(a + 60, 0, 8, stream_).has_value());
  EXPECT_FALSE(gpu_->copy_rows_async(a, 32, a, 32, 16, 3, stream_).has_value());
}

INSTANTIATE_TEST_SUITE_P(All, BackendContract, testing::ValuesIn(test::subjects()),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace
}  // namespace met::gpu
