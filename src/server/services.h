// What handlers may use. One for the whole server; outlives every connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "api/model_text.h"
#include "api/request.h"
#include "config/settings.h"
#include "scheduler/request.h"
#include "server/auth.h"
#include "server/background_runs.h"
#include "server/counters.h"
#include "server/dump.h"
#include "server/facts.h"
#include "server/rate_limit.h"
#include "server/recent_prompts.h"
#include "server/stores.h"
#include "server/text_pool.h"

namespace met::server {

/// Where the process is in its life; written by the server, read by handlers.
struct Lifecycle {
  std::atomic<bool> ready = false;  ///< an engine is attached
  std::atomic<bool> draining = false;
  std::atomic<int> exchanges = 0;        ///< requests that are being answered
  std::atomic<int> background_runs = 0;  ///< responses that run without their client
  std::atomic<int> connections = 0;      ///< open sockets
};

struct Services {
  scheduler::Client& engine;
  std::shared_ptr<const api::ModelText> text;
  config::Settings settings;
  api::ParseContext parse;
  Auth auth;
  SteadyClock clock;
  UnixClock wall_clock;  ///< for what clients read
  RateLimiter limiter;
  Counters counters;
  RecentPrompts recent_prompts;
  TextPool text_pool;
  Stores stores;
  std::unique_ptr<Dump> dump;  ///< null without --dump
  BackgroundRuns background_runs;
  Facts facts;  ///< written before `life.ready`
  Lifecycle life;
};

}  // namespace met::server
