#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "bench/benchmark.h"
#include "bench/roofline.h"
#include "bench/simulate.h"

namespace met::bench {

namespace {

Result<std::vector<int>> parse_list(const std::string& flag, std::string_view text) {
  constexpr int kLargest = 1'000'000;
  if (text.empty()) return invalid(flag, "a value is missing");
  std::vector<int> values;
  while (!text.empty()) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value <= 0 || value > kLargest ||
        (end != text.data() + text.size() && *end != ','))
      return invalid(flag,
                     "takes integers from 1 to 1000000 separated by commas, not '" + std::string(text) + "'");
    values.push_back(value);
    text.remove_prefix(std::min(text.size(), static_cast<std::size_t>(end - text.data()) + 1));
  }
  return values;
}

json::Value to_json(const BenchmarkRow& row, int threads, double bandwidth) {
  return json::Object{{"test", row.test},
                      {"tokens", row.tokens},
                      {"batch", row.batch},
                      {"threads", threads},
                      {"tokens_per_second", row.tokens_per_second},
                      {"tokens_per_second_min", row.tokens_per_second_min},
                      {"tokens_per_second_max", row.tokens_per_second_max},
                      {"bytes_per_step", row.bytes_per_step},
                      {"bytes_per_second", row.bandwidth},
                      {"read_bandwidth_share", row.bandwidth / bandwidth}};
}

json::Value to_json(const ServingRow& row) {
  return json::Object{{"test", row.test},
                      {"concurrency", row.concurrency},
                      {"prompt_tokens", row.prompt_tokens},
                      {"step_ms", row.step_ms},
                      {"step_p99_ms", row.step_p99_ms},
                      {"decode_per_second", row.decode_per_second},
                      {"total_per_second", row.total_per_second},
                      {"least", row.total_min},
                      {"most", row.total_max},
                      {"first_token_ms", row.first_token_ms}};
}

json::Value to_json(const KernelRow& row, double bandwidth) {
  const double rate = row.bytes_per_launch / row.microseconds * 1e6;
  return json::Object{{"kernel", row.name},
                      {"batch", row.batch},
                      {"launches_per_step", row.launches_per_step},
                      {"microseconds", row.microseconds},
                      {"share_of_step", row.share_of_step},
                      {"bytes", row.bytes_per_launch},
                      {"bytes_per_second", rate},
                      {"read_bandwidth_share", rate / bandwidth}};
}

void print_header(const engine::LoadedModel& model, double bandwidth) {
  std::printf("%s on %s, %s, %d %s; read bandwidth %.1f GB/s (measured); weights %.1f MB a step\n",
              model.kernel_target.c_str(), model.device->info().name.c_str(),
              model.device->info().arch.c_str(), model.device->info().multiprocessors,
              model.device->info().unified_memory ? "threads" : "multiprocessors", bandwidth / 1e9,
              model.step_weight_bytes(1) / 1e6);
  if (model.expert_bytes > 0)
    std::printf(
        "of %.1f MB, %.1f MB are experts; a step is taken to read those that uniform routing is expected to "
        "touch\n",
        static_cast<double>(model.weight_bytes) / 1e6, static_cast<double>(model.expert_bytes) / 1e6);
  for (const engine::Phase& phase : model.phases)
    std::printf("start: %-20s %9.1f ms\n", phase.name.c_str(), phase.ms);
  std::fflush(stdout);
}

// The cells that drive steps themselves.
Result<json::Array> measure_steps(engine::LoadedModel& model, const BenchmarkOptions& options,
                                  double bandwidth) {
  json::Array rows;
  if (options.prefill.empty() && options.batch.empty() && options.depth.empty()) return rows;
  std::printf("%-8s %6s %6s %12s %24s %10s %9s %7s\n", "test", "tokens", "batch", "tokens/s", "(min - max)",
              "MB/step", "GB/s", "share");
  const int threads = model.device->info().multiprocessors;
  MET_TRY(run_benchmark(model, options, [&](const BenchmarkRow& row) {
    std::printf("%-8s %6d %6d %12.1f    (%9.1f - %9.1f) %10.1f %9.2f %6.1f%%\n", row.test.c_str(), row.tokens,
                row.batch, row.tokens_per_second, row.tokens_per_second_min, row.tokens_per_second_max,
                row.bytes_per_step / 1e6, row.bandwidth / 1e9, 100 * row.bandwidth / bandwidth);
    std::fflush(stdout);
    rows.push_back(to_json(row, threads, bandwidth));
  }));
  return rows;
}

