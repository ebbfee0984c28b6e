// The bytes of one connection, plain or through TLS: what Beast and Asio read from and write to.
#pragma once

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "server/wake.h"

namespace met::server {

/// Time limits are those of the socket: they hold for every byte of TLS too. At most one read and one write at a time,
/// all on the socket's loop. Plain bytes cost one test a call.
class Transport {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  /// `tls` null: plain. It outlives the transport.
  Transport(asio::ip::tcp::socket socket, asio::ssl::context* tls) : tcp_(std::move(socket)) {
    if (tls != nullptr) tls_ = std::make_unique<Tls>(tcp_, *tls);
  }

  executor_type get_executor() { return tcp_.get_executor(); }
  void expires_after(std::chrono::milliseconds time) { tcp_.expires_after(time); }
  void expires_never() { tcp_.expires_never(); }
  /// Ends the pending read, unless it is just going on with what has arrived.
  void cancel() { tcp_.cancel(); }
  void close() { tcp_.close(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return tls_ ? tls_->async_read_some(buffers, std::forward<Token>(token))
                : tcp_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return tls_ ? tls_->async_write_some(buffers, std::forward<Token>(token))
                : tcp_.async_write_some(buffers, std::forward<Token>(token));
  }

  /// Writes what a plain socket, made non-blocking, takes at once; nothing through TLS, whose records must go out whole.
  std::size_t write_now(asio::const_buffer bytes, boost::system::error_code& code) {
    if (tls_) return 0;
    const std::size_t size = tcp_.socket().write_some(bytes, code);
    if (code == asio::error::would_block) code = {};
    return size;
  }

  /// Agrees with the client on keys. False: it did not within `limit`, or does not speak TLS.
  awaitable<bool> open(std::chrono::milliseconds limit) {
    if (!tls_) co_return true;
    tcp_.expires_after(limit);
    const auto [code] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kTuple);
    co_return !code;
  }

  /// Says that nothing more will be sent: close_notify, for which the client's own is awaited up to `limit`, then the
  /// socket's end. Once.
  awaitable<void> end_sending(std::chrono::milliseconds limit) {
    if (std::exchange(ended_, true) || !tcp_.socket().is_open()) co_return;
    if (tls_) {
      tcp_.expires_after(limit);
      co_await tls_->async_shutdown(kTuple);
    }
    boost::system::error_code ignored;
    tcp_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }

  /// Reads what the client still sends, and forgets it, until it ends or `limit` has passed. After `end_sending`.
  awaitable<void> read_away(std::chrono::milliseconds limit) {
    tcp_.expires_after(limit);
    std::array<char, 16384> sink{};
    for (;;) {
      const auto [code, size] = co_await tcp_.async_read_some(asio::buffer(sink), kTuple);
      if (code) co_return;
    }
  }

 private:
  using Tls = boost::beast::ssl_stream<boost::beast::tcp_stream&>;
  static constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

  boost::beast::tcp_stream tcp_;
  std::unique_ptr<Tls> tls_;
  bool ended_ = false;
};

}  // namespace met::server
