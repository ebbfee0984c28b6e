// Log lines on stderr: "2026-01-31T13:05:09.123Z info  message". Prompts, answers and arguments are never
// logged.
#pragma once

#include <string_view>

namespace met::log {

enum class Level { kDebug, kInfo, kWarn, kError };

/// Lines below `level` are dropped. Default: info.
void set_level(Level level);
bool enabled(Level level);

/// Writes one line; safe from any thread.
void write(Level level, std::string_view message);
inline void debug(std::string_view message) { write(Level::kDebug, message); }
inline void info(std::string_view message) { write(Level::kInfo, message); }
inline void warn(std::string_view message) { write(Level::kWarn, message); }
inline void error(std::string_view message) { write(Level::kError, message); }

}  // namespace met::log
