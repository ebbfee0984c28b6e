#include "server/server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/concat.h"
#include "core/log.h"
#include "server/connection.h"
#include "server/late_engine.h"
#include "server/tls.h"

namespace met::server {
namespace {

using asio::ip::tcp;
using boost::system::error_code;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr auto kLastWrites = std::chrono::seconds(2);  // after the engine has ended everything

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

ConnectionLimits limits_of(const config::Settings& s) {
  ConnectionLimits limits;
  limits.header = milliseconds_of(s.header_timeout_s);
  limits.body = milliseconds_of(s.body_timeout_s);
  limits.body_progress = limits.header;
  limits.body_rate = s.body_min_rate;
  limits.idle = milliseconds_of(s.idle_timeout_s);
  limits.body_bytes = static_cast<std::uint64_t>(s.max_body_bytes);
  return limits;
}

api::ParseContext parse_context(const api::ModelText& text, const config::Settings& settings) {
  api::ParseContext out;
  out.models = text.names;
  out.defaults = text.defaults;
  out.detect_refusals = settings.detect_refusals;
  out.vocabulary = static_cast<std::int64_t>(text.tokenizer.vocabulary_size());
  return out;
}

class HttpServer final : public Server {
 public:
  HttpServer(Parts parts, Auth auth, const std::vector<std::uint64_t>& tenants,
             std::unique_ptr<storage::ObjectStore> store, const RateLimits& rates,
             std::unique_ptr<asio::ssl::context> tls, std::unique_ptr<Dump> dump)
      : limits_(limits_of(parts.settings)),
        tls_(std::move(tls)),
        services_{.engine = engine_,
                  .text = parts.text,
                  .settings = parts.settings,
                  .parse = parse_context(*parts.text, parts.settings),
                  .auth = std::move(auth),
                  .clock = {},
                  .wall_clock = {},
                  .limiter = RateLimiter(rates, tenants, services_.clock),
                  .counters = {},
                  .recent_prompts = {},
                  .text_pool = TextPool(static_cast<std::size_t>(parts.settings.text_threads),
                                        static_cast<int>(4 * parts.settings.max_num_seqs)),
                  .stores = Stores(std::move(store)),
                  .dump = std::move(dump),
                  .background_runs = {},
                  .facts = {},
                  .life = {}} {
    for (std::int64_t i = 0; i < parts.settings.io_threads; ++i)
      loops_.push_back(std::make_unique<asio::io_context>(1));
    acceptor_.emplace(*loops_[0]);
    signals_.emplace(*loops_[0]);
    shutdown_.emplace(loops_[0]->get_executor());
    shutdown_notifier_ = shutdown_->notifier();
  }

  ~HttpServer() override {
    if (drainer_.joinable()) drainer_.join();
    services_.stores.stop();  // while the loops that it wakes are there
  }

  Result<void> listen() {
    const config::Settings& s = services_.settings;
    error_code code;
    const auto address = asio::ip::make_address(s.bind == "localhost" ? "127.0.0.1" : s.bind, code);
    if (code) return invalid("--bind", concat("'", s.bind, "' is not an address"));
    const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(s.port));
    acceptor_->open(endpoint.protocol(), code);
    if (!code) acceptor_->set_option(asio::socket_base::reuse_address(true), code);
    if (!code) acceptor_->bind(endpoint, code);
    if (!code) acceptor_->listen(4096, code);
    if (code) {
      const bool address_is_wrong = code == asio::error::address_family_not_supported ||
                                    code == boost::system::errc::address_not_available;
      return fail(ErrorCode::kIo, concat("cannot listen on ", s.bind, " port ", s.port, ": ", code.message()),
                  address_is_wrong ? "--bind" : "--port");
    }
    port_ = acceptor_->local_endpoint().port();
    if (!address.is_loopback() && !services_.auth.required())
      log::warn(concat("listening on ", s.bind,
                       " without keys: anybody who reaches it may use it (--require-auth)"));
    return {};
  }

  int port() const override { return port_; }

  void attach(scheduler::Client& engine, Facts facts) override {
    services_.facts = std::move(facts);
    engine_.attach(engine);
    services_.life.ready = true;
    log::info(concat("ready: ", tls_ ? "https" : "http", "://", url_host(), ":", port_));
  }

