#include "tests/server/fake_engine.h"

#include <algorithm>

namespace met::testing {

using scheduler::Event;
using scheduler::FinishReason;
using scheduler::TokenId;

struct FakeEngine::Sequence {
  std::int64_t position = 0;
  std::optional<std::int64_t> stop_at;
  bool ended = false;
};

/// A request: the engine's side under the engine's lock, the channel under its own.
struct FakeEngine::Live {
  scheduler::Request request;
  std::vector<Sequence> choices;
  bool started = false;
  bool cancel = false;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  std::mutex channel_mutex;
  std::condition_variable channel_changed;
  std::deque<Event> events;
  std::function<void()> wake;

  bool ended() const {
    return std::all_of(choices.begin(), choices.end(), [](const Sequence& s) { return s.ended; });
  }
};

class FakeEngine::Handle final : public scheduler::Generation {
 public:
  Handle(FakeEngine& engine, std::shared_ptr<Live> live) : engine_(engine), live_(std::move(live)) {}
  ~Handle() override {
    cancel();
    on_ready({});
  }
  std::optional<Event> poll() override {
    const std::lock_guard lock(live_->channel_mutex);
    if (live_->events.empty()) return std::nullopt;
    Event event = std::move(live_->events.front());
    live_->events.pop_front();
    return event;
  }
  Event wait() override {
    std::unique_lock lock(live_->channel_mutex);
    live_->channel_changed.wait(lock, [&] { return !live_->events.empty(); });
    Event event = std::move(live_->events.front());
    live_->events.pop_front();
    return event;
  }
  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(live_->channel_mutex);
    live_->wake = std::move(wake);
    if (live_->wake && !live_->events.empty()) live_->wake();
  }
  void stop_at(int choice, std::int64_t ids, FinishReason) override {
    const std::lock_guard lock(engine_.mutex_);
    live_->choices[static_cast<std::size_t>(choice)].stop_at = ids;
    engine_.changed_.notify_all();
  }
  void cancel() override {
    const std::lock_guard lock(engine_.mutex_);
    live_->cancel = true;
    engine_.changed_.notify_all();
  }

 private:
  FakeEngine& engine_;
  std::shared_ptr<Live> live_;
};

FakeEngine::FakeEngine(FakeOptions options) : options_(std::move(options)), thread_([this] { loop(); }) {}

FakeEngine::~FakeEngine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Result<std::unique_ptr<scheduler::Generation>> FakeEngine::submit(scheduler::Request request) {
  const std::lock_guard lock(mutex_);
  if (draining_) return fail(ErrorCode::kUnavailable, "the engine is draining");
  if (static_cast<int>(live_.size()) >= options_.max_num_seqs)
    return fail(ErrorCode::kUnavailable, "the engine is full");
  if (std::ssize(request.prompt) >= options_.max_seq_len) return invalid("prompt", "the prompt is too long");
  auto live = std::make_shared<Live>();
  live->choices.resize(static_cast<std::size_t>(request.n));
  last_ = request;
  live->request = std::move(request);
  live->events.push_back({.kind = Event::Kind::kAccepted});
  live_.push_back(live);
  changed_.notify_all();
  return std::make_unique<Handle>(*this, live);
}

std::shared_ptr<const scheduler::Snapshot> FakeEngine::snapshot() const {
  const std::lock_guard lock(mutex_);
  auto s = std::make_shared<scheduler::Snapshot>();
  s->running = std::min<std::int64_t>(std::ssize(live_), options_.rows);
  s->waiting = std::ssize(live_) - s->running;
  s->blocks_total = 64;
  s->blocks_free = 64 - s->running;
  s->blocks_referenced = s->running;
  s->steps = steps_;
  s->draining = draining_;
  s->last_progress_us = std::chrono::duration_cast<std::chrono::microseconds>(
                            std::chrono::steady_clock::now().time_since_epoch())
                            .count();
  s->now_us = s->last_progress_us;
  return s;
}

scheduler::Request FakeEngine::last_request() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

int FakeEngine::running() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(live_.size());
}

void FakeEngine::hold(bool on) {
  const std::lock_guard lock(mutex_);
  held_ = on;
  changed_.notify_all();
}

void FakeEngine::drain(std::int64_t timeout_us) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  changed_.wait_for(lock, std::chrono::microseconds(timeout_us), [&] { return live_.empty(); });
  for (const auto& live : live_) live->cancel = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return live_.empty(); });
}

