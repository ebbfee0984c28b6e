#include "server/connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <optional>

#include "core/concat.h"
#include "core/log.h"
#include "server/exchange.h"
#include "server/outbox.h"
#include "server/read_limit.h"
#include "server/routes.h"
#include "server/transport.h"

namespace met::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

api::ApiError simple_error(int status, std::string message) {
  api::ApiError error;
  error.status = status;
  error.type = api::error_type(status);
  error.message = std::move(message);
  return error;
}

/// What a parser's complaint means; nothing when the client just left.
std::optional<api::ApiError> error_of(error_code code) {
  if (code == http::error::body_limit) return simple_error(413, "the body is larger than this server takes");
  if (code == http::error::header_limit || code == http::error::buffer_overflow)
    return simple_error(431, "the request's head is larger than this server takes");
  if (code == asio::error::timed_out)
    return simple_error(408, "the request's head took longer than this server waits");
  if (code == http::error::bad_version) return simple_error(505, "this server speaks HTTP/1.0 and HTTP/1.1");
  if (code == http::error::end_of_stream || code == http::error::partial_message) return std::nullopt;
  if (code.category() == http::make_error_code(http::error::bad_method).category())
    return simple_error(400, concat("malformed request: ", code.message()));
  return std::nullopt;
}

Head head_of(const Parser& parser) {
  Head head;
  const auto& message = parser.get();
  head.method = std::string_view(message.method_string().data(), message.method_string().size());
  head.version = static_cast<int>(message.version());
  head.keep_alive = message.keep_alive();
  for (const auto& field : message)
    head.headers.emplace_back(std::string(field.name_string().data(), field.name_string().size()),
                              std::string(field.value().data(), field.value().size()));
  return head;
}

/// The connection and, one after the other, its exchanges. Everything runs on the socket's loop.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket socket, asio::ssl::context* tls, Services& services,
             ConnectionLimits limits)
      : stream_(std::move(socket), tls), services_(services), limits_(limits) {}

  awaitable<void> run();

 private:
  class OneExchange;

  awaitable<void> serve();
  awaitable<bool> wait_for_bytes();
  awaitable<error_code> read_head();
  awaitable<void> answer(Head head);
  awaitable<error_code> write_all(std::string_view a, std::string_view b = {});
  std::expected<std::size_t, error_code> write_now(std::string_view bytes);
  awaitable<void> refuse(const api::ApiError& error);
  awaitable<void> linger();
  awaitable<void> watch_loop(OneExchange* exchange);
  awaitable<void> stop_watching();
  bool head_is_here() const;
  bool body_is_here() const;
  awaitable<void> skip_body();

  Transport stream_;
  const asio::any_io_executor loop_ = stream_.get_executor();
  Outbox& outbox_ = Outbox::of(loop_);
  ReadLimit limit_{stream_};
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  Services& services_;
  const ConnectionLimits limits_;
  bool keep_alive_ = true;
  bool half_closed_ = false;
  // the pending read of a running request
  bool watching_ = false;
  bool stop_watch_ = false;
  std::optional<Wake> watch_ended_;
};

class Connection::OneExchange final : public Exchange, private Outbox::Sender {
 public:
  OneExchange(Connection& connection, Head head)
      : Exchange(std::move(head), connection.stream_.get_executor()), c_(connection), begin_(Clock::now()) {}

  awaitable<std::expected<std::string, api::ApiError>> read_body() override;
  awaitable<std::expected<void, api::ApiError>> read_some_body(Clock::time_point begin);
  awaitable<void> respond(Response response) override;
  void watch() override {
    if (c_.watching_ || c_.half_closed_) return;
    c_.watching_ = true;
    c_.stop_watch_ = false;
    asio::co_spawn(c_.stream_.get_executor(), c_.watch_loop(this), asio::detached);
  }
  void begin_stream() override;
  void offer(std::string_view bytes) override;
  bool behind() const override { return !gone_ && !unsent().empty() && !is_linked(); }
  awaitable<bool> flush() override;
  awaitable<bool> end_stream() override;

