// Arena, op cache, timing spans and look-up listener, on the mock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/arena.h"
#include "gpu/mock/mock_backend.h"
#include "gpu/op_cache.h"
#include "gpu/timing.h"
#include "tests/gpu/contract.h"

namespace met::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(BufferArena, OffsetsAreAlignedAndDisjointOnEveryBackend) {
  for (const test::Subject& subject : test::subjects()) {
    std::string why;
    const auto gpu = subject.open(why);
    if (!gpu) continue;
    BufferArena arena;
    arena.add("hidden", 1000);
    arena.add("rows", 12, 4);
    arena.add("qkv", 4096);
    EXPECT_EQ(arena.bytes(), 1024U + 4096U);
    ASSERT_TRUE(arena.allocate(*gpu, "buffers").has_value());
    EXPECT_EQ(arena.at("hidden").value % 256, 0U) << subject.name;
    EXPECT_EQ(arena.at("rows").value, arena.at("hidden").value + 1000);
    EXPECT_EQ(arena.at("qkv").value, arena.at("hidden").value + 1024);
    EXPECT_EQ(arena.at(2), arena.at("qkv"));
    const std::vector<char> bytes(4096, 'x');
    EXPECT_TRUE(gpu->copy_to_device(arena.at("qkv"), bytes.data(), bytes.size()).has_value())
        << "the end fits";
    EXPECT_THAT(arena.plan(), HasSubstr("qkv"));
  }
}

TEST(BufferArenaDeathTest, MisuseIsADefect) {
  BufferArena arena;
  arena.add("a", 1);
  EXPECT_DEATH(arena.add("a", 1), "a twice");
  EXPECT_DEATH(arena.at("a"), "before allocate");
  EXPECT_DEATH(arena.add("b", 1, 3), "alignment");
}

TEST(OpCache, AsksOnceForEachKernelAndNotesFirstShapes) {
  mock::MockBackend gpu;
  gpu.deny_kernel("linear", "missing");
  OpCache cache(gpu);
  const auto a = cache.kernel("linear", "gemv");
  const auto b = cache.kernel("linear", "gemv");
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_EQ(a->index, b->index);
  EXPECT_FALSE(cache.kernel("linear", "missing").has_value());
  EXPECT_EQ(gpu.lookups().size(), 2U);
  EXPECT_TRUE(cache.first("linear", 1, 576, 576));
  EXPECT_FALSE(cache.first("linear", 1, 576, 576));
  EXPECT_TRUE(cache.first("linear", 2, 576, 576));
  EXPECT_TRUE(cache.first("head", 1, 576, 576));
}

TEST(OpCache, ScratchOnlyGrows) {
  mock::MockBackend gpu;
  {
    OpCache cache(gpu);
    const auto small = cache.scratch(100);
    EXPECT_EQ(cache.scratch(50).value(), small.value());
    EXPECT_NE(cache.scratch(1000).value(), small.value());
    EXPECT_EQ(gpu.allocations()[0].live_bytes, 1000U);
  }
  EXPECT_EQ(gpu.allocations()[0].live_count, 0U);
}

TEST(TimingSpans, CountsNestedSpansAndReusesEvents) {
  mock::MockBackend gpu;
  TimingSpans spans(gpu);
  const Stream stream = gpu.default_stream();
  {
    const TimingScope off(spans, "off", stream);
  }
  spans.enable(true);
  for (int step = 0; step < 3; ++step) {
    {
      const TimingScope outer(spans, "step", stream);
      for (int layer = 0; layer < 2; ++layer) const TimingScope inner(spans, "layer", stream);
    }
    ASSERT_TRUE(spans.collect(stream).has_value());
  }
  ASSERT_EQ(spans.rows().size(), 2U);
  EXPECT_EQ(spans.rows()[0].name, "step");
  EXPECT_EQ(spans.rows()[0].count, 3);
  EXPECT_EQ(spans.rows()[1].count, 6);
  EXPECT_GE(spans.rows()[0].total_ms, spans.rows()[1].total_ms);
  EXPECT_THAT(spans.table(), HasSubstr("100.0%"));
  EXPECT_EQ(gpu.counts(stream).records, 18U);
}

TEST(TimingSpans, LaunchesAreNamedByTheirNote) {
  mock::MockBackend gpu;
  TimingSpans spans(gpu);
  spans.enable(true);
  const Stream stream = gpu.default_stream();
  const auto kernel = gpu.kernel("linear", "linear");
  ASSERT_TRUE(kernel);
  KernelLaunch noted(*kernel);
  noted.note({.operation = "linear", .n = 64, .k = 32, .bytes = 4096});
  gpu.time_launches(&spans);
  ASSERT_TRUE(gpu.launch(noted, stream));
  ASSERT_TRUE(gpu.launch(noted, stream));
  ASSERT_TRUE(gpu.launch(KernelLaunch(*kernel), stream));
  gpu.time_launches(nullptr);
  ASSERT_TRUE(gpu.launch(noted, stream));
  ASSERT_TRUE(spans.collect(stream));
  ASSERT_EQ(spans.rows().size(), 2U);
  EXPECT_EQ(spans.rows()[0].name, "linear 64 x 32");
  EXPECT_EQ(spans.rows()[0].count, 2);
  EXPECT_EQ(spans.rows()[0].bytes, 8192);
  EXPECT_EQ(spans.rows()[1].name, "other");
}

TEST(TimingSpans, IgnoresCaptures) {
  mock::MockBackend gpu;
  TimingSpans spans(gpu);
  spans.enable(true);
  const Stream stream = gpu.default_stream();
  ASSERT_TRUE(gpu.begin_capture(stream).has_value());
  {
    const TimingScope scope(spans, "captured", stream);
  }
  const auto graph = gpu.end_capture(stream);
  ASSERT_TRUE(graph.has_value());
  ASSERT_TRUE(spans.collect(stream).has_value());
  EXPECT_TRUE(spans.rows().empty());
  gpu.destroy(*graph);
}

TEST(Lookups, TheListenerHearsHitsAndMisses) {
  mock::MockBackend gpu;
  gpu.deny_kernel("moe", "route");
  std::vector<std::pair<std::string, bool>> heard;
  gpu.listen_to_lookups([&](std::string_view module, std::string_view function, bool found) {
    heard.emplace_back(std::string(module) + "." + std::string(function), found);
  });
  (void)gpu.kernel("linear", "gemv");
  (void)gpu.kernel("moe", "route");
  EXPECT_THAT(heard, ElementsAre(Pair("linear.gemv", true), Pair("moe.route", false)));
}

}  // namespace
}  // namespace met::gpu
