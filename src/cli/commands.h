// The subcommands of `met`. Each takes its arguments without the command's own name and returns the exit
// code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/settings.h"
#include "engine/loaded_model.h"

namespace met::cli {

int serve(const std::vector<std::string>& arguments);
int generate(std::vector<std::string> arguments);

/// Reads settings; on violations prints every one and returns nothing.
std::optional<config::Settings> settings_or_complain(const char* command,
                                                     const std::vector<std::string>& arguments);
/// Prints one error of a command; returns the exit code for it: 2 for the user's, 1 for others.
int complain(const char* command, const Error& error);
/// Draws how far loading has come on a terminal's last line; nothing where stderr is no terminal.
engine::Progress loading_bar();

}  // namespace met::cli