  void left() {
    gone_ = true;
    wake_.notify();
  }
  void log() const;

 private:
  std::string head_text(int status, std::string_view type) const;
  std::string_view unsent() const { return std::string_view(frames_).substr(sent_); }
  void send_now() override;

  Connection& c_;
  const Clock::time_point begin_;
  std::string pending_head_;
  std::string frames_;    ///< offered, not sent in full
  std::size_t sent_ = 0;  ///< of them
  std::optional<DumpedExchange> dumped_;
  bool chunked_ = false;
};

// ---- reading

awaitable<void> Connection::run() {
  const auto self = shared_from_this();
  const bool open = co_await stream_.open(limits_.header);
  if (!open) co_return;
  co_await serve();
  co_await stream_.end_sending(limits_.linger);
}

awaitable<void> Connection::serve() {
  while (keep_alive_) {
    const bool some = co_await wait_for_bytes();
    if (!some) co_return;
    const error_code code = co_await read_head();
    if (code) {
      const auto error = error_of(code);
      if (error) co_await refuse(*error);
      co_return;
    }
    Head head = head_of(*parser_);
    const auto target = parser_->get().target();
    const bool target_ok = split_target({target.data(), target.size()}, head);
    auto framing = check_framing(head);
    if (head.headers.size() > limits_.headers)
      framing = simple_error(431, concat("a request has at most ", limits_.headers, " headers"));
    if (!framing && !target_ok) framing = simple_error(400, "the request target is malformed");
    if (framing) {
      co_await refuse(*framing);
      co_return;
    }
    keep_alive_ = head.keep_alive && !services_.life.draining;
    co_await answer(std::move(head));
  }
}

/// The first byte of a request. Empty lines before a request line are skipped (RFC 9112, section 2.2); they do not
/// prolong the wait.
awaitable<bool> Connection::wait_for_bytes() {
  stream_.expires_after(limits_.idle);
  for (;;) {
    const auto* bytes = static_cast<const char*>(buffer_.data().data());
    std::size_t blank = 0;
    while (blank < buffer_.size() && (bytes[blank] == '\r' || bytes[blank] == '\n')) ++blank;
    buffer_.consume(blank);
    if (buffer_.size() > 0) co_return true;
    if (half_closed_) co_return false;
    const auto [code, size] = co_await stream_.async_read_some(buffer_.prepare(8192), kTuple);
    if (code) co_return false;
    buffer_.commit(size);
  }
}

awaitable<error_code> Connection::read_head() {
  parser_.emplace();
  parser_->header_limit(limits_.header_bytes);
  parser_->body_limit(limits_.body_bytes);
  if (!head_is_here()) limit_.set(Clock::now() + limits_.header, weak_from_this());
  const auto [code, size] = co_await http::async_read_header(stream_, buffer_, *parser_, kTuple);
  limit_.lift();
  const bool late = code == asio::error::operation_aborted && limit_.passed();
  co_return late ? error_code(asio::error::timed_out) : code;
}

bool Connection::head_is_here() const {
  const std::string_view bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  return bytes.find("\r\n\r\n") != std::string_view::npos;
}

bool Connection::body_is_here() const {
  const auto length = parser_->content_length_remaining();
  return parser_->is_done() || (length && *length <= buffer_.size());
}

/// A body that nobody asked for, if it has arrived: the connection then stays usable after an early answer.
awaitable<void> Connection::skip_body() {
  while (!parser_->is_done() && body_is_here()) {
    const auto [code, size] = co_await http::async_read_some(stream_, buffer_, *parser_, kTuple);
    if (code) co_return;
  }
}

