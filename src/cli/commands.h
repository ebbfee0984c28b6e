// The subcommands of `met`. Each takes its arguments without the command's own name and returns the exit
// code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/settings.h"
#include "engine/loaded_model.h"

namespace met::cli {

inline constexpr const char* kServeUsage = "usage: met serve MODEL [flags]";
inline constexpr const char* kGenerateUsage =
    "usage: met generate MODEL -p PROMPT [flags]\n"
    "  -p, --prompt TEXT       what to answer\n"
    "  --max-tokens N          length of the answer at most (256)\n"
    "  --temperature T         0 takes the likeliest token (0)\n"
    "  --seed N                of the draws (0)\n"
    "  --raw                   the prompt as it is, without the chat template\n"
    "and the flags of met serve:";

int serve(const std::vector<std::string>& arguments);
int generate(std::vector<std::string> arguments);

/// Reads settings; on violations prints every one and returns nothing.
std::optional<config::Settings> settings_or_complain(const char* command,
                                                     const std::vector<std::string>& arguments);
/// Prints one error of a command; returns the exit code for it: 2 for the user's, 1 for others.
int complain(const char* command, const Error& error);
/// Ends the process at once: after a device failure its executor's thread may never come back (F4).
[[noreturn]] void exit_now(int code);
/// Draws how far loading has come on a terminal's last line; nothing where stderr is no terminal.
engine::Progress loading_bar();

}  // namespace met::cli
