// A response that runs without its client.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/responses.h"
#include "server/run.h"

namespace met::server {

/// Runs on one loop; read, followed and cancelled from any thread. Its last act is `finish`, with the lock held.
class BackgroundRun {
 public:
  using Finish = std::function<void(const api::ResponseEncoder& encoder, const std::string& events)>;

  /// `encoder` belongs to `run`.
  BackgroundRun(asio::any_io_executor loop, bool keeps_events)
      : wake_(std::move(loop)), keeps_events_(keeps_events) {}

  Wake& wake() { return wake_; }

  /// Submits. An error: nothing runs.
  std::optional<api::ApiError> begin(std::unique_ptr<Run> run, api::ResponseEncoder* encoder, Finish finish);

  /// Takes what the engine has. False: it has ended.
  bool advance();

  /// The response as it is now.
  json::Value object();
  /// Ends it; the response as it then is.
  json::Value cancel();

  /// Events from byte `from` on are appended to `out`. False: there will be no more.
  bool read_events(std::size_t from, std::string& out);
  /// `notify` is called when there are more; from any thread. Gives a number for `unfollow`.
  int follow(std::function<void()> notify);
  void unfollow(int number);

 private:
  void finish_locked();
  void tell_locked();

  Wake wake_;
  const bool keeps_events_;
  std::mutex mutex_;
  std::unique_ptr<Run> run_;
  api::ResponseEncoder* encoder_ = nullptr;
  Finish finish_;
  json::Value last_object_;  // once it has ended
  std::string events_;
  std::map<int, std::function<void()>> followers_;
  int next_follower_ = 0;
  bool ended_ = false;
};

/// Drives it to its end.
awaitable<void> serve_background(std::shared_ptr<BackgroundRun> run);

/// Sends its events behind the first `skip`, and goes with it to its end. The client may leave: it runs on.
awaitable<void> follow_background(Exchange& http, Services& met, std::shared_ptr<BackgroundRun> run,
                                  std::size_t skip);

/// Where the event of that number begins.
std::size_t offset_of_event(const std::string& events, std::size_t number);

}  // namespace met::server
