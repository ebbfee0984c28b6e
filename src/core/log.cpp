#include "core/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

namespace met::log {

namespace {
std::atomic<Level> g_level{Level::kInfo};
}

void set_level(Level level) { g_level.store(level, std::memory_order_relaxed); }
bool enabled(Level level) { return level >= g_level.load(std::memory_order_relaxed); }

void write(Level level, std::string_view message) {
  if (!enabled(level)) return;
  constexpr const char* kNames[] = {"debug", "info ", "warn ", "error"};
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char head[64];
  const std::size_t date = std::strftime(head, sizeof head, "%Y-%m-%dT%H:%M:%S", &utc);
  const int rest = std::snprintf(head + date, sizeof head - date, ".%03dZ %s ", static_cast<int>(ms),
                                 kNames[static_cast<int>(level)]);
  std::string line(head, date + static_cast<std::size_t>(rest));
  line += message;
  line += '\n';
  // One write call keeps lines of several threads apart.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace met::log
