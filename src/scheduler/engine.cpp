#include "scheduler/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "scheduler/door.h"
#include "scheduler/engine_loop.h"

namespace met::scheduler {
namespace {

class Engine final : public Client {
 public:
  Engine(const EngineConfig& config, Device& device, const Clock& clock,
         std::function<void(const Error&)> on_fault, Spill* spill)
      : clock_(clock),
        on_fault_(std::move(on_fault)),
        door_(config),
        executor_(device, clock),
        loop_(config, door_.inbox(), executor_, clock, door_.open(), spill),
        spill_(spill),
        published_(loop_.snapshot()),
        thread_([this] { run(); }) {}

  ~Engine() override {
    Engine::drain(0);
    stop_.store(true);
    door_.inbox().wake();
    thread_.join();
    if (spill_ != nullptr) spill_->on_done({});
    executor_.stop();  // a step that was given up may still write to the loop's slots
    door_.inbox().close();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Result<std::unique_ptr<Generation>> submit(Request request) override {
    return door_.submit(std::move(request), clock_);
  }

  std::shared_ptr<const Snapshot> snapshot() const override {
    auto copy = std::make_shared<Snapshot>();
    {
      const std::lock_guard lock(mutex_);
      *copy = published_;
    }
    copy->now_us = clock_.now_us();
    return copy;
  }

  std::int64_t max_seq_len() const override { return door_.config().plan.max_seq_len; }

  void drain(std::int64_t timeout_us) override {
    door_.inbox().drain(clock_.now_us() + timeout_us);
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return all_ended(); });
  }

 private:
  void publish() {
    const std::lock_guard lock(mutex_);
    published_ = loop_.snapshot();
    if (all_ended()) ended_.notify_all();
  }
  /// With mutex_ held. The last end leaves the door before the snapshot shows it.
  bool all_ended() const { return door_.open().load() == 0 && published_.running + published_.waiting == 0; }

  void run() {
    loop_.on_planned([this] { publish(); });
    if (spill_ != nullptr) spill_->on_done([this] { door_.inbox().wake(); });
    bool reported = false;
    while (true) {
      const bool again = loop_.tick();
      publish();
      const Result<>& fault = loop_.fault();
      if (!fault && !std::exchange(reported, true)) {
        door_.inbox().drain(clock_.now_us());  // nothing is accepted any more
        if (on_fault_) on_fault_(fault.error());
      }
      if (again) continue;
      if (stop_.load()) return;
      const std::int64_t wake_us = loop_.wake_us();
      door_.inbox().sleep(wake_us < 0 ? -1 : std::max<std::int64_t>(wake_us - clock_.now_us(), 0));
    }
  }

  const Clock& clock_;
  const std::function<void(const Error&)> on_fault_;
  Door door_;
  ThreadExecutor executor_;
  EngineLoop loop_;  ///< the thread's alone
  Spill* const spill_;

  mutable std::mutex mutex_;  ///< guards published_, and the wait for the last end
  std::condition_variable ended_;
  Snapshot published_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Client>> start_engine(const EngineConfig& config, Device& device, const Clock& clock,
                                             std::function<void(const Error&)> on_fault, Spill* spill) {
  MET_TRY(validate(config.plan));
  if (config.max_num_seqs < 1) return invalid("max-num-seqs", "max-num-seqs is below 1");
  return std::make_unique<Engine>(config, device, clock, std::move(on_fault), spill);
}

}  // namespace met::scheduler
