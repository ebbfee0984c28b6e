// A scheduler::Client that serves from a script: same request, same ids, whatever else runs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "scheduler/request.h"

namespace met::testing {

struct FakeOptions {
  std::int64_t max_seq_len = 256;
  int max_num_seqs = 64;
  int rows = 4;  ///< sequences that advance in a step
  std::chrono::microseconds step{0};
  /// The id at a position of an answer. Default: the prompt's ids again and again.
  std::function<scheduler::TokenId(const scheduler::Request&, int choice, std::int64_t position)> script;
  std::int64_t fail_at = -1;  ///< a request fails with kInternal at this position
};

/// One thread; a step gives each of the first `rows` sequences one id.
class FakeEngine final : public scheduler::Client {
 public:
  explicit FakeEngine(FakeOptions options = {});
  ~FakeEngine() override;

  Result<std::unique_ptr<scheduler::Generation>> submit(scheduler::Request request) override;
  std::shared_ptr<const scheduler::Snapshot> snapshot() const override;
  std::int64_t max_seq_len() const override { return options_.max_seq_len; }
  void drain(std::int64_t timeout_us) override;

  /// While held no step runs; requests are accepted.
  void hold(bool on);
  /// Steps only when told: one more step.
  int running() const;
  std::int64_t cancelled() const { return cancelled_; }
  std::int64_t finished() const { return finished_; }
  std::int64_t steps() const { return steps_; }
  /// The last request that was accepted.
  scheduler::Request last_request() const;

 private:
  class Handle;
  struct Sequence;
  struct Live;

  void loop();
  void step_locked();
  void advance(Live& live);
  void push(Live& live, scheduler::Event event);
  void end_all_locked();

  FakeOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Live>> live_;
  scheduler::Request last_;
  bool held_ = false;
  bool stop_ = false;
  bool draining_ = false;
  std::atomic<std::int64_t> cancelled_ = 0;
  std::atomic<std::int64_t> finished_ = 0;
  std::atomic<std::int64_t> steps_ = 0;
  std::thread thread_;
};

}  // namespace met::testing
