#include "server/background.h"

#include <chrono>

#include "core/concat.h"
#include "core/log.h"

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

std::optional<api::ApiError> BackgroundRun::begin(std::unique_ptr<Run> run, api::ResponseEncoder* encoder) {
  const std::lock_guard lock(mutex_);
  std::string out;
  if (auto error = run->drain(out)) return error;
  run->begin(out);
  if (log_) log_->append(out);
  run_ = std::move(run);
  encoder_ = encoder;
  return std::nullopt;
}

bool BackgroundRun::advance(std::optional<BackgroundEnding>& ending) {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  std::string out;
  const std::optional<api::ApiError> error = run_->drain(out);
  if (!error && !run_->done()) {
    if (log_ && !out.empty()) log_->append(out);
    return true;
  }
  shown_ = encoder_->object();
  error ? run_->fail(*error, out) : run_->end(out);
  ending = end_locked(std::move(out));
  return false;
}

std::optional<BackgroundEnding> BackgroundRun::cancel() {
  const std::lock_guard lock(mutex_);
  if (ended_) return std::nullopt;
  shown_ = encoder_->object();
  encoder_->cancel();
  wake_.notifier()();
  return end_locked({});
}

BackgroundEnding BackgroundRun::end_locked(std::string events) {
  BackgroundEnding ending{.response = ending_of(*encoder_), .events = std::move(events)};
  ended_ = true;
  encoder_ = nullptr;
  run_.reset();
  return ending;
}

json::Value BackgroundRun::object() {
  const std::lock_guard lock(mutex_);
  return ended_ ? shown_ : encoder_->object();
}

awaitable<void> serve_background(std::shared_ptr<BackgroundRun> run, Services& met) {
  ++met.life.background_runs;
  std::optional<BackgroundEnding> ending;
  while (run->advance(ending)) co_await run->wake().wait(Clock::now() + std::chrono::hours(1));
  if (ending) co_await keep_background(run->record(), run->log(), std::move(*ending), met);
  --met.life.background_runs;
}

awaitable<std::optional<api::ApiError>> keep_background(std::shared_ptr<const ResponseRecord> record,
                                                        std::shared_ptr<EventLog> log,
                                                        BackgroundEnding ending, Services& met) {
  const std::string events = log ? log->text() + ending.events : std::string();
  std::optional<api::ApiError> error =
      co_await keep_response(record, std::move(ending.response), events, met);
  if (error) {
    log::error(concat("response ", record->key.id, " could not be stored: ", error->message));
    auto fail = [record, why = error->message](storage::ObjectStore& store) {
      return fail_response(store, record->key, storage::State::kWhole,
                           concat("the response could not be stored: ", why));
    };
    co_await met.stores.run(std::move(fail));
  }
  met.background_runs.remove(record->key);
  if (log && !error) log->append(ending.events);
  if (log) log->end();
  co_return error;
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