// Where the time of a step goes. Launches are seen only where no graph replays them, so the model is loaded once more.
Result<json::Array> measure_kernels(config::Settings settings, const BenchmarkOptions& options,
                                    double bandwidth) {
  json::Array rows;
  if (options.kernels.empty()) return rows;
  settings.no_graphs = true;
  MET_ASSIGN(engine::LoadedModel model, engine::load_parts(settings, {}));
  std::printf("%-32s %6s %8s %10s %10s %9s %7s %9s\n", "kernel", "batch", "a step", "us", "MB", "GB/s",
              "share", "of step");
  MET_TRY(run_kernel_table(model, options, [&](const KernelRow& row) {
    const double rate = row.bytes_per_launch / row.microseconds * 1e6;
    std::printf("%-32s %6d %8.1f %10.2f", row.name.c_str(), row.batch, row.launches_per_step,
                row.microseconds);
    if (row.bytes_per_launch > 0)
      std::printf(" %10.2f %9.1f %6.1f%%", row.bytes_per_launch / 1e6, rate / 1e9, 100 * rate / bandwidth);
    else
      std::printf(" %10s %9s %7s", "-", "-", "-");
    std::printf(" %8.1f%%\n", 100 * row.share_of_step);
    rows.push_back(to_json(row, bandwidth));
  }));
  return rows;
}

// Ending the host waits for the steps under way, which a device that stands still never ends.
[[noreturn]] void leave_failed_device(const Error& error) {
  constexpr int kDeviceFailed = 3;  // as `met serve`
  std::fprintf(stderr, "met benchmark: device failure: %s\n", error.message.c_str());
  std::fflush(nullptr);
  std::_Exit(kDeviceFailed);
}

// The cells that go through the engine.
Result<json::Array> measure_serving(engine::LoadedModel model, const config::Settings& settings,
                                    const ServingOptions& options) {
  json::Array rows;
  if (options.concurrency.empty() && options.ttft.empty() && options.bulk.empty()) return rows;
  MET_ASSIGN(const auto host, engine::start_host(std::move(model), settings, leave_failed_device));
  std::printf("%-8s %6s %8s %10s %10s %12s %12s %24s %12s\n", "test", "at once", "prompt", "step ms",
              "p99 ms", "decode tok/s", "total tok/s", "(min - max)", "first tok ms");
  MET_TRY(run_serving(*host, options, [&](const ServingRow& row) {
    std::printf("%-8s %6d %8d %10.3f %10.3f %12.1f %12.1f    (%9.2f - %9.2f) %12.2f\n", row.test.c_str(),
                row.concurrency, row.prompt_tokens, row.step_ms, row.step_p99_ms, row.decode_per_second,
                row.total_per_second, row.total_min, row.total_max, row.first_token_ms);
    std::fflush(stdout);
    rows.push_back(to_json(row));
  }));
  return rows;
}

Result<json::Value> measure(engine::LoadedModel model, const config::Settings& settings,
                            const BenchmarkOptions& options) {
  MET_ASSIGN(const double bandwidth, measure_read_bandwidth(*model.device));
  print_header(model, bandwidth);
  json::Object report{{"model", model.source.name},
                      {"kernel_target", model.kernel_target},
                      {"device", model.device->info().name},
                      {"arch", model.device->info().arch},
                      {"read_bandwidth", bandwidth}};
  MET_ASSIGN(json::Array rows, measure_steps(model, options, bandwidth));
  report.set("rows", std::move(rows));
  MET_ASSIGN(json::Array serving, measure_serving(std::move(model), settings, options.serving));
  report.set("serving", std::move(serving));
  MET_ASSIGN(json::Array kernels, measure_kernels(settings, options, bandwidth));
  report.set("kernels", std::move(kernels));
  return report;
}

