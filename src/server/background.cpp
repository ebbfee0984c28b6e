#include "server/background.h"

#include <chrono>

namespace met::server {

std::optional<api::ApiError> BackgroundRun::begin(std::unique_ptr<Run> run, api::ResponseEncoder* encoder,
                                                  Finish finish) {
  const std::lock_guard lock(mutex_);
  std::string out;
  if (auto error = run->drain(out)) return error;
  run->begin(out);
  if (keeps_events_) events_ = std::move(out);
  run_ = std::move(run);
  encoder_ = encoder;
  finish_ = std::move(finish);
  return std::nullopt;
}

bool BackgroundRun::advance() {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  std::string out;
  const std::optional<api::ApiError> error = run_->drain(out);
  const bool done = error || run_->done();
  if (error) {
    run_->fail(*error, out);
  } else if (done) {
    run_->end(out);
  }
  if (keeps_events_) events_ += out;
  if (done) finish_locked();
  if (!out.empty() || done) tell_locked();
  return !done;
}

void BackgroundRun::finish_locked() {
  last_object_ = encoder_->object();
  finish_(*encoder_, events_);
  ended_ = true;
  encoder_ = nullptr;
  run_.reset();
}

void BackgroundRun::tell_locked() {
  for (const auto& [number, notify] : followers_) notify();
}

json::Value BackgroundRun::object() {
  const std::lock_guard lock(mutex_);
  return ended_ ? last_object_ : encoder_->object();
}

json::Value BackgroundRun::cancel() {
  const std::lock_guard lock(mutex_);
  if (!ended_) {
    encoder_->cancel();
    finish_locked();
    tell_locked();
    wake_.notifier()();
  }
  return last_object_;
}

bool BackgroundRun::read_events(std::size_t from, std::string& out) {
  const std::lock_guard lock(mutex_);
  if (from < events_.size()) out.append(events_, from);
  return !ended_;
}

int BackgroundRun::follow(std::function<void()> notify) {
  const std::lock_guard lock(mutex_);
  followers_[next_follower_] = std::move(notify);
  return next_follower_++;
}

void BackgroundRun::unfollow(int number) {
  const std::lock_guard lock(mutex_);
  followers_.erase(number);
}

awaitable<void> serve_background(std::shared_ptr<BackgroundRun> run) {
  while (run->advance()) co_await run->wake().wait(Clock::now() + std::chrono::hours(1));
}

std::size_t offset_of_event(const std::string& events, std::size_t number) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < number; ++i) {
    const std::size_t end = events.find("\n\n", at);
    if (end == std::string::npos) return events.size();
    at = end + 2;
  }
  return at;
}

awaitable<void> follow_background(Exchange& http, Services& met, std::shared_ptr<BackgroundRun> run,
                                  std::size_t skip) {
  const auto keepalive = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(met.settings.sse_keepalive_s));
  const int number = run->follow(http.wake().notifier());
  std::string out;
  bool more = run->read_events(0, out);
  std::size_t sent = out.size();
  out.erase(0, offset_of_event(out, skip));
  http.begin_stream();
  for (;;) {
    if (!out.empty()) {
      const bool here = co_await http.send(out);
      if (!here) break;
    }
    if (!more) {
      co_await http.end_stream();
      break;
    }
    const bool notified = co_await http.wake().wait(Clock::now() + keepalive);
    if (http.gone()) break;
    out.clear();
    more = run->read_events(sent, out);
    sent += out.size();
    if (!notified && out.empty()) out = ": keep-alive\n\n";
  }
  run->unfollow(number);
  if (http.gone()) ++met.counters.disconnects;
}

}  // namespace met::server
