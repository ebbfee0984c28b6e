// `met`: one binary, its subcommands.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/benchmark.h"
#include "bench/simulate.h"
#include "cli/commands.h"
#include "config/environment.h"
#include "config/version.h"
#include "kernels/resolve.h"

namespace {

constexpr const char* kUsage =
    "usage: met COMMAND …\n"
    "  met serve MODEL [flags]              serve a model over HTTP; met serve --help lists the flags\n"
    "  met generate MODEL -p PROMPT         one answer, streamed to the terminal, with figures\n"
    "  met benchmark MODEL [flags]          prefill and decode: tokens/s, GB/s, share of the measured "
    "bandwidth\n"
    "  met benchmark simulate TRACE [flags] a trace of requests through the scheduler, on a virtual clock\n"
    "  met benchmark trace [flags]          makes such a trace\n"
    "  met --version                        the version and the kernel targets in this binary\n"
    "MODEL is a directory, a .gguf file, or a Hugging Face id that is in the local cache.\n";

int print_version() {
  std::printf("met %s\nkernel targets:\n", std::string(met::config::kVersion).c_str());
  for (const met::kernels::Target& target : met::kernels::targets())
    std::printf("  %s\n", met::kernels::full_name(target).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  const auto wants_help = [&] { return std::ranges::find(arguments, "--help") != arguments.end(); };
  if (command == "--version") return print_version();
  if (command == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const char* usage = command == "serve"       ? met::cli::kServeUsage
                      : command == "generate"  ? met::cli::kGenerateUsage
                      : command == "benchmark" ? met::bench::kBenchmarkUsage
                                               : nullptr;
  if (command == "benchmark" && wants_help()) {
    if (arguments.front() == "simulate") usage = met::bench::kSimulateUsage;
    if (arguments.front() == "trace") {
      std::fputs(met::bench::kTraceUsage, stdout);
      return 0;
    }
  }
  if (usage != nullptr && wants_help()) {
    std::fputs(met::config::settings_help(usage).c_str(), stdout);
    return 0;
  }
  if (command == "serve") return met::cli::serve(arguments);
  if (command == "generate") return met::cli::generate(std::move(arguments));
  if (command == "benchmark") {
    const met::config::Environment& environment = met::config::Environment::process();
    return met::bench::benchmark_main(std::move(arguments),
                                      [&](std::string_view name) { return environment.get(name); });
  }
  std::fputs(kUsage, stderr);
  return 2;
}
