#include <cstdio>

#include "cli/commands.h"
#include "cli/load_text.h"
#include "core/log.h"
#include "engine/model_host.h"
#include "server/server.h"

namespace met::cli {

namespace {

constexpr const char* kCommand = "serve";
constexpr int kDeviceFailed = 3;  // rule F4

void set_log_level(const std::string& name) {
  using log::Level;
  log::set_level(name == "debug"   ? Level::kDebug
                 : name == "warn"  ? Level::kWarn
                 : name == "error" ? Level::kError
                                   : Level::kInfo);
}

void log_start(const engine::LoadedModel& model) {
  std::string phases;
  char text[64];
  for (const engine::Phase& phase : model.phases) {
    std::snprintf(text, sizeof text, " %s %.0f ms", phase.name.c_str(), phase.ms);
    phases += text;
  }
  log::info("model " + model.source.name + " (" + model.config.model_type + ") with kernels " +
            model.kernel_target + " on " + model.device->info().name + ", " + model.device->info().arch +
            ", " + std::to_string(model.device->info().multiprocessors) + " threads");
  log::info("context " + std::to_string(model.memory.max_seq_len) + " tokens, " +
            std::to_string(model.plan.max_batch_size) + " sequences at once, " +
            std::to_string(model.memory.blocks) + " KV blocks; loaded:" + phases);
}

/// The switches that answer a question and exit.
std::optional<int> answer_and_exit(const config::Settings& settings) {
  if (settings.print_config) {
    std::printf("%s\n", json::write_python(config::describe_settings(settings), {.indent = 2}).c_str());
    return 0;
  }
  if (settings.dry_run) {
    const auto plan = engine::dry_run(settings);
    if (!plan) return complain(kCommand, plan.error());
    std::printf("%s", engine::describe(*plan).c_str());
    return 0;
  }
  if (settings.check_kernels) {
    const auto report = engine::check_kernels(settings);
    if (!report) return complain(kCommand, report.error());
    std::printf("%s", report->text.c_str());
    return report->exit_status;
  }
  return std::nullopt;
}

}  // namespace

int serve(const std::vector<std::string>& arguments) {
  const std::optional<config::Settings> settings = settings_or_complain(kCommand, arguments);
  if (!settings) return 2;
  set_log_level(settings->log_level);
  if (const std::optional<int> code = answer_and_exit(*settings)) return *code;

  std::unique_ptr<server::Server> server;  // reset below, before the engine that it uses
  const auto on_fault = [&server](const Error& error) {
    log::error("the device failed: " + error.message);
    if (server) server->fault();
  };
  auto host = engine::load_model(*settings, loading_bar(), on_fault);
  if (!host) return complain(kCommand, host.error());
  log_start((*host)->model());
  const auto text = load_text(*settings, (*host)->model());
  if (!text) return complain(kCommand, text.error());
  auto opened = server::Server::open({.engine = (*host)->client(), .text = *text, .settings = *settings});
  if (!opened) return complain(kCommand, opened.error());
  server = std::move(*opened);
  const int code = server->run(/*signals=*/true);
  if (code == kDeviceFailed) exit_now(code);
  server.reset();
  return code;
}

}  // namespace met::cli