  int run(bool signals) override {
    std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards;
    guards.reserve(loops_.size());
    for (const auto& loop : loops_) guards.push_back(asio::make_work_guard(*loop));
    if (signals) {
      signals_->add(SIGINT);
      signals_->add(SIGTERM);
      asio::co_spawn(*loops_[0], watch_signals(), asio::detached);
    }
    asio::co_spawn(*loops_[0], accept_all(), asio::detached);
    asio::co_spawn(*loops_[0], end_when_told(), asio::detached);
    if (!engine_.attached())
      log::info(concat("listening on ", url_host(), ":", port_, " while the model loads"));
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < loops_.size(); ++i) threads.emplace_back([this, i] { loops_[i]->run(); });
    loops_[0]->run();
    threads.clear();
    if (drainer_.joinable()) drainer_.join();
    return exit_code_;
  }

  void shut_down() override { shutdown_notifier_(); }
  void fault() override {
    exit_code_ = 3;
    shutdown_notifier_();
  }

 private:
  /// The address as a URL writes it: IPv6 in brackets.
  std::string url_host() const {
    const std::string& bind = services_.settings.bind;
    return bind.find(':') == std::string::npos ? bind : "[" + bind + "]";
  }

  awaitable<void> accept_all() {
    for (std::size_t next = 0;; ++next) {
      asio::io_context& loop = *loops_[next % loops_.size()];
      auto [code, socket] = co_await acceptor_->async_accept(loop, kTuple);
      if (code == asio::error::operation_aborted || !acceptor_->is_open()) co_return;
      if (code) {  // out of descriptors, mostly: some will come back
        log::warn(concat("accept: ", code.message()));
        asio::steady_timer pause(*loops_[0], std::chrono::milliseconds(10));
        co_await pause.async_wait(kTuple);
        continue;
      }
      if (services_.life.connections >= services_.settings.max_connections) continue;
      asio::co_spawn(loop,
                     serve_connection(std::move(socket), tls_.get(), services_, limits_,
                                      OpenCount(services_.life.connections)),
                     asio::detached);
    }
  }

  awaitable<void> watch_signals() {
    const auto [code, number] = co_await signals_->async_wait(kTuple);
    if (code) co_return;
    log::info(concat(number == SIGINT ? "SIGINT" : "SIGTERM", ": shutting down; once more to exit at once"));
    shutdown_->notify();
    const auto [again_code, again] = co_await signals_->async_wait(kTuple);
    if (!again_code) std::_Exit(128 + again);
  }

  /// F7: no new work, live requests end or are ended, their last bytes go out, the loops stop.
  awaitable<void> end_when_told() {
    bool told = false;
    while (!told) told = co_await shutdown_->wait(Clock::now() + std::chrono::hours(1));
    services_.life.draining = true;
    const auto timeout_us = static_cast<std::int64_t>(services_.settings.shutdown_timeout * 1e6);
    Wake drained(loops_[0]->get_executor());
    drainer_ = std::jthread([this, timeout_us, tell = drained.notifier()] {
      services_.engine.drain(timeout_us);
      tell();
    });
    bool ended = false;
    while (!ended) ended = co_await drained.wait(Clock::now() + std::chrono::hours(1));
    const auto deadline = Clock::now() + kLastWrites;
    while (services_.life.exchanges + services_.life.background_runs > 0 && Clock::now() < deadline)
      co_await drained.wait(Clock::now() + std::chrono::milliseconds(5));
    error_code ignored;
    acceptor_->close(ignored);
    log::info("shut down");
    for (const auto& loop : loops_) loop->stop();
  }

  const ConnectionLimits limits_;
  const std::unique_ptr<asio::ssl::context> tls_;
  LateEngine engine_;
  Services services_;
  // Loops go before what their coroutines use.
  std::vector<std::unique_ptr<asio::io_context>> loops_;
  std::optional<tcp::acceptor> acceptor_;
  std::optional<asio::signal_set> signals_;
  std::optional<Wake> shutdown_;
  std::function<void()> shutdown_notifier_;
  std::jthread drainer_;
  std::atomic<int> exit_code_ = 0;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::open(Parts parts) {
  MET_ASSIGN(Auth auth, Auth::from(parts.settings));
  MET_ASSIGN(const RateLimits rates, RateLimits::from(parts.settings));
  MET_ASSIGN(auto tls, open_tls(parts.settings));
  MET_ASSIGN(auto store, Stores::open(parts.settings));
  MET_ASSIGN(auto dump, Dump::open(parts.settings, auth));
  const std::vector<std::uint64_t> tenants = auth.tenants();
  auto server = std::make_unique<HttpServer>(std::move(parts), std::move(auth), tenants, std::move(store),
                                             rates, std::move(tls), std::move(dump));
  MET_TRY(server->listen());
  return server;
}

}  // namespace met::server
