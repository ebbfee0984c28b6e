// One HTTP/1.1 connection: reads requests, hands each to the routes, writes answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <cstdint>
#include <utility>

#include "server/services.h"
#include "server/wake.h"

namespace met::server {

/// Bounds on what a client may do to one connection.
struct ConnectionLimits {
  std::chrono::milliseconds header{30'000};
  std::chrono::milliseconds idle{75'000};
  std::chrono::milliseconds body{300'000};          ///< all of it
  std::chrono::milliseconds body_progress{30'000};  ///< some of it; then `body_rate` holds
  std::int64_t body_rate = 0;                       ///< bytes a second on average; 0: any
  std::chrono::milliseconds write{30'000};
  std::chrono::milliseconds linger{2'000};  ///< reading on after an early refusal, so that the answer arrives
  std::uint64_t body_bytes = 32U << 20U;
  std::uint32_t header_bytes = 64U << 10U;
  std::size_t headers = 128;
  std::size_t pipelined_bytes = 256U << 10U;  ///< read ahead while a request runs
};

/// One of the open connections; counted from its accept on.
class OpenCount {
 public:
  explicit OpenCount(std::atomic<int>& count) : count_(&count) { ++count; }
  OpenCount(OpenCount&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  OpenCount& operator=(OpenCount&&) = delete;
  ~OpenCount() {
    if (count_ != nullptr) --*count_;
  }

 private:
  std::atomic<int>* count_;
};

/// Serves until the client leaves, an answer closes, or a limit is met. Lives on the socket's loop. `tls` null: plain.
awaitable<void> serve_connection(asio::ip::tcp::socket socket, asio::ssl::context* tls, Services& services,
                                 ConnectionLimits limits, OpenCount count);

}  // namespace met::server
