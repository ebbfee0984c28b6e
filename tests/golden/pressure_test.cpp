// A whole engine over a real checkpoint whose KV pool is too small: nobody can tell from an answer. Rules S14 to S19, S25,
// B6, B10, R4 to R6.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "engine/model_host.h"
#include "tests/golden/support.h"

namespace met::golden {
namespace {

using scheduler::TokenClass;

constexpr int kStreams = 8;
constexpr std::int64_t kTokens = 240;
constexpr std::int64_t kSeqLen = 272;
/// K and V of a block of the checkpoint: 2 layers, 1 head of 64, 16 positions, 2 bytes each.
constexpr double kBlockGb = 2 * 2 * 64 * 16 * 2 / 1e9;

config::Settings settings_of(double pool_blocks) {
  config::Settings settings;
  settings.model_from_path = checkpoint_path("gguf-llama-Q4_1");
  settings.device = "cpu";
  settings.threads = 1;
  settings.max_seq_len = kSeqLen;
  settings.max_batch_size = kStreams;
  settings.kv_cache_gb = pool_blocks * kBlockGb;
  return settings;
}

/// Pool for one and a half streams, and the null block.
double small_pool() { return 1.5 * (kSeqLen / 16 + 1) + 1; }

scheduler::Request request_of(int number, int n = 1) {
  scheduler::Request request;
  std::mt19937 random(static_cast<unsigned>(number));
  for (int i = 0; i < 20 + number; ++i) request.prompt.push_back(static_cast<int>(random() % 300) + 10);
  request.max_tokens = kTokens;
  request.sampling.temperature = n > 1 ? 1.0F : 0.0F;
  request.sampling.seed = 7;
  request.sampling.logprobs = 0;
  request.n = n;
  return request;
}

/// Ids of an answer and the bits of their log-probabilities: of a choice.
struct Text {
  std::vector<scheduler::TokenId> ids;
  std::vector<float> logprobs;
  bool operator==(const Text& other) const {
    return ids == other.ids && logprobs.size() == other.logprobs.size() &&
           std::memcmp(logprobs.data(), other.logprobs.data(), logprobs.size() * sizeof(float)) == 0;
  }
};

std::vector<Text> read_all(scheduler::Generation& generation, int choices) {
  std::vector<Text> texts(static_cast<std::size_t>(choices));
  while (choices > 0) {
    const scheduler::Event event = generation.wait();
    Text& text = texts[static_cast<std::size_t>(event.choice)];
    text.ids.insert(text.ids.end(), event.ids.begin(), event.ids.end());
    if (event.kind == scheduler::Event::Kind::kTokens)
      for (const scheduler::PositionLogprobs& position : event.logprobs)
        text.logprobs.push_back(position.chosen);
    if (!event.terminal()) continue;
    EXPECT_EQ(event.kind, scheduler::Event::Kind::kFinished) << event.error.message;
    --choices;
  }
  return texts;
}

std::unique_ptr<engine::ModelHost> host_of(const config::Settings& settings) {
  auto host = engine::load_model(settings, {}, [](const Error& error) { ADD_FAILURE() << error.message; });
  EXPECT_TRUE(host) << (host ? "" : host.error().field + ": " + host.error().message);
  return host ? std::move(*host) : nullptr;
}

std::vector<std::vector<Text>> serve(engine::ModelHost& host, const std::vector<scheduler::Request>& requests,
                                     bool together) {
  std::vector<std::unique_ptr<scheduler::Generation>> generations;
  std::vector<std::vector<Text>> texts;
  for (const scheduler::Request& request : requests) {
    auto generation = host.client().submit(request);
    EXPECT_TRUE(generation);
    generations.push_back(std::move(*generation));
    if (!together) texts.push_back(read_all(*generations.back(), request.n));
  }
  if (together)
    for (std::size_t i = 0; i < requests.size(); ++i)
      texts.push_back(read_all(*generations[i], requests[i].n));
  return texts;
}

/// The snapshot follows the last end.
scheduler::Snapshot idle_snapshot(engine::ModelHost& host) {
  for (int i = 0; i < 2000; ++i) {
    const scheduler::Snapshot now = *host.client().snapshot();
    if (now.running + now.waiting == 0 && now.blocks_referenced == 0 && now.swap_blocks_used == 0 &&
        now.disk_blocks_used == 0)
      return now;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << "something is still held";
  return *host.client().snapshot();
}

std::vector<scheduler::Request> eight_streams() {
  std::vector<scheduler::Request> requests;
  for (int i = 0; i < kStreams; ++i) requests.push_back(request_of(i));
  return requests;
}

TEST(Pressure, EightStreamsInAPoolForOneAndAHalfAreTheirSoloRuns) {
  const std::vector<scheduler::Request> requests = eight_streams();
  const auto roomy = host_of(settings_of(200));
  ASSERT_TRUE(roomy);
  const std::vector<std::vector<Text>> solo = serve(*roomy, requests, /*together=*/false);
  ASSERT_EQ(solo[3][0].ids.size(), static_cast<std::size_t>(kTokens));
  ASSERT_NE(solo[3][0].ids, solo[4][0].ids);

  const std::string disk = std::filesystem::temp_directory_path();
  struct Case {
    const char* name;
    std::int64_t watermark;
    double host_blocks, disk_blocks;
  };
  // The slots of the host pool and of the disk are pages, twice a block of this checkpoint.
  for (const Case& c :
       {Case{"recompute", 80, 0, 0}, Case{"swap", 16, 400, 0}, Case{"swap to disk", 16, 60, 400}}) {
    config::Settings settings = settings_of(small_pool());
    settings.kv_admit_watermark = c.watermark;
    settings.swap_space_gb = c.host_blocks * kBlockGb;
    if (c.disk_blocks > 0) {
      settings.swap_dir = disk;
      settings.swap_disk_gb = c.disk_blocks * kBlockGb;
    }
    const auto tight = host_of(settings);
    ASSERT_TRUE(tight);
    EXPECT_EQ(serve(*tight, requests, /*together=*/true), solo) << c.name;
    const scheduler::Snapshot numbers = idle_snapshot(*tight);
    const auto count = [&](TokenClass kind) { return numbers.stats.tokens[static_cast<std::size_t>(kind)]; };
    const std::int64_t again = count(TokenClass::kRecomputed);
    const std::int64_t all = again + count(TokenClass::kPrefill) + count(TokenClass::kDecode);
    std::printf(
        "%s: %lld preemptions, %lld by swap, %lld of %lld tokens again, %lld bytes out, %lld to disk, %lld "
        "back\n",
        c.name, static_cast<long long>(numbers.preemptions),
        static_cast<long long>(numbers.stats.preemptions_swap), static_cast<long long>(again),
        static_cast<long long>(all), static_cast<long long>(numbers.stats.swap_out_bytes),
        static_cast<long long>(numbers.stats.disk_out_bytes),
        static_cast<long long>(numbers.stats.disk_in_bytes));
    EXPECT_GT(numbers.preemptions, 0) << c.name;
    EXPECT_EQ(numbers.stats.preemptions_swap > 0, c.host_blocks > 0) << c.name;
    EXPECT_EQ(numbers.stats.disk_in_bytes > 0, c.disk_blocks > 0) << c.name;
    EXPECT_LE(again * 100, all * 15) << c.name;
    EXPECT_EQ(numbers.stats.spill_failures, 0);
    EXPECT_GT(numbers.stats.steps_replayed, 0);
    EXPECT_EQ(numbers.stats.steps_eager, 0) << "the CPU replays every step";
  }
}

TEST(Pressure, ChoicesForkAndSwapLikeAnyOther) {  // B6, B10
  std::vector<scheduler::Request> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(request_of(i, /*n=*/3));
  const auto roomy = host_of(settings_of(400));
  ASSERT_TRUE(roomy);
  const std::vector<std::vector<Text>> solo = serve(*roomy, requests, /*together=*/false);
  EXPECT_NE(solo[0][0].ids, solo[0][1].ids);
  config::Settings settings = settings_of(small_pool());
  settings.kv_admit_watermark = 16;
  settings.swap_space_gb = 400 * kBlockGb;
  const auto tight = host_of(settings);
  ASSERT_TRUE(tight);
  EXPECT_EQ(serve(*tight, requests, /*together=*/true), solo);
  EXPECT_GT(idle_snapshot(*tight).preemptions, 0);
}

TEST(Pressure, BlocksOfLayersOfTwoTypesForkAndSwap) {  // M8, B10, S17
  // 4 layers of one head of 32: BF16 at both ends, int8 with an F32 scale a position between.
  constexpr double kBlock = 2 * 16 * (2 * 32 * 2 + 2 * (32 + 4)) / 1e9;
  config::Settings settings = settings_of(0);
  settings.model_from_path = checkpoint_path("smollm3-a");
  settings.kv_cache_dtype = "int8";
  settings.kv_high_precision_layers = "1";
  settings.kv_cache_gb = 400 * kBlock;
  const std::vector<scheduler::Request> requests = {request_of(0, 3), request_of(1), request_of(2)};
  const auto roomy = host_of(settings);
  ASSERT_TRUE(roomy);
  EXPECT_EQ(roomy->client().snapshot()->blocks_total, 400);
  const std::vector<std::vector<Text>> solo = serve(*roomy, requests, /*together=*/false);
  settings.kv_cache_gb = small_pool() * kBlock;
  settings.kv_admit_watermark = 16;
  settings.swap_space_gb = 0.01;
  const auto tight = host_of(settings);
  ASSERT_TRUE(tight);
  EXPECT_EQ(serve(*tight, requests, /*together=*/true), solo);
  EXPECT_GT(idle_snapshot(*tight).stats.preemptions_swap, 0);
}

TEST(Pressure, AThousandClientsThatLeaveAtRandomMomentsLeaveNothing) {  // R4 to R6
  config::Settings settings = settings_of(small_pool() * 2);
  settings.kv_admit_watermark = 16;
  settings.swap_space_gb = 60 * kBlockGb;
  settings.swap_dir = std::filesystem::temp_directory_path();
  settings.swap_disk_gb = 200 * kBlockGb;
  const auto host = host_of(settings);
  ASSERT_TRUE(host);
  const scheduler::Snapshot before = *host->client().snapshot();
  std::mt19937 random(5);
  std::vector<std::unique_ptr<scheduler::Generation>> open;
  for (int i = 0; i < 1000; ++i) {
    auto generation = host->client().submit(
        request_of(static_cast<int>(random() % 40), 1 + static_cast<int>(random() % 3) / 2));
    if (generation) open.push_back(std::move(*generation));
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    if (open.size() > 20 || random() % 3 == 0)
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(random() % open.size()));
  }
  open.clear();
  const scheduler::Snapshot after = idle_snapshot(*host);
  EXPECT_EQ(after.blocks_free + after.blocks_evictable, before.blocks_free + before.blocks_evictable);
  EXPECT_EQ(after.blocks_referenced, 0);
  std::printf("%lld preemptions, %lld by swap\n", static_cast<long long>(after.preemptions),
              static_cast<long long>(after.stats.preemptions_swap));
  const scheduler::Request request = request_of(3);
  EXPECT_EQ(serve(*host, {request}, false)[0][0].ids.size(), static_cast<std::size_t>(kTokens));
}

TEST(Pressure, SettingsThatCannotHoldAreRefusedByName) {  // M6, S25
  struct Case {
    void (*set)(config::Settings&);
    const char* field;
  };
  const Case cases[] = {
      {[](config::Settings& s) { s.swap_dir = "/tmp"; }, "--swap-dir"},
      {[](config::Settings& s) { s.swap_disk_gb = 1; }, "--swap-disk-gb"},
      {[](config::Settings& s) { s.swap_space_gb = 1e-6; }, "--swap-space-gb"},
      {[](config::Settings& s) { s.swap_space_gb = 900'000; }, "memory"},
      {[](config::Settings& s) {
         s.swap_space_gb = 0.001;
         s.swap_dir = "/nowhere/at/all";
       },
       "--swap-dir"},
  };
  for (const Case& c : cases) {
    config::Settings settings = settings_of(200);
    c.set(settings);
    const auto host = engine::load_model(settings, {}, {});
    ASSERT_FALSE(host) << c.field;
    EXPECT_EQ(host.error().field, c.field) << host.error().message;
  }
}

}  // namespace
}  // namespace met::golden
