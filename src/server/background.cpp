#include "server/background.h"

#include <chrono>

namespace met::server {

void EventLog::append(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  text_ += bytes;
  tell_locked();
}

void EventLog::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  tell_locked();
}

bool EventLog::read(std::size_t from, std::string& out) {
  const std::lock_guard lock(mutex_);
  if (from < text_.size()) out.append(text_, from);
  return !ended_;
}

std::string EventLog::text() {
  const std::lock_guard lock(mutex_);
  return text_;
}

void EventLog::tell_locked() {
  for (const auto& [number, notify] : followers_) notify();
}

Following::Following(std::shared_ptr<EventLog> log, std::function<void()> notify) : log_(std::move(log)) {
  const std::lock_guard lock(log_->mutex_);
  number_ = log_->next_follower_++;
  log_->followers_[number_] = std::move(notify);
}

Following::~Following() {
  const std::lock_guard lock(log_->mutex_);
  log_->followers_.erase(number_);
}

std::optional<api::ApiError> BackgroundRun::begin(std::unique_ptr<Run> run, api::ResponseEncoder* encoder,
                                                  Finish finish) {
  const std::lock_guard lock(mutex_);
  std::string out;
  if (auto error = run->drain(out)) return error;
  run->begin(out);
  if (log_) log_->append(out);
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
  if (log_ && !out.empty()) log_->append(out);
  if (done) finish_locked();
  return !done;
}

void BackgroundRun::finish_locked() {
  last_object_ = encoder_->object();
  finish_(*encoder_, log_ ? log_->text() : std::string());
  ended_ = true;
  encoder_ = nullptr;
  run_.reset();
  if (log_) log_->end();
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
    wake_.notifier()();
  }
  return last_object_;
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

awaitable<void> follow_events(Exchange& http, Services& met, std::shared_ptr<EventLog> log,
                              std::size_t skip) {
  const auto keepalive = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(met.settings.sse_keepalive_s));
  const Following following(log, http.wake().notifier());
  std::string out;
  bool more = log->read(0, out);
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
    more = log->read(sent, out);
    sent += out.size();
    if (!notified && out.empty()) out = ": keep-alive\n\n";
  }
  if (http.gone()) ++met.counters.disconnects;
}

}  // namespace met::server
