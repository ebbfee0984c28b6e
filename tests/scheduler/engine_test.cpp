// The engine with its threads, and several client threads that submit, read, cancel, stop and destroy at
// once. Also run under ThreadSanitizer. Rules E1, E2, R1, R2, R6, F4, F7.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "scheduler/engine.h"
#include "tests/scheduler/scripted_device.h"

namespace met::scheduler::testing {
namespace {

EngineConfig config_of(int depth) {
  EngineConfig config;
  config.plan = {.depth = depth,
                 .block_tokens = 4,
                 .blocks_total = 41,
                 .max_batch_size = 6,
                 .max_seq_len = 64,
                 .max_prefill_tokens = 32,
                 .mixed_prefill_tokens = 16,
                 .kv_admit_watermark = 4,
                 .chunk_grid_tokens = 4,
                 .prompt_logprobs_tokens = 8};
  config.max_num_seqs = 24;
  config.channel_tokens = 8;
  return config;
}

/// The engine over the scripted device, whose own clock is virtual and its thread's alone.
struct Served {
  explicit Served(const EngineConfig& config, DeviceScript script = {})
      : device(config.plan, std::move(script), device_clock) {
    auto started = start_engine(config, device, clock, [this](const Error& error) {
      const std::lock_guard lock(mutex);
      fault = error;
      faulted.notify_all();
    });
    EXPECT_TRUE(started);
    client = std::move(*started);
  }
  VirtualClock device_clock;
  SteadyClock clock;
  ScriptedDevice device;
  std::mutex mutex;
  std::condition_variable faulted;
  std::optional<Error> fault;
  std::unique_ptr<Client> client;
};

Request request_of(int prompt, std::int64_t max_tokens, int text = 1) {
  Request request;
  for (int i = 0; i < prompt; ++i) request.prompt.push_back(text * 100 + i);
  request.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> solo(const Request& request, int choice) {
  std::vector<TokenId> context = request.prompt;
  for (std::int64_t i = 0; i < request.max_tokens && std::ssize(context) < 64; ++i)
    context.push_back(next_id(context, choice, 1000));
  return {context.begin() + std::ssize(request.prompt), context.end()};
}

TEST(Engine, AnswersARequest) {
  for (const int depth : {1, 2}) {
    Served met(config_of(depth));
    const Request request = request_of(10, 12);
    auto generation = met.client->submit(request);
    ASSERT_TRUE(generation);
    std::vector<TokenId> ids;
    while (true) {
      const Event event = (*generation)->wait();
      ids.insert(ids.end(), event.ids.begin(), event.ids.end());
      if (!event.terminal()) continue;
      EXPECT_EQ(event.reason, FinishReason::kLength);
      break;
    }
    EXPECT_EQ(ids, solo(request, 0));
    const auto numbers = met.client->snapshot();
    EXPECT_EQ(numbers->stats.ended[static_cast<std::size_t>(EndClass::kLength)] + numbers->running, 1);
  }
}

TEST(Engine, RefusesWhatCanNeverRunAndNamesTheField) {  // R1, R13
  Served met(config_of(1));
  const auto field_of = [&](Request request) {
    auto result = met.client->submit(std::move(request));
    EXPECT_FALSE(result);
    return result ? "" : result.error().field;
  };
  EXPECT_EQ(field_of({}), "prompt");
  EXPECT_EQ(field_of(request_of(64, 1)), "prompt");
  EXPECT_EQ(field_of(request_of(4, -1)), "max_tokens");
  Request many = request_of(4, 1);
  many.n = 7;
  EXPECT_EQ(field_of(many), "n");
  Request negative = request_of(4, 1);
  negative.prompt[2] = -5;
  EXPECT_EQ(field_of(negative), "prompt");
  Request only_ends = request_of(4, 8);
  only_ends.eos_ids = {1};
  only_ends.stop_ids = {2};
  only_ends.sampling.allowed_token_ids = {1, 2};
  only_ends.sampling.min_tokens = 1;
  EXPECT_EQ(field_of(only_ends), "allowed_token_ids");
}

TEST(Engine, IsFullAtItsLimitAndSaysSo) {  // E11, E12
  DeviceScript slow;
  EngineConfig config = config_of(1);
  config.max_num_seqs = 3;
  Served met(config, slow);
  std::vector<std::unique_ptr<Generation>> held;
  Error refused;
  for (int i = 0; i < 1000; ++i) {
    auto generation = met.client->submit(request_of(40, 60, i % 50));
    if (!generation) {
      refused = generation.error();
      break;
    }
    held.push_back(std::move(*generation));
  }
  EXPECT_EQ(refused.code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.field, "max-num-seqs");
}

// Who hears that a request has ended may submit the next one at once, also where the engine was full.
TEST(Engine, AnEndMakesRoomBeforeItIsTold) {  // E11
  EngineConfig config = config_of(2);
  config.max_num_seqs = 1;
  Served met(config);
  // What the wake touches outlives the handle, whose destruction waits for a wake in progress.
  std::atomic<bool> ended = false;
  std::atomic<bool> accepted = false;
  std::unique_ptr<Generation> next;
  auto generation = met.client->submit(request_of(4, 3));
  ASSERT_TRUE(generation);
  (*generation)->on_ready([&] {
    while (auto event = (*generation)->poll()) {
      if (!event->terminal()) continue;
      auto submitted = met.client->submit(request_of(4, 3));
      accepted = submitted.has_value();
      if (submitted) next = std::move(*submitted);
      ended = true;
      ended.notify_all();
    }
  });
  ended.wait(false);
  EXPECT_TRUE(accepted);
  if (next)
    while (!next->wait().terminal()) continue;
}

TEST(Engine, WakesAReaderThatComesLate) {
  Served met(config_of(2));
  std::mutex
      mutex;  // with the two below it outlives the handle, whose destruction waits for a wake in progress
  std::condition_variable woken;
  bool ready = false;
  bool ended = false;
  auto generation = met.client->submit(request_of(4, 20));
  ASSERT_TRUE(generation);
  (*generation)->on_ready([&] {
    const std::lock_guard lock(mutex);
    ready = true;
    woken.notify_one();
  });
  while (!ended) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(woken.wait_for(lock, std::chrono::seconds(20), [&] { return ready; }));
    ready = false;
    lock.unlock();
    while (auto event = (*generation)->poll()) ended |= event->terminal();
  }
}

TEST(Engine, ADeviceFailureIsReportedOnce) {  // F4
  DeviceScript script;
  script.fails_at = 5;
  Served met(config_of(1), script);
  auto generation = met.client->submit(request_of(4, 50));
  ASSERT_TRUE(generation);
  Event event;
  do {
    event = (*generation)->wait();
  } while (!event.terminal());
  EXPECT_EQ(event.error.code, ErrorCode::kDevice);
  {
    std::unique_lock lock(met.mutex);
    EXPECT_TRUE(met.faulted.wait_for(lock, std::chrono::seconds(20), [&] { return met.fault.has_value(); }));
  }
  auto late = met.client->submit(request_of(4, 5));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
}

TEST(Engine, DrainsAndThenRefuses) {  // F7
  Served met(config_of(2));
  auto generation = met.client->submit(request_of(4, 50));
  ASSERT_TRUE(generation);
  std::thread reader([&] {
    while (!(*generation)->wait().terminal()) {
    }
  });
  met.client->drain(10'000'000);
  reader.join();
  EXPECT_FALSE(met.client->submit(request_of(4, 5)));
  EXPECT_TRUE(met.client->snapshot()->draining);
}

TEST(Engine, HandlesOutliveIt) {
  std::unique_ptr<Generation> generation;
  {
    Served met(config_of(1));
    auto submitted = met.client->submit(request_of(4, 50));
    ASSERT_TRUE(submitted);
    generation = std::move(*submitted);
  }
  Event event;
  do {
    event = generation->wait();
  } while (!event.terminal());
  generation->cancel();
  generation->stop_at(0, 1, FinishReason::kStopText);
}

/// One client thread: requests of every kind, each read in some way, some given up at some moment.
void be_a_client(Served& met, std::uint64_t seed, std::atomic<int>& ended) {
  std::mt19937_64 random(seed);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 40; ++i) {
    Request request = request_of(between(1, 40), between(1, 40), between(0, 5));
    request.n = between(1, 8) == 1 ? 3 : 1;
    auto submitted = met.client->submit(request);
    if (!submitted) {
      EXPECT_EQ(submitted.error().code, ErrorCode::kUnavailable);
      std::this_thread::yield();
      continue;
    }
    std::atomic<int> wakes{0};  // outlives the handle, whose destruction waits for a wake in progress
    const std::unique_ptr<Generation> generation = std::move(*submitted);
    if (between(0, 1) == 0) generation->on_ready([&wakes] { ++wakes; });
    const int fate = between(0, 5);
    if (fate == 0) continue;  // destroyed at once
    std::vector<std::vector<TokenId>> ids(static_cast<std::size_t>(request.n));
    int terminals = 0;
    bool whole = true;
    for (int events = 0; terminals < request.n; ++events) {
      if (fate == 1 && events == 2) {
        generation->cancel();
        whole = false;
      }
      if (fate == 2 && events == 2) {
        generation->stop_at(0, 3, FinishReason::kStopText);
        whole = false;
      }
      if (fate == 3 && events == 3) break;  // destroyed while it runs
      const Event event = generation->wait();
      auto& got = ids[static_cast<std::size_t>(event.choice)];
      got.insert(got.end(), event.ids.begin(), event.ids.end());
      if (!event.terminal()) continue;
      ++terminals;
      if (whole) {
        EXPECT_EQ(got, solo(request, event.choice));
      }
    }
    ended += terminals;
    if (between(0, 3) == 0) (void)met.client->snapshot();
    generation->on_ready({});
  }
}

TEST(Engine, ManyClientThreadsAtOnce) {
  for (const int depth : {1, 2}) {
    Served met(config_of(depth));
    std::atomic<int> ended{0};
    std::vector<std::thread> clients;
    for (std::uint64_t seed = 0; seed < 4; ++seed)
      clients.emplace_back([&met, &ended, seed] { be_a_client(met, seed, ended); });
    for (std::thread& client : clients) client.join();
    EXPECT_GT(ended.load(), 20);
    met.client->drain(0);
    const auto numbers = met.client->snapshot();
    EXPECT_EQ(numbers->blocks_referenced, 0);
    EXPECT_EQ(numbers->running + numbers->waiting, 0);
  }
}

}  // namespace
}  // namespace met::scheduler::testing
