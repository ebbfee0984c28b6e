// The server's own numbers, beside those of the engine's snapshot.
#pragma once

#include <atomic>
#include <cstdint>

namespace met::server {

struct Counters {
  std::atomic<std::uint64_t> bytes_in = 0;  ///< of bodies
  std::atomic<std::uint64_t> bytes_out = 0;
  std::atomic<std::uint64_t> requests = 0;          ///< that reached a route
  std::atomic<std::uint64_t> refused = 0;           ///< answered 4xx or 5xx before the engine saw them
  std::atomic<std::uint64_t> limited_requests = 0;  ///< 429: requests a minute
  std::atomic<std::uint64_t> limited_tokens = 0;    ///< 429 or 400: tokens a minute
  std::atomic<std::uint64_t> disconnects = 0;       ///< clients that left a running request
  std::atomic<std::uint64_t> probes = 0;            ///< of the prefix cache
  std::atomic<std::uint64_t> compactions = 0;       ///< conversations that were shortened to fit
  std::atomic<std::uint64_t> calls_complete = 0;    ///< tool calls whose arguments are a whole JSON object
  std::atomic<std::uint64_t> calls_incomplete = 0;  ///< malformed, or cut by a limit
};

}  // namespace met::server
