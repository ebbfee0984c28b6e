// A response that runs without its client.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "api/responses.h"
#include "server/run.h"

namespace met::server {

/// The events that a background response has written, for whoever reads them. Safe from any thread.
class EventLog {
 public:
  void append(std::string_view bytes);
  void end();
  /// Events from byte `from` on are appended to `out`. False: there will be no more.
  bool read(std::size_t from, std::string& out);
  std::string text();

 private:
  friend class Following;
  void tell_locked();

  std::mutex mutex_;
  std::string text_;
  bool ended_ = false;
  std::map<int, std::function<void()>> followers_;
  int next_follower_ = 0;
};

/// While it lives, `notify` is called when a log grows or ends; from any thread.
class Following {
 public:
  Following(std::shared_ptr<EventLog> log, std::function<void()> notify);
  ~Following();
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;

 private:
  std::shared_ptr<EventLog> log_;
  int number_ = 0;
};

/// Runs on one loop; read and cancelled from any thread. Its last act is `finish`, with the lock held. Nobody
/// but its own coroutine keeps it over a wait: it goes before its loop does.
class BackgroundRun {
 public:
  using Finish = std::function<void(const api::ResponseEncoder& encoder, const std::string& events)>;

  BackgroundRun(asio::any_io_executor loop, bool keeps_events)
      : wake_(std::move(loop)), log_(keeps_events ? std::make_shared<EventLog>() : nullptr) {}

  Wake& wake() { return wake_; }

  /// Submits. `encoder` belongs to `run`. An error: nothing runs.
  std::optional<api::ApiError> begin(std::unique_ptr<Run> run, api::ResponseEncoder* encoder, Finish finish);

  /// Takes what the engine has. False: it has ended.
  bool advance();

  /// The response as it is now.
  json::Value object();
  /// Ends it; the response as it then is.
  json::Value cancel();
  /// Its events; none where it was not made with `stream`.
  std::shared_ptr<EventLog> log() const { return log_; }

 private:
  void finish_locked();

  Wake wake_;
  const std::shared_ptr<EventLog> log_;
  std::mutex mutex_;
  std::unique_ptr<Run> run_;
  api::ResponseEncoder* encoder_ = nullptr;
  Finish finish_;
  json::Value last_object_;  // once it has ended
  bool ended_ = false;
};

/// Drives it to its end.
awaitable<void> serve_background(std::shared_ptr<BackgroundRun> run);

/// Sends the events of a log behind the first `skip`, and those that come, to their end. The client may leave.
awaitable<void> follow_events(Exchange& http, Services& met, std::shared_ptr<EventLog> log, std::size_t skip);

/// Where the event of that number begins.
std::size_t offset_of_event(const std::string& events, std::size_t number);

}  // namespace met::server
