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
#include "server/background_runs.h"
#include "server/response_record.h"
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

/// How a background response has ended.
struct BackgroundEnding {
  ResponseEnding response;
  std::string events;  ///< the last ones, which its log does not have yet
};

/// Runs on one loop; read and cancelled from any thread. Nobody but its own coroutine keeps it over a wait: it goes
/// before its loop does. Whoever ends it gets its ending, and stores it: until that is done it shows itself as before.
class BackgroundRun {
 public:
  BackgroundRun(asio::any_io_executor loop, std::shared_ptr<const ResponseRecord> record, bool keeps_events)
      : wake_(std::move(loop)),
        record_(std::move(record)),
        log_(keeps_events ? std::make_shared<EventLog>() : nullptr) {}

  Wake& wake() { return wake_; }
  const std::shared_ptr<const ResponseRecord>& record() const { return record_; }
  /// Its events; none where it was not made with `stream`.
  const std::shared_ptr<EventLog>& log() const { return log_; }

  /// Submits. `encoder` belongs to `run`. An error: nothing runs.
  std::optional<api::ApiError> begin(std::unique_ptr<Run> run, api::ResponseEncoder* encoder);
  /// Takes what the engine has. True: there is more to come. `ending` is set where this call has ended it.
  bool advance(std::optional<BackgroundEnding>& ending);
  /// Ends it, unless it has ended.
  std::optional<BackgroundEnding> cancel();
  /// The response as it is now.
  json::Value object();

 private:
  BackgroundEnding end_locked(std::string events);

  Wake wake_;
  const std::shared_ptr<const ResponseRecord> record_;
  const std::shared_ptr<EventLog> log_;
  std::mutex mutex_;
  std::unique_ptr<Run> run_;
  api::ResponseEncoder* encoder_ = nullptr;
  json::Value shown_;  // once it has ended
  bool ended_ = false;
};

/// Drives it to its end and stores it.
awaitable<void> serve_background(std::shared_ptr<BackgroundRun> run, Services& met);

/// Stores what a run has become, then tells its followers. Errors: it could not be stored as it ended, and is a failed
/// one instead.
awaitable<std::optional<api::ApiError>> keep_background(std::shared_ptr<const ResponseRecord> record,
                                                        std::shared_ptr<EventLog> log,
                                                        BackgroundEnding ending, Services& met);

/// Sends the events of a log behind the first `skip`, and those that come, to their end. The client may leave.
awaitable<void> follow_events(Exchange& http, Services& met, std::shared_ptr<EventLog> log, std::size_t skip);

/// Where the event of that number begins.
std::size_t offset_of_event(const std::string& events, std::size_t number);

}  // namespace met::server
