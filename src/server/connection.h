// One HTTP/1.1 connection: reads requests, hands each to the routes, writes answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>

#include "server/services.h"
#include "server/wake.h"

namespace met::server {

/// Bounds on what a client may do to one connection.
struct ConnectionLimits {
  std::chrono::milliseconds header{30'000};
  std::chrono::milliseconds idle{75'000};
  std::chrono::milliseconds body_progress{30'000};
  std::chrono::milliseconds write{30'000};
  std::chrono::milliseconds linger{2'000};  ///< reading on after an early refusal, so that the answer arrives
  std::uint64_t body_bytes = 32U << 20U;
  std::uint32_t header_bytes = 64U << 10U;
  std::size_t pipelined_bytes = 256U << 10U;  ///< read ahead while a request runs
};

/// Serves until the client leaves, an answer closes, or a limit is met. Lives on the socket's loop.
awaitable<void> serve_connection(asio::ip::tcp::socket socket, Services& services, ConnectionLimits limits);

}  // namespace met::server
