// One request and its answer, as a handler sees them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/error.h"
#include "server/head.h"
#include "server/wake.h"

namespace met::server {

/// A whole answer.
struct Response {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Lives on one loop. Exactly one of `respond`, `fail` and a stream answers it; a handler that leaves without
/// an answer closes the connection.
class Exchange {
 public:
  virtual ~Exchange() = default;

  const Head& head() const { return head_; }
  const std::string& id() const { return id_; }
  /// Whose key opened it; 0 without keys.
  std::uint64_t tenant() const { return tenant_; }
  void set_tenant(std::uint64_t tenant) { tenant_ = tenant; }
  /// Whose clients the route serves: decides the shape of errors.
  void set_dialect(api::Dialect dialect) { dialect_ = dialect; }
  /// What the route's pattern left open, decoded, in order.
  const std::vector<std::string>& parameters() const { return parameters_; }
  void set_parameters(std::vector<std::string> parameters) { parameters_ = std::move(parameters); }
  api::Dialect dialect() const { return dialect_; }
  /// A header of the answer, besides those that every answer has.
  void add_header(std::string name, std::string value) {
    headers_.emplace_back(std::move(name), std::move(value));
  }
  /// The same in place of an earlier one of that name.
  void set_header(std::string name, std::string value) {
    std::erase_if(headers_, [&](const auto& header) { return header.first == name; });
    add_header(std::move(name), std::move(value));
  }
  /// For the log line: ids generated.
  void set_tokens(std::int64_t tokens) { tokens_ = tokens; }

  /// The body, whole. Errors: 413, 408, or 400 for broken framing; answer with `fail`, the connection closes
  /// after it.
  virtual awaitable<std::expected<std::string, api::ApiError>> read_body() = 0;

  virtual awaitable<void> respond(Response response) = 0;
  awaitable<void> fail(const api::ApiError& error);

  /// From now on `gone` tells whether the client has left, and its leaving notifies `wake`.
  virtual void watch() = 0;
  bool gone() const { return gone_; }
  Wake& wake() { return wake_; }

  /// Starts a text/event-stream; the head goes out with the first bytes.
  virtual void begin_stream() = 0;
  /// Sends when the loop has run through all that is ready, together with what is offered until then. What the socket
  /// does not take, or a client that has left, notifies `wake`.
  virtual void offer(std::string_view bytes) = 0;
  /// The socket did not take all that was offered: `flush` comes before the next offer.
  virtual bool behind() const = 0;
  /// Sends what was offered. False: the client has left.
  virtual awaitable<bool> flush() = 0;
  virtual awaitable<bool> end_stream() = 0;
  /// Offers and flushes, for what is not sent often.
  awaitable<bool> send(std::string_view bytes);
  bool answered() const { return answered_; }

 protected:
  Exchange(Head head, asio::any_io_executor loop)
      : head_(std::move(head)), id_(request_id(head_.header("x-request-id"))), wake_(std::move(loop)) {}

  Head head_;
  std::string id_;
  std::uint64_t tenant_ = 0;
  api::Dialect dialect_ = api::Dialect::kOpenAi;
  std::vector<std::string> parameters_;
  std::vector<std::pair<std::string, std::string>> headers_;
  Wake wake_;
  std::int64_t tokens_ = 0;
  int status_ = 0;
  bool gone_ = false;
  bool answered_ = false;
};

}  // namespace met::server