int report_errors(const std::vector<Error>& errors) {
  for (const Error& e : errors)
    std::fprintf(stderr, "met benchmark: %s: %s\n", e.field.c_str(), e.message.c_str());
  return 2;
}

}  // namespace

Result<BenchmarkOptions> parse_benchmark_options(std::vector<std::string>& arguments) {
  BenchmarkOptions options;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    std::vector<int>* list = flag == "--prefill"   ? &options.prefill
                             : flag == "--batch"   ? &options.batch
                             : flag == "--depth"   ? &options.depth
                             : flag == "--kernels" ? &options.kernels
                             : flag == "--serve"   ? &options.serving.concurrency
                             : flag == "--ttft"    ? &options.serving.ttft
                             : flag == "--bulk"    ? &options.serving.bulk
                                                   : nullptr;
    int* number = flag == "--repeats"         ? &options.repeats
                  : flag == "--decode-tokens" ? &options.decode_tokens
                  : flag == "--batch-depth"   ? &options.batch_depth
                  : flag == "--serve-prompt"  ? &options.serving.prompt_tokens
                  : flag == "--serve-output"  ? &options.serving.output_tokens
                                              : nullptr;
    if (list == nullptr && number == nullptr && flag != "--json") {
      rest.push_back(flag);
      continue;
    }
    if (++i == arguments.size()) return invalid(flag, "a value is missing");
    if (flag == "--json") {
      options.json_file = arguments[i];
    } else if (arguments[i] == "none" && list != nullptr) {
      list->clear();
    } else {
      MET_ASSIGN(const std::vector<int> values, parse_list(flag, arguments[i]));
      if (list != nullptr)
        *list = values;
      else if (values.size() == 1)
        *number = values.front();
      else
        return invalid(flag, "takes one integer");
    }
  }
  arguments = std::move(rest);
  return options;
}

int benchmark_main(std::vector<std::string> arguments, const config::EnvironmentReader& environment) {
  if (!arguments.empty() && (arguments.front() == "simulate" || arguments.front() == "trace")) {
    const bool simulates = arguments.front() == "simulate";
    arguments.erase(arguments.begin());
    return simulates ? simulate_main(std::move(arguments), environment) : trace_main(arguments);
  }
  const Result<BenchmarkOptions> options = parse_benchmark_options(arguments);
  if (!options) return report_errors({options.error()});
  auto settings = config::read_settings(arguments, environment);
  if (!settings) return report_errors(settings.error());
  int batch_max = 1;
  for (const auto* list : {&options->batch, &options->serving.concurrency, &options->kernels})
    for (const int batch : *list) batch_max = std::max(batch_max, batch);
  if (!options->serving.bulk.empty()) batch_max = std::max(batch_max, kBulkRequests);
  if (!settings->max_batch_size) settings->max_batch_size = batch_max;
  if (batch_max > *settings->max_batch_size)
    return report_errors({{ErrorCode::kInvalidArgument,
                           std::to_string(batch_max) + " is more than --max-batch-size", "--batch"}});
  std::ofstream json_file;  // opened before the run, which may take minutes
  if (!options->json_file.empty()) {
    json_file.open(options->json_file);
    if (!json_file)
      return report_errors({{ErrorCode::kIo, options->json_file + " cannot be written", "--json"}});
  }
  auto model = engine::load_parts(*settings, {});
  if (!model) return report_errors({model.error()});
  auto report = measure(std::move(*model), *settings, *options);
  if (!report) return report_errors({report.error()});
  if (options->json_file.empty()) return 0;
  json_file << json::write(*report) << '\n';
  if (!json_file)
    return report_errors({{ErrorCode::kIo, options->json_file + " cannot be written", "--json"}});
  return 0;
}

}  // namespace met::bench