awaitable<std::expected<std::string, api::ApiError>> Connection::OneExchange::read_body() {
  const std::string_view expect = head_.header("expect");
  if (!expect.empty() && !equal_ignoring_case(expect, "100-continue"))
    co_return std::unexpected(simple_error(417, "the only expectation that is supported is 100-continue"));
  if (!expect.empty() && head_.version >= 11 && !c_.body_is_here()) {
    const error_code code = co_await c_.write_all("HTTP/1.1 100 Continue\r\n\r\n");
    if (code) gone_ = true;
  }
  const Clock::time_point begin = Clock::now();
  while (!c_.parser_->is_done() && !gone_) {
    const auto read = co_await read_some_body(begin);
    if (read) continue;
    c_.keep_alive_ = false;
    co_return std::unexpected(read.error());
  }
  if (gone_) co_return std::unexpected(simple_error(400, "the client left before its body was complete"));
  c_.services_.counters.bytes_in += c_.parser_->get().body().size();
  if (Dump* dump = c_.services_.dump.get())
    dumped_.emplace(*dump, concat(head_.method, " ", head_.path.substr(0, 200)), id_,
                    c_.parser_->get().body());
  co_return std::move(c_.parser_->get().body());
}

/// What has arrived, or else the next read. Errors: what the client is told; one that has left is marked.
awaitable<std::expected<void, api::ApiError>> Connection::OneExchange::read_some_body(
    Clock::time_point begin) {
  const ConnectionLimits& limits = c_.limits_;
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  const Clock::time_point whole = begin + limits.body;
  const Clock::time_point silent = Clock::now() + limits.body_progress;
  Clock::time_point slow = Clock::time_point::max();
  if (limits.body_rate > 0) {
    const auto earned = std::chrono::duration<double>(static_cast<double>(c_.parser_->get().body().size()) /
                                                      static_cast<double>(limits.body_rate));
    slow = begin + limits.body_progress +
           std::chrono::duration_cast<Clock::duration>(
               std::min<std::chrono::duration<double>>(earned, limits.body));
  }
  const Clock::time_point deadline = std::min({whole, silent, slow});
  if (!c_.body_is_here()) c_.limit_.set(deadline, c_.weak_from_this());
  const auto [code, size] = co_await http::async_read_some(c_.stream_, c_.buffer_, *c_.parser_, kTuple);
  c_.limit_.lift();
  if (!code) co_return std::expected<void, api::ApiError>();
  if (code == asio::error::operation_aborted && c_.limit_.passed()) {
    if (deadline == whole)
      co_return std::unexpected(simple_error(408, "the body took longer than this server waits"));
    if (deadline == slow)
      co_return std::unexpected(simple_error(408, concat("the body comes slower than ", limits.body_rate,
                                                         " bytes a second, which is the least")));
    co_return std::unexpected(
        simple_error(408, concat("nothing of the body has come for ", seconds(limits.body_progress), " s")));
  }
  if (auto error = error_of(code)) co_return std::unexpected(*error);
  gone_ = true;
  co_return std::expected<void, api::ApiError>();
}

// ---- answering

awaitable<void> Connection::answer(Head head) {
  ++services_.life.exchanges;
  OneExchange exchange(*this, std::move(head));
  bool failed = false;
  try {
    co_await dispatch(exchange, services_);
  } catch (
      const std::exception& e) {  // of libraries: memory, mostly. The connection ends, the server goes on
    log::error(concat("request failed: ", e.what()));
    failed = true;
  }
  co_await stop_watching();
  if (failed && !exchange.answered()) {
    const api::ApiError error = simple_error(500, "internal error");
    co_await exchange.fail(error);
  }
  --services_.life.exchanges;
  exchange.log();
  if (!exchange.answered() || exchange.gone()) {
    keep_alive_ = false;
    stream_.close();
    co_return;
  }
  if (!parser_->is_done()) {
    keep_alive_ = false;
    co_await linger();
  }
}

/// An early refusal leaves bytes unread; closing at once would reset the connection under the answer.
awaitable<void> Connection::linger() {
  co_await stream_.end_sending(limits_.linger);
  co_await stream_.read_away(limits_.linger);
}

