#include <atomic>
#include <cstdio>
#include <span>
#include <thread>

#include "cli/commands.h"
#include "cli/load_text.h"
#include "core/log.h"
#include "core/siphash.h"
#include "engine/model_host.h"
#include "kernels/lookup.h"
#include "kernels/resolve.h"
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

/// The switches that answer a question of the settings or the kernels and exit.
std::optional<int> answer_and_exit(const config::Settings& settings) {
  if (settings.print_config) {
    std::printf("%s\n", json::write_python(config::describe_settings(settings), {.indent = 2}).c_str());
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

int print_plan(const config::Settings& settings) {
  const auto plan = engine::dry_run(settings);
  if (!plan) return complain(kCommand, plan.error());
  std::printf("%s", engine::describe(*plan).c_str());
  return 0;
}

json::Value memory_facts(const engine::LoadedModel& model) {
  json::Array terms;
  for (const engine::MemoryTerm& term : model.memory.terms) {
    json::Object row{{"name", term.name}, {"bytes", term.bytes}};
    row.append("formula", term.formula);
    terms.emplace_back(std::move(row));
  }
  json::Object out{{"budget_bytes", model.memory.budget}};
  out.append("terms", std::move(terms));
  out.append("weights_read_bytes", static_cast<std::int64_t>(model.step_weight_bytes(1)));
  out.append("blocks", model.memory.blocks);
  out.append("block_tokens", model.plan.block_tokens);
  out.append("max_model_len", model.memory.max_seq_len);
  // Beside the plan what is so after the load (M2).
  out.append("allocated_bytes", model.runner->allocated_bytes());
  const gpu::MemoryInfo memory = model.device->memory();
  out.append("device_total_bytes", memory.total);
  out.append("device_free_bytes", memory.free);
  return out;
}

/// What the model's kernels were compiled from, "" where its target does not say.
std::string kernels_hash(const std::string& kernel_target) {
  const std::string text = kernels::closures_json(kernels::targets());
  const auto closures = json::parse(text);
  const json::Value* target = closures ? closures->find(kernel_target) : nullptr;
  const json::Value* hash = target != nullptr ? target->find("hash") : nullptr;
  return hash != nullptr && hash->is_string() ? hash->as_string() : "";
}

/// What the shape of a step follows from, and one digest of it: equal digests, equal steps.
json::Value forward_facts(const engine::LoadedModel& model) {
  json::Object out{{"model_type", model.config.model_type}};
  out.append("kernel_target", model.kernel_target);
  out.append("kernels", kernels_hash(model.kernel_target));
  out.append("kv_cache_dtype", model.cache.name());
  out.append("depth", model.plan.depth);
  out.append("max_batch_size", model.plan.max_batch_size);
  out.append("max_prefill_tokens", model.plan.max_prefill_tokens);
  out.append("mixed_prefill_tokens", model.plan.mixed_prefill_tokens);
  out.append("prefill_varlen_batch", model.plan.prefill.varlen);
  out.append("prefill_codispatch", model.plan.prefill.codispatch);
  out.append("prefill_first_chunk", model.plan.prefill.first_chunk);
  out.append("block_tokens", model.plan.block_tokens);
  out.append("chunk_grid_tokens", model.plan.chunk_grid_tokens);
  json::Array buckets;  // decode rows are padded to these (G1)
  for (std::int64_t rows = 1; rows <= model.plan.max_batch_size; rows = buckets.back().as_int() + 1)
    buckets.emplace_back(scheduler::bucket_of(static_cast<int>(rows), model.plan.max_batch_size));
  out.append("buckets", std::move(buckets));
  const std::string text = json::write(out);
  const Hash128 hash = siphash128({}, std::as_bytes(std::span(text)));
  char digest[33];
  std::snprintf(digest, sizeof digest, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  out.append("digest", digest);
  return out;
}

json::Value hardware_facts(const engine::LoadedModel& model) {
  const gpu::DeviceInfo& device = model.device->info();
  json::Object out{{"device", device.name}};
  out.append("hardware", device.hardware);
  out.append("arch", device.arch);
  out.append("multiprocessors", device.multiprocessors);
  out.append("unified_memory", device.unified_memory);
  out.append("host_threads", std::thread::hardware_concurrency());
  return out;
}

/// Loads the model while the server already answers its probes; serves until a shutdown.
int load_and_serve(const config::Settings& settings, api::ModelText& text,
                   std::unique_ptr<server::Server> server) {
  std::unique_ptr<engine::ModelHost> host;
  std::atomic<bool> loaded = false;
  std::atomic<int> code = 0;
  std::jthread serving([&] {
    code = server->run(/*signals=*/true);
    if (!loaded) exit_now(code);  // told to stop while weights are read: nothing to wait for
  });
  const auto on_fault = [&server](const Error& error) {
    log::error("the device failed: " + error.message);
    server->fault();
  };
  auto made = engine::load_model(settings, loading_bar(), on_fault);
  loaded = true;
  if (!made) {
    server->shut_down();
    serving.join();
    return complain(kCommand, made.error());
  }
  host = std::move(*made);
  log_start(host->model());
  text.fingerprint += host->model().kernel_target;
  server->attach(host->client(), {.memory = memory_facts(host->model()),
                                  .forward = forward_facts(host->model()),
                                  .hardware = hardware_facts(host->model()),
                                  .kernels_unresolved = host->model().kernels_unresolved});
  serving.join();
  if (code == kDeviceFailed) exit_now(code);
  server.reset();  // before the engine that it uses
  return code;
}

}  // namespace

int serve(const std::vector<std::string>& arguments) {
  const std::optional<config::Settings> settings = settings_or_complain(kCommand, arguments);
  if (!settings) return 2;
  set_log_level(settings->log_level);
  if (const std::optional<int> code = answer_and_exit(*settings)) return *code;
  // Whatever can be refused is refused before a weight is read.
  const auto source = find_text_source(*settings);
  if (!source) return complain(kCommand, source.error());
  const auto text = load_text(*settings, *source);
  if (!text) return complain(kCommand, text.error());
  auto server = server::Server::open({.text = *text, .settings = *settings});
  if (!server) return complain(kCommand, server.error());
  if (settings->dry_run) return print_plan(*settings);
  return load_and_serve(*settings, **text, std::move(*server));
}

}  // namespace met::cli
