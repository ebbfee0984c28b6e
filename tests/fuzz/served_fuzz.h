// A server over the fake engine that lives as long as the process, for inputs that come through its socket.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "core/log.h"
#include "server/server.h"
#include "tests/server/client.h"
#include "tests/server/fake_engine.h"
#include "tests/server/tiny_text.h"

namespace met::testing {

/// Ends the run as a finding, with a reason.
[[noreturn]] inline void found(std::string_view why, std::string_view detail = {}) {
  std::fprintf(stderr, "%s\n%s\n", std::string(why).c_str(), std::string(detail.substr(0, 2000)).c_str());
  std::abort();
}

class FuzzedServer {
 public:
  FuzzedServer() {
    log::set_level(log::Level::kError);
    const std::vector<std::string> flags = {"--port", "0", "--io-threads", "1", "--text-threads", "1"};
    const auto settings = config::read_settings(flags, {});
    if (!settings) std::abort();
    auto opened = server::Server::open({.text = tiny_text(), .settings = *settings});
    if (!opened) std::abort();
    server_ = std::move(*opened);
    server_->attach(engine_, {});
    thread_ = std::jthread([this] { server_->run(/*signals=*/false); });
  }
  ~FuzzedServer() {
    server_->shut_down();
    thread_.join();
  }
  int port() const { return server_->port(); }

  /// A connection to it, once the system has a port left: thousands come in a second.
  std::unique_ptr<Client> connect() const {
    for (int i = 0; i < 2000; ++i) {
      auto client = std::make_unique<Client>(port(), /*timeout_s=*/60);
      if (client->connected()) return client;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    found("no connection to the server");
  }

 private:
  FakeEngine engine_;
  std::unique_ptr<server::Server> server_;
  std::jthread thread_;
};

}  // namespace met::testing
