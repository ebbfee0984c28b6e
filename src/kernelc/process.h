// Running compilers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace met::kernelc {

struct Command {
  std::vector<std::string> argv;
  std::filesystem::path folder;  ///< where it runs
};

struct Outcome {
  int status = 0;      ///< exit status; 127: it could not be started; 128 + n: signal n ended it
  std::string output;  ///< stdout and stderr together
};

/// Runs a command to its end. Safe from several threads.
Outcome run(const Command& command);

/// As a shell would read it.
std::string to_string(const Command& command);

/// Whether `program` is a file that may be run, looked up in PATH where it names no folder.
bool can_run(const std::string& program);

}  // namespace met::kernelc