awaitable<error_code> Connection::write_all(std::string_view a, std::string_view b) {
  // Three, of which one is empty: of an array of two Asio keeps the first when it is written, and Beast's TLS takes no
  // byte of what stands behind an empty buffer and is longer than 16 KiB.
  const std::array<asio::const_buffer, 3> buffers = {asio::buffer(a.data(), a.size()),
                                                     asio::buffer(b.data(), b.size())};
  stream_.expires_after(limits_.write);
  const auto [code, size] = co_await asio::async_write(stream_, buffers, kTuple);
  if (!code) services_.counters.bytes_out += size;
  co_return code;
}

/// Writes what the socket takes at once, without a timer and without a suspension.
std::expected<std::size_t, error_code> Connection::write_now(std::string_view bytes) {
  error_code code;
  const std::size_t size = stream_.write_now(asio::buffer(bytes.data(), bytes.size()), code);
  if (code) return std::unexpected(code);
  services_.counters.bytes_out += size;
  return size;
}

/// Answers what never became a request.
awaitable<void> Connection::refuse(const api::ApiError& error) {
  keep_alive_ = false;
  const std::string body = json::write(api::error_body(error));
  const std::string head = concat("HTTP/1.1 ", error.status, " ", reason_phrase(error.status),
                                  "\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
                                  "\r\nX-Request-Id: ", random_id("req_"), "\r\nConnection: close\r\n\r\n");
  log::info(concat("refused before routing: ", error.status, " ", error.message));
  const error_code code = co_await write_all(head, body);
  if (!code) co_await linger();
}

std::string Connection::OneExchange::head_text(int status, std::string_view type) const {
  std::string out =
      concat("HTTP/1.1 ", status, " ", reason_phrase(status), "\r\nX-Request-Id: ", id_, "\r\n");
  if (!type.empty()) out += concat("Content-Type: ", type, "\r\n");
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_).count();
  out += concat("Openai-Processing-Ms: ", ms, "\r\n");
  if (dialect_ == api::Dialect::kAnthropic) {
    out += concat("Request-Id: ", id_, "\r\n");
  } else if (head_.path.starts_with("/v1/")) {
    out += "Openai-Organization: metrale-local\r\nOpenai-Version: 2020-10-01\r\n";
  }
  for (const auto& [name, value] : headers_) out += concat(name, ": ", value, "\r\n");
  if (!c_.keep_alive_) {
    out += "Connection: close\r\n";
  } else if (head_.version < 11) {
    out += "Connection: keep-alive\r\n";
  }
  return out;
}

awaitable<void> Connection::OneExchange::respond(Response response) {
  answered_ = true;
  status_ = response.status;
  co_await c_.skip_body();
  if (c_.services_.life.draining || !c_.parser_->is_done()) c_.keep_alive_ = false;
  std::string head = head_text(response.status, response.body.empty() ? std::string_view{} : response.type);
  for (const auto& [name, value] : response.headers) head += concat(name, ": ", value, "\r\n");
  if (response.status != 204 && response.status != 304)
    head += concat("Content-Length: ", response.body.size(), "\r\n");
  head += "\r\n";
  const bool has_body = head_.method != "HEAD" && response.status != 204;
  const std::string_view body = has_body ? std::string_view(response.body) : std::string_view();
  if (dumped_) dumped_->add(body);
  const error_code code = co_await c_.write_all(head, body);
  if (code) gone_ = true;
  if (dumped_) dumped_->end(status_, !gone_);
}

void Connection::OneExchange::begin_stream() {
  answered_ = true;
  status_ = 200;
  if (dumped_) dumped_->end(status_, /*whole=*/false);
  chunked_ = head_.version >= 11;
  if (!chunked_) c_.keep_alive_ = false;
  pending_head_ = head_text(200, "text/event-stream; charset=utf-8");
  pending_head_ += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  pending_head_ += chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
}

void Connection::OneExchange::offer(std::string_view bytes) {
  if (gone_) return;
  if (dumped_) dumped_->add(bytes);
  if (unsent().empty()) {
    frames_.clear();
    sent_ = 0;
  }
  frames_ += pending_head_;
  pending_head_.clear();
  const bool framed = chunked_ && !bytes.empty();  // a chunk of no bytes would be the last one
  if (framed) {
    char hex[20];
    frames_.append(hex, std::to_chars(hex, hex + sizeof hex, bytes.size(), 16).ptr);
    frames_ += "\r\n";
  }
  frames_ += bytes;
  if (framed) frames_ += "\r\n";
  if (!is_linked()) c_.outbox_.add(*this, c_.loop_);
}