void FakeEngine::push(Live& live, Event event) {
  const std::lock_guard lock(live.channel_mutex);
  const bool was_empty = live.events.empty();
  live.events.push_back(std::move(event));
  live.channel_changed.notify_all();
  if (was_empty && live.wake) live.wake();
}

void FakeEngine::advance(Live& live) {
  const scheduler::Request& r = live.request;
  const auto top = [&](TokenId id, int k) {
    scheduler::PositionLogprobs p{.chosen = -0.5F, .top = {}, .rank = 1};
    for (int i = 0; i < k; ++i) p.top.push_back({id + i, -0.5F - static_cast<float>(i)});
    return p;
  };
  if (!live.started) {
    live.started = true;
    push(live, {.kind = Event::Kind::kProgress, .prompt_computed = std::ssize(r.prompt)});
    if (r.prompt_logprobs) {
      Event event{.kind = Event::Kind::kPromptLogprobs};
      for (std::size_t i = 1; i < r.prompt.size(); ++i)
        event.logprobs.push_back(top(r.prompt[i], r.prompt_logprobs_top));
      push(live, std::move(event));
    }
  }
  for (int c = 0; c < static_cast<int>(live.choices.size()); ++c) {
    Sequence& s = live.choices[static_cast<std::size_t>(c)];
    if (s.ended) continue;
    const auto end = [&](FinishReason reason) {
      s.ended = true;
      ++finished_;
      push(live,
           {.kind = Event::Kind::kFinished, .choice = c, .reason = reason, .completion_tokens = s.position});
    };
    const auto late = std::chrono::steady_clock::now() - live.begin;
    if (r.timeout_us && late > std::chrono::microseconds(*r.timeout_us)) {
      end(FinishReason::kTimeout);
    } else if (s.stop_at) {
      end(FinishReason::kStopText);
    } else if (options_.fail_at >= 0 && s.position >= options_.fail_at) {
      s.ended = true;
      push(live, {.kind = Event::Kind::kFailed,
                  .choice = c,
                  .error = {ErrorCode::kInternal, "scripted failure", {}}});
    } else if (s.position >= r.max_tokens) {
      end(FinishReason::kLength);
    } else if (s.position + std::ssize(r.prompt) >= options_.max_seq_len) {
      end(FinishReason::kContext);
    } else {
      const TokenId id = options_.script ? options_.script(r, c, s.position)
                                         : r.prompt[static_cast<std::size_t>(s.position) % r.prompt.size()];
      ++s.position;
      Event event{.kind = Event::Kind::kTokens, .choice = c, .ids = {id}};
      if (r.sampling.logprobs >= 0) event.logprobs.push_back(top(id, r.sampling.logprobs));
      push(live, std::move(event));
      const bool may_end = s.position > r.sampling.min_tokens;
      if (may_end && std::find(r.eos_ids.begin(), r.eos_ids.end(), id) != r.eos_ids.end()) {
        end(FinishReason::kEos);
      } else if (may_end && std::find(r.stop_ids.begin(), r.stop_ids.end(), id) != r.stop_ids.end()) {
        end(FinishReason::kStopToken);
      } else if (s.position >= r.max_tokens) {
        end(FinishReason::kLength);
      }
    }
  }
}

void FakeEngine::step_locked() {
  for (auto it = live_.begin(); it != live_.end();) {
    Live& live = **it;
    if (live.cancel && !live.ended()) {
      ++cancelled_;
      for (int c = 0; c < static_cast<int>(live.choices.size()); ++c) {
        Sequence& s = live.choices[static_cast<std::size_t>(c)];
        if (!s.ended) push(live, {.kind = Event::Kind::kCancelled, .choice = c});
        s.ended = true;
      }
    }
    it = live.ended() ? live_.erase(it) : std::next(it);
  }
  int rows = 0;
  if (!held_)
    for (const auto& live : live_)
      if (rows++ < options_.rows) advance(*live);
  ++steps_;
  changed_.notify_all();
}

void FakeEngine::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto work = [&] {
      if (stop_) return true;
      if (held_) return std::any_of(live_.begin(), live_.end(), [](const auto& l) { return l->cancel; });
      return !live_.empty();
    };
    changed_.wait(lock, work);
    if (stop_) break;
    step_locked();
    if (options_.step.count() > 0) {
      lock.unlock();
      std::this_thread::sleep_for(options_.step);
      lock.lock();
    }
  }
  for (const auto& live : live_) live->cancel = true;
  held_ = false;
  step_locked();
}

}  // namespace met::testing
