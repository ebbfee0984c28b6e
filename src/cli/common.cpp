#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "config/environment.h"

namespace met::cli {

std::optional<config::Settings> settings_or_complain(const char* command,
                                                     const std::vector<std::string>& arguments) {
  const config::Environment& environment = config::Environment::process();
  auto settings =
      config::read_settings(arguments, [&](std::string_view name) { return environment.get(name); });
  for (const std::string& name : environment.unknown())
    std::fprintf(stderr, "met %s: warning: %s is set, but there is no such variable; it has no effect\n",
                 command, name.c_str());
  if (settings) return std::move(*settings);
  for (const Error& error : settings.error()) complain(command, error);
  return std::nullopt;
}

int complain(const char* command, const Error& error) {
  std::fprintf(stderr, "met %s: %s%s%s\n", command, error.field.c_str(), error.field.empty() ? "" : ": ",
               error.message.c_str());
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kNotFound:
      return 2;
    default:
      return 1;
  }
}

void exit_now(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

engine::Progress loading_bar() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [shown = -1](std::size_t done, std::size_t total) mutable {
    constexpr int kWidth = 40;
    const int percent = total == 0 ? 100 : static_cast<int>(100 * done / total);
    if (percent == shown) return;
    shown = percent;
    const int filled = kWidth * percent / 100;
    std::fprintf(stderr, "\rloading [%s%s] %3d %%%s",
                 std::string(static_cast<std::size_t>(filled), '#').c_str(),
                 std::string(static_cast<std::size_t>(kWidth - filled), ' ').c_str(), percent,
                 percent == 100 ? "\r\033[K" : "");
  };
}

}  // namespace met::cli
