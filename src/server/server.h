// The HTTP server: opens the port, serves, shuts down.
#pragma once

#include <memory>
#include <string>

#include "api/model_text.h"
#include "config/settings.h"
#include "core/error.h"
#include "scheduler/request.h"
#include "server/facts.h"

namespace met::server {

class Server {
 public:
  struct Parts {
    std::shared_ptr<const api::ModelText> text;
    config::Settings settings;
  };

  /// Reads the keys, opens the store, binds and listens; nothing is accepted yet. Errors: of the keys (see Auth), rates and TLS
  /// (see open_tls); naming --store-dir or --dump; kIo naming --bind or --port.
  static Result<std::unique_ptr<Server>> open(Parts parts);
  virtual ~Server() = default;

  virtual int port() const = 0;
  /// The model is ready: from now on requests are served. Before, probes say that it loads and the rest is
  /// 503. `engine` outlives the server. Once; from any thread.
  virtual void attach(scheduler::Client& engine, Facts facts) = 0;
  /// Serves until a shutdown has ended; returns the process's exit code: 0, or 3 after `fault`. `signals`:
  /// SIGINT and SIGTERM begin a shutdown, a second one exits at once (F7).
  virtual int run(bool signals) = 0;
  /// Begins a shutdown; from any thread.
  virtual void shut_down() = 0;
  /// The device has failed and every request has ended (F4): ends within seconds with code 3; from any
  /// thread.
  virtual void fault() = 0;
};

}  // namespace met::server
