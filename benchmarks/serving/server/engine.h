// The real scheduler over a device that takes a fixed time a step, and a client that notes when things happen.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "scheduler/engine.h"

namespace met::bench {

using Time = std::chrono::steady_clock::time_point;
inline Time now() { return std::chrono::steady_clock::now(); }
inline std::int64_t ns_of(Time t) { return t.time_since_epoch().count(); }

/// A step ends `step` after the one before it; a row's next id is the script's at its position.
class PacedDevice final : public scheduler::Device {
 public:
  PacedDevice(std::vector<scheduler::TokenId> script, std::chrono::microseconds step)
      : script_(std::move(script)), step_(step) {}

  Result<> enqueue(const scheduler::StepPlan&, const scheduler::StepBatch&) override {
    last_ = std::max(now(), last_) + step_;
    ends_.push_back(last_);
    return {};
  }
  Result<> settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) override {
    if (step_.count() > 0) std::this_thread::sleep_until(ends_.front());
    ends_.pop_front();
    for (std::size_t i = 0; i < batch.samples.size(); ++i)
      results.samples[i].id = script_[static_cast<std::size_t>(batch.samples[i].position) % script_.size()];
    return {};
  }

 private:
  std::vector<scheduler::TokenId> script_;
  std::chrono::microseconds step_;
  Time last_{};
  std::deque<Time> ends_;
};

/// Passes everything on; notes the last submission and the last time when the engine told a listener of an event.
class StampedClient final : public scheduler::Client {
 public:
  explicit StampedClient(scheduler::Client& engine) : engine_(engine) {}

  Result<std::unique_ptr<scheduler::Generation>> submit(scheduler::Request request) override {
    submitted_ns = ns_of(now());
    MET_ASSIGN(auto generation, engine_.submit(std::move(request)));
    return std::make_unique<Stamped>(std::move(generation), told_ns);
  }
  std::shared_ptr<const scheduler::Snapshot> snapshot() const override { return engine_.snapshot(); }
  std::int64_t max_seq_len() const override { return engine_.max_seq_len(); }
  void drain(std::int64_t timeout_us) override { engine_.drain(timeout_us); }

  std::atomic<std::int64_t> submitted_ns = 0;
  std::atomic<std::int64_t> told_ns = 0;

 private:
  class Stamped final : public scheduler::Generation {
   public:
    Stamped(std::unique_ptr<scheduler::Generation> inner, std::atomic<std::int64_t>& told)
        : inner_(std::move(inner)), told_(told) {}
    std::optional<scheduler::Event> poll() override { return inner_->poll(); }
    scheduler::Event wait() override { return inner_->wait(); }
    void on_ready(std::function<void()> wake) override {
      inner_->on_ready([this, wake = std::move(wake)] {
        told_ = ns_of(now());
        wake();
      });
    }
    void stop_at(int choice, std::int64_t ids, scheduler::FinishReason reason) override {
      inner_->stop_at(choice, ids, reason);
    }
    void cancel() override { inner_->cancel(); }

   private:
    std::unique_ptr<scheduler::Generation> inner_;
    std::atomic<std::int64_t>& told_;
  };

  scheduler::Client& engine_;
};

}  // namespace met::bench
