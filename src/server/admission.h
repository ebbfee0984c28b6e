// The rate limiter's place in a request's way: who may go on, and what the answer's headers say of it.
#pragma once

#include <cstdint>
#include <string>

#include "server/run.h"

namespace met::server {

/// Counts a request of the exchange's tenant. False: it was answered with 429.
awaitable<bool> admit_request(Exchange& http, Services& met);

/// Reserves the tokens that the work may take; it gives back what it did not use when it goes. False: the
/// exchange was answered, with 429, or with 400 where no wait would help.
awaitable<bool> admit_work(Exchange& http, Services& met, Work& work);

/// Anthropic's way to write when: the first whole second at which the instant has passed, "2026-01-31T13:05:09Z".
std::string instant_text(std::int64_t unix_us);

/// OpenAI's way to write a duration: "20ms", "1.5s", "6m0s", "1h0m2s". Rounded up to milliseconds.
std::string duration_text(std::int64_t microseconds);

}  // namespace met::server
