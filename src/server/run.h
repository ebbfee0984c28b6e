// A request while it is generated: engine events in, wire bytes out. The one way from any generating route to
// the engine.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/encoder.h"
#include "api/prepare.h"
#include "server/choice.h"
#include "server/exchange.h"
#include "server/routes.h"
#include "server/services.h"

namespace met::server {

/// What a text thread makes of a body.
struct Work {
  api::GenerationRequest request;
  api::Prepared prepared;
  RateLimiter::Reservation reservation = {};
};

/// Submits prompts, turns their events to parts and gives them to an encoder. Destroying it cancels what still
/// runs (R6). Used from the loop of `wake`, which the engine notifies.
class Run {
 public:
  Run(Services& met, Wake& wake, std::uint64_t tenant, Work work, std::unique_ptr<api::Encoder> encoder);

  bool stream() const { return work_.request.stream; }
  const api::GenerationRequest& request() const { return work_.request; }
  bool done() const { return branches_.empty() && next_prompt_ == work_.prepared.prompts.size(); }
  const api::Usage& usage() const { return usage_; }

  /// Takes every event there is; the bytes that they give are appended to `out`. An error ends the whole
  /// request: the caller answers with it, or after the first byte calls `fail`.
  std::optional<api::ApiError> drain(std::string& out);
  /// What comes before the first part. Done once; the first part does it by itself.
  void begin(std::string& out);
  void end(std::string& out);
  void fail(const api::ApiError& error, std::string& out);
  /// Stores the answer; an error is why it could not.
  using Keep = std::function<awaitable<std::optional<api::ApiError>>()>;
  /// What is awaited once when the answer is whole or has failed, before its last bytes are sent.
  void at_end(Keep keep) { keep_ = std::move(keep); }
  awaitable<std::optional<api::ApiError>> keep();
  /// What an event of the first stream goes through.
  void read_ahead_in(Wake& wake, const void* frame) const;
  /// What a stream says after a silence.
  void keepalive(std::string& out);

 private:
  struct Branch {
    std::size_t prompt = 0;
    std::unique_ptr<scheduler::Generation> generation;
    std::vector<Choice> choices;
    int open = 0;
    std::int64_t cached = 0;
    bool worked = false;  // the engine has begun with the prompt
  };

  std::optional<api::ApiError> submit_some(std::string& out);
  std::optional<api::ApiError> take(Branch& branch, const scheduler::Event& event, std::string& out);
  void take_tokens(Branch& branch, const scheduler::Event& event, std::string& out);
  void count_use(Branch& branch);
  void set_cached(Branch& branch, std::int64_t cached);
  void emit(const std::vector<api::AnswerPart>& parts, std::string& out);

  Services& met_;
  Wake& wake_;
  Work work_;
  scheduler::Request common_;  // without a prompt
  std::unique_ptr<api::Encoder> encoder_;
  std::vector<Branch> branches_;
  std::size_t next_prompt_ = 0;
  const Clock::time_point submitted_ = Clock::now();
  api::Usage usage_;
  Keep keep_;
  std::int64_t prompt_used_ = 0;  // tokens of the prompts that the engine has begun with
  bool begun_ = false;
};

/// Waits, drains and sends until the run ends or the client leaves. True: the run ended by itself, without an
/// error.
awaitable<bool> serve_run(Exchange& http, Services& met, Run& run);

/// Runs `task()` on a text thread. Its value; nothing when the exchange was answered with an error or the client has
/// left.
template <class Task>
awaitable<std::optional<typename std::invoke_result_t<Task&>::value_type>> on_text_pool(Exchange& http,
                                                                                        Services& met,
                                                                                        Task task) {
  auto result = co_await met.text_pool.run(std::move(task));
  if (!result) {
    const api::ApiError busy = text_pool_full();
    co_await http.fail(busy);
    co_return std::nullopt;
  }
  if (!result->has_value()) {
    co_await http.fail(result->error());
    co_return std::nullopt;
  }
  if (http.gone()) co_return std::nullopt;
  co_return std::move(**result);
}

/// Reads the body and runs `job(body)` there.
template <class Job>
awaitable<std::optional<typename std::invoke_result_t<Job&, const std::string&>::value_type>> on_text_thread(
    Exchange& http, Services& met, Job job) {
  auto body = co_await http.read_body();
  if (!body) {
    co_await http.fail(body.error());
    co_return std::nullopt;
  }
  http.watch();
  auto task = [job = std::move(job), text = std::move(*body)]() mutable { return job(text); };
  co_return co_await on_text_pool(http, met, std::move(task));
}

/// Renders, tokenizes and checks a request: the end of every front end's work on a text thread.
std::expected<Work, api::ApiError> make_work(api::GenerationRequest request, const Services& met);

/// id, time, model and fingerprint of a new answer.
api::AnswerHead new_head(std::string_view prefix, const api::GenerationRequest& request, const Services& met);

/// Headers about the request: x-met-ignored-fields names the fields that nobody knows, percent-encoded, at most
/// 512 bytes; x-met-compacted says what was cut (C3).
void tell_of(Exchange& http, Services& met, const Work& work);

/// Unix seconds.
std::int64_t unix_now();
/// "2026-01-31T23:59:59Z".
std::string rfc3339(std::int64_t unix_s);

}  // namespace met::server
