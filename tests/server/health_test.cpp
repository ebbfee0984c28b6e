// Health is progress: a device that stands still turns it red while the process lives, and green again when it goes on.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/log.h"
#include "scheduler/engine.h"
#include "server/server.h"
#include "tests/scheduler/scripted_device.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

using namespace std::chrono_literals;
using scheduler::testing::ScriptedDevice;

/// The scripted device, whose steps wait while it is held.
class StallingDevice final : public scheduler::Device {
 public:
  StallingDevice(const scheduler::PlanConfig& plan, VirtualClock& clock)
      : inner_(plan, {.vocab = 200}, clock) {}
  Result<> enqueue(const scheduler::StepPlan& plan, const scheduler::StepBatch& batch) override {
    return inner_.enqueue(plan, batch);
  }
  Result<> settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !held_; });
    lock.unlock();
    return inner_.settle(batch, results);
  }
  void hold(bool on) {
    const std::lock_guard lock(mutex_);
    held_ = on;
    changed_.notify_all();
  }

 private:
  ScriptedDevice inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
};

scheduler::EngineConfig engine_config(std::int64_t step_timeout_us) {
  scheduler::EngineConfig config;
  config.plan = {.depth = 1,
                 .block_tokens = 4,
                 .blocks_total = 129,
                 .max_batch_size = 4,
                 .max_seq_len = 256,
                 .max_prefill_tokens = 64,
                 .mixed_prefill_tokens = 16,
                 .kv_admit_watermark = 4,
                 .chunk_grid_tokens = 4,
                 .prompt_logprobs_tokens = 8};
  config.max_num_seqs = 8;
  config.step_timeout_us = step_timeout_us;
  return config;
}

/// The server over the real engine over that device.
class Stalling {
 public:
  explicit Stalling(std::int64_t step_timeout_us)
      : device_(engine_config(step_timeout_us).plan, device_clock_) {
    log::set_level(log::Level::kError);
    const std::vector<std::string> flags = {"--port", "0", "--step-timeout-s", "1"};
    const auto settings = config::read_settings(flags, {});
    server_ = std::move(*server::Server::open({.text = tiny_text(), .settings = *settings}));
    engine_ = std::move(
        *scheduler::start_engine(engine_config(step_timeout_us), device_, clock_, [](const Error&) {}));
    server_->attach(*engine_, {});
    thread_ = std::jthread([this] { server_->run(/*signals=*/false); });
  }
  ~Stalling() {
    device_.hold(false);
    server_->shut_down();
    thread_.join();
  }
  StallingDevice& device() { return device_; }
  int port() const { return server_->port(); }
  Answer ask(const std::string& bytes) const {
    Client client(port());
    client.send(bytes);
    return client.answer().value_or(Answer{});
  }
  /// /health says `status` within five seconds.
  bool turns(const std::string& status) const {
    for (int i = 0; i < 100; ++i) {
      if (at(parsed(ask(get("/health")).body), "status") == json::Value(status)) return true;
      std::this_thread::sleep_for(50ms);
    }
    return false;
  }

 private:
  VirtualClock device_clock_;
  SteadyClock clock_;
  StallingDevice device_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<scheduler::Client> engine_;
  std::jthread thread_;
};

TEST(Health, AStepThatStandsStillIsRedUntilItGoesOn) {
  Stalling met(/*step_timeout_us=*/60'000'000);
  EXPECT_EQ(met.ask(get("/health")).status, 200);
  met.device().hold(true);
  Client client(met.port());
  client.send(post("/v1/chat/completions", chat_body()));
  ASSERT_TRUE(met.turns("stalled"));
  const Answer red = met.ask(get("/health"));
  EXPECT_EQ(red.status, 503);
  EXPECT_EQ(red.header("retry-after"), "1");
  EXPECT_EQ(at(parsed(red.body), "running"), json::Value(1));
  EXPECT_GT(at(parsed(red.body), "last_token_age").as_number(), 1.0);
  EXPECT_EQ(met.ask(get("/ping")).status, 503);
  EXPECT_EQ(met.ask(get("/health/live")).status, 200);
  met.device().hold(false);
  EXPECT_EQ(client.answer().value_or(Answer{}).status, 200);
  EXPECT_TRUE(met.turns("ok"));
}

TEST(Health, AStepOverItsTimeIsADeviceFailure) {  // F5
  Stalling met(/*step_timeout_us=*/100'000);
  met.device().hold(true);
  Client client(met.port());
  client.send(post("/v1/chat/completions", chat_body()));
  const Answer answer = client.answer().value_or(Answer{});
  EXPECT_GE(answer.status, 500) << answer.body;
  EXPECT_TRUE(met.turns("faulted"));
  EXPECT_EQ(met.ask(get("/health")).status, 503);
  EXPECT_EQ(met.ask(get("/health/live")).status, 200);
}

}  // namespace
}  // namespace met::testing