void Connection::OneExchange::send_now() {
  const std::expected<std::size_t, error_code> sent = c_.write_now(unsent());
  gone_ = gone_ || !sent;
  sent_ += sent.value_or(0);
  if (gone_ || behind()) wake_.notify();  // whoever waits for more to send goes on with `flush`
}

awaitable<bool> Connection::OneExchange::flush() {
  if (is_linked()) unlink();
  if (gone_ || unsent().empty()) co_return !gone_;
  const error_code code = co_await c_.write_all(unsent());
  sent_ = frames_.size();
  if (code) gone_ = true;
  co_return !gone_;
}

awaitable<bool> Connection::OneExchange::end_stream() {
  if (!pending_head_.empty()) offer({});  // a stream without events has a head all the same
  if (is_linked()) unlink();
  const std::string_view end = chunked_ ? "0\r\n\r\n" : "";
  if (!gone_ && unsent().size() + end.size() > 0) {
    const error_code code = co_await c_.write_all(unsent(), end);
    sent_ = frames_.size();
    if (code) gone_ = true;
  }
  if (dumped_) dumped_->end(status_, !gone_);
  co_return !gone_;
}

void Connection::OneExchange::log() const {
  if (!log::enabled(log::Level::kInfo)) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_).count();
  std::string line =
      concat(head_.method, " ", head_.path.substr(0, 120), " ", gone_ ? 499 : status_, " ", ms, " ms");
  if (tokens_ > 0) line += concat(" ", tokens_, " tokens");
  log::info(line + " " + id_);
}

// ---- noticing that the client has left

/// Reads ahead while a request runs: bytes belong to the next request, an end or error is a client that has
/// left. An end after "Connection: close" may be a client that only closed its sending side; it still waits.
awaitable<void> Connection::watch_loop(OneExchange* exchange) {
  const auto self = shared_from_this();
  stream_.expires_never();
  while (!stop_watch_ && buffer_.size() < limits_.pipelined_bytes) {
    const auto [code, size] = co_await stream_.async_read_some(buffer_.prepare(4096), kTuple);
    if (!code) {
      buffer_.commit(size);
      continue;
    }
    if (code != asio::error::operation_aborted) half_closed_ = true;  // an end is told once
    if (stop_watch_) break;
    const bool end = code == asio::error::eof || code == asio::ssl::error::stream_truncated;
    if (!end || exchange->head().keep_alive) exchange->left();
    break;
  }
  watching_ = false;
  if (watch_ended_) watch_ended_->notify();
}

awaitable<void> Connection::stop_watching() {
  if (!watching_) co_return;
  stop_watch_ = true;
  watch_ended_.emplace(stream_.get_executor());
  while (watching_) {  // again, where the first came between two reads of one TLS record
    stream_.cancel();
    co_await watch_ended_->wait(Clock::now() + std::chrono::milliseconds(20));
  }
  watch_ended_.reset();
}

}  // namespace

awaitable<bool> Exchange::send(std::string_view bytes) {
  offer(bytes);
  co_return co_await flush();
}

awaitable<void> Exchange::fail(const api::ApiError& error) {
  Response response;
  response.status = error.status;
  response.body = json::write(api::error_body(error, dialect_, id_));
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.retry_after_s > 0)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  co_await respond(std::move(response));
}

awaitable<void> serve_connection(asio::ip::tcp::socket socket, asio::ssl::context* tls, Services& services,
                                 ConnectionLimits limits, OpenCount) {
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.non_blocking(true, ignored);  // `write_now` never waits
  const auto connection = std::make_shared<Connection>(std::move(socket), tls, services, limits);
  co_await connection->run();
}

}  // namespace met::server
