#include "server/admission.h"

#include <algorithm>
#include <cstdio>

#include "core/concat.h"

namespace met::server {
namespace {

using api::ApiError;

void add_meter(Exchange& http, const UnixClock& wall_clock, const char* kind,
               const RateLimiter::Meter& meter) {
  if (meter.limit == 0) return;
  const bool anthropic = http.dialect() == api::Dialect::kAnthropic;
  const auto set = [&](const char* what, std::string value) {
    http.set_header(
        anthropic ? concat("Anthropic-Ratelimit-", kind, "-", what) : concat("X-Ratelimit-", what, "-", kind),
        std::move(value));
  };
  set("Limit", std::to_string(meter.limit));
  set("Remaining", std::to_string(meter.remaining));
  set("Reset",
      anthropic ? instant_text(wall_clock.now_us() + meter.reset_us) : duration_text(meter.reset_us));
}

void add_headers(Exchange& http, Services& met) {
  const RateLimiter::State state = met.limiter.state(http.tenant());
  add_meter(http, met.wall_clock, "Requests", state.requests);
  add_meter(http, met.wall_clock, "Tokens", state.tokens);
}

ApiError too_many(const char* what, std::int64_t per_minute, std::int64_t wait_us) {
  const auto seconds =
      static_cast<int>(std::clamp<std::int64_t>((wait_us + 999'999) / 1'000'000, 1, 1 << 30));
  ApiError error(
      {ErrorCode::kResourceExhausted,
       concat("the limit of ", per_minute, " ", what, " a minute is reached; try again in ", seconds, " s"),
       {}});
  error.code = "rate_limit_exceeded";
  error.retry_after_s = seconds;
  return error;
}

ApiError too_large(std::int64_t tokens, std::int64_t burst) {
  ApiError error(
      {ErrorCode::kInvalidArgument,
       concat("the request may take ", tokens,
              " tokens (prompt and largest answer), but the limit of this key never holds more than ", burst,
              ": shorten the prompt or lower max_tokens; a retry cannot succeed"),
       {}});
  error.code = "request_exceeds_rate_limit";
  return error;
}

struct Demand {
  std::int64_t prompt = 0;
  std::int64_t all = 0;  ///< with the longest answer
};

Demand demand_of(const Work& work, std::int64_t max_seq_len) {
  const api::GenerationRequest& r = work.request;
  Demand out;
  for (const api::Prompt& prompt : work.prepared.prompts) {
    const std::int64_t length = std::ssize(prompt.ids);
    const std::int64_t room = std::max<std::int64_t>(0, max_seq_len - length);
    out.prompt += length;
    out.all += length + r.best_of.value_or(r.n) * std::min(r.max_tokens.value_or(room), room);
  }
  return out;
}

awaitable<bool> refuse(Exchange& http, Services& met, ApiError error) {
  ++met.counters.refused;
  add_headers(http, met);
  co_await http.fail(error);
  co_return false;
}

}  // namespace

awaitable<bool> admit_request(Exchange& http, Services& met) {
  if (!met.limiter.on()) co_return true;
  const auto taken = met.limiter.take_request(http.tenant());
  if (taken) {
    add_headers(http, met);
    co_return true;
  }
  ++met.counters.limited_requests;
  ApiError error = too_many("requests", met.limiter.limits().requests.per_minute, taken.error().wait_us);
  co_return co_await refuse(http, met, std::move(error));
}

awaitable<bool> admit_work(Exchange& http, Services& met, Work& work) {
  const Rate& rate = met.limiter.limits().tokens;
  if (!rate.on()) co_return true;
  const Demand demand = demand_of(work, met.engine.max_seq_len());
  // A request that bounds its answer by nothing but the context takes what the bucket can hold, and owes the rest.
  const bool bounded = work.request.max_tokens.has_value();
  const std::int64_t tokens =
      bounded ? demand.all : std::max(demand.prompt, std::min(demand.all, rate.burst));
  auto reserved = met.limiter.reserve(http.tenant(), tokens);
  if (reserved) {
    work.reservation = std::move(*reserved);
    add_headers(http, met);
    co_return true;
  }
  ++met.counters.limited_tokens;
  const std::int64_t wait_us = reserved.error().wait_us;
  ApiError error = wait_us > 0 ? too_many("tokens", rate.per_minute, wait_us) : too_large(tokens, rate.burst);
  co_return co_await refuse(http, met, std::move(error));
}

std::string instant_text(std::int64_t unix_us) { return rfc3339((unix_us + 999'999) / 1'000'000); }

std::string duration_text(std::int64_t microseconds) {
  const std::int64_t ms = (std::max<std::int64_t>(0, microseconds) + 999) / 1000;
  if (ms == 0) return "0s";
  if (ms < 1000) return concat(ms, "ms");
  const std::int64_t hours = ms / 3'600'000;
  const std::int64_t minutes = ms / 60'000 % 60;
  std::string out;
  if (hours > 0) out += concat(hours, "h");
  if (hours > 0 || minutes > 0) out += concat(minutes, "m");
  out += std::to_string(ms / 1000 % 60);
  char fraction[8];
  const int length = std::snprintf(fraction, sizeof fraction, ".%03d", static_cast<int>(ms % 1000));
  std::string_view digits(fraction, static_cast<std::size_t>(length));
  while (digits.ends_with('0')) digits.remove_suffix(1);
  if (digits != ".") out += digits;
  return out + "s";
}

}  // namespace met::server
