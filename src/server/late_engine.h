// The engine of a server that answers its probes while the model still loads.
#pragma once

#include <atomic>
#include <memory>

#include "scheduler/request.h"

namespace met::server {

/// Refuses work until an engine is attached; afterwards it is that engine. Safe from any thread.
class LateEngine final : public scheduler::Client {
 public:
  /// Once. The engine outlives every call.
  void attach(scheduler::Client& engine) { engine_.store(&engine, std::memory_order_release); }
  bool attached() const { return engine() != nullptr; }

  Result<std::unique_ptr<scheduler::Generation>> submit(scheduler::Request request) override {
    scheduler::Client* const real = engine();
    if (real == nullptr) return fail(ErrorCode::kUnavailable, "the model is still loading");
    return real->submit(std::move(request));
  }
  std::shared_ptr<const scheduler::Snapshot> snapshot() const override {
    static const auto kNothing = std::make_shared<const scheduler::Snapshot>();
    scheduler::Client* const real = engine();
    return real != nullptr ? real->snapshot() : kNothing;
  }
  std::int64_t max_seq_len() const override {
    scheduler::Client* const real = engine();
    return real != nullptr ? real->max_seq_len() : 0;
  }
  void drain(std::int64_t timeout_us) override {
    if (scheduler::Client* const real = engine()) real->drain(timeout_us);
  }

 private:
  scheduler::Client* engine() const { return engine_.load(std::memory_order_acquire); }

  std::atomic<scheduler::Client*> engine_ = nullptr;
};

}  // namespace met::server
