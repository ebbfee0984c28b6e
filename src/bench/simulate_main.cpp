#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <variant>

#include "bench/simulate.h"
#include "bench/simulator.h"
#include "core/concat.h"
#include "core/json.h"
#include "engine/serve_plan.h"
#include "kernels/lookup.h"
#include "kernels/resolve.h"

namespace met::bench {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMaxSeqLen = 40'960;

/// A flag and where its value goes.
struct Flag {
  std::string_view name;
  std::variant<std::int64_t*, double*, int*, std::string*> to;
  double least = 0;
  double most = kMost;
};

template <class T>
Result<T> number(const Flag& flag, std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto v = static_cast<double>(value);
  if (code != std::errc{} || end != text.data() + text.size() || !(v >= flag.least) || v > flag.most)
    return invalid(std::string(flag.name), concat("'", text, "' is no number from ", json::write(flag.least),
                                                  " to ", json::write(flag.most)));
  return value;
}

Result<> assign(const Flag& flag, const std::string& text) {
  return std::visit(
      [&]<class T>(T* to) -> Result<> {
        if constexpr (std::is_same_v<T, std::string>) {
          *to = text;
        } else {
          MET_ASSIGN(*to, number<T>(flag, text));
        }
        return {};
      },
      flag.to);
}

/// Takes the flags of `table` out of `arguments` and leaves the others.
Result<std::vector<std::string>> take_flags(const std::vector<std::string>& arguments,
                                            std::span<const Flag> table) {
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Flag* flag = nullptr;
    for (const Flag& row : table)
      if (row.name == arguments[i]) flag = &row;
    if (flag == nullptr) {
      rest.push_back(arguments[i]);
      continue;
    }
    if (++i == arguments.size()) return invalid(std::string(flag->name), "a value is missing");
    MET_TRY(assign(*flag, arguments[i]));
  }
  return rest;
}

int fail_with(const Error& error) {
  std::fprintf(stderr, "met benchmark: %s%s%s\n", error.field.c_str(), error.field.empty() ? "" : ": ",
               error.message.c_str());
  return 2;
}

struct SimulateFlags {
  std::string policies;
  std::string router = "least-loaded";
  std::string hardware;
  std::string json_file;
  std::int64_t kv_blocks = 48'811;
  int swap_blocks = 0;
  std::string recurrent = "off";
  double rate_scale = 1;
  SimulationOptions options;

  std::vector<Flag> table() {
    StepTime& time = options.time;
    return {{"--policies", &policies},
            {"--replicas", &options.replicas, 1, 100'000},
            {"--router", &router},
            {"--hardware", &hardware},
            {"--kv-blocks", &kv_blocks, 2, 100'000'000},
            {"--recurrent", &recurrent},
            {"--swap-blocks", &swap_blocks, 0, 100'000'000},
            {"--swap-block-ns", &time.swap_block_ns, 1},
            {"--rate-scale", &rate_scale, 1e-6, 1e6},
            {"--step-us", &time.step_us, 1},
            {"--mixed-us", &time.mixed_us},
            {"--token-ns", &time.token_ns},
            {"--context-ns", &time.context_ns},
            {"--pair-ps", &time.pair_ps},
            {"--host-us", &time.host_us},
            {"--json", &json_file}};
  }
};

Result<const kernels::Hardware*> hardware_of(const std::string& name) {
  const kernels::Hardware* found = kernels::find_hardware(name.empty() ? "hopper" : name);
  if (found == nullptr && name.empty() && !kernels::targets().empty())
    found = kernels::targets().front().hardware;
  if (found == nullptr) return invalid("--hardware", "this build has no hardware '" + name + "'");
  return found;
}

/// The device that the hardware's defaults were made for: ids stay on it unless it is the host.
Result<engine::DeviceTraits> traits_of(const kernels::Hardware& hardware, const std::string& recurrent) {
  if (recurrent != "off" && recurrent != "on" && recurrent != "midchunk")
    return invalid("--recurrent", "'" + recurrent + "' is none of off, on, midchunk");
  const bool host = hardware.name == "cpu";
  return engine::DeviceTraits{
      .feeds_ids = !host,
      .unified_memory = host,
      .recurrent = {.has_state = recurrent != "off", .captures_midchunk = recurrent == "midchunk"}};
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    out.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return out;
}

Result<std::vector<TracedRequest>> load_trace(const std::string& path, double rate_scale) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kIo, path + " cannot be read", "TRACE");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  MET_ASSIGN(std::vector<TracedRequest> trace, read_trace(text));
  if (trace.empty()) return invalid("TRACE", path + " has no requests");
  for (TracedRequest& request : trace)
    request.at_us = static_cast<std::int64_t>(static_cast<double>(request.at_us) / rate_scale);
  return trace;
}

json::Value milliseconds(const FineHistogram& times) {
  json::Object out{{"count", times.count()}, {"mean", times.mean() / 1000}};
  for (const auto& [name, share] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}})
    out.append(name, static_cast<double>(times.percentile(share)) / 1000);
  out.append("max", static_cast<double>(times.most()) / 1000);
  return out;
}

json::Object latencies(const Latencies& l) {
  return {{"ttft_ms", milliseconds(l.first_token)},
          {"itl_ms", milliseconds(l.between_tokens)},
          {"e2e_ms", milliseconds(l.whole)}};
}

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

json::Object to_json(const std::string& policy, const Simulated& s, const SimulationOptions& options) {
  const double seconds = static_cast<double>(s.duration_us) * 1e-6;
  const auto rate = [&](std::int64_t count) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  };
  json::Object out{{"policy", policy},
                   {"replicas", options.replicas},
                   {"requests", s.requests},
                   {"finished", s.finished},
                   {"refused", s.refused},
                   {"too_long", s.too_long},
                   {"left", s.left},
                   {"ended_early", s.ended_early},
                   {"seconds", seconds},
                   {"requests_per_second", rate(s.finished)},
                   {"output_tokens_per_second", rate(s.output_tokens)},
                   {"prompt_tokens_per_second", rate(s.prompt_tokens)},
                   {"hit_rate", ratio(s.hit_tokens, s.prompt_tokens)},
                   {"preemptions", s.preemptions},
                   {"swaps", s.swaps},
                   {"recomputed_share", ratio(s.recomputed_tokens, s.computed_tokens)},
                   {"evictions", s.evictions},
                   {"states_stored", s.states_stored},
                   {"states_restored", s.states_restored},
                   {"steps", s.steps},
                   {"device_busy", ratio(s.busy_us, s.duration_us * options.replicas)},
                   {"waiting_most", s.waiting_most},
                   {"admission_skips_most", s.skips_most},
                   {"queued_mean_ms", s.queued_s * 1000}};
  for (auto& [name, value] : latencies(s.all)) out.append(name, std::move(value));
  if (s.tenants.empty()) return out;
  json::Object tenants;
  for (const auto& [tenant, l] : s.tenants) tenants.append(std::to_string(tenant), latencies(l));
  out.append("tenants", std::move(tenants));
  return out;
}

void print_times(const char* what, const Latencies& l) {
  const auto ms = [](const FineHistogram& h, double share) {
    return static_cast<double>(h.percentile(share)) / 1000;
  };
  std::printf("%-12s %10s %10.2f %10.2f %10.2f %12.2f\n", what, "ttft ms", ms(l.first_token, 0.5),
              ms(l.first_token, 0.9), ms(l.first_token, 0.99),
              static_cast<double>(l.first_token.most()) / 1000);
  std::printf("%-12s %10s %10.2f %10.2f %10.2f %12.2f\n", "", "itl ms", ms(l.between_tokens, 0.5),
              ms(l.between_tokens, 0.9), ms(l.between_tokens, 0.99),
              static_cast<double>(l.between_tokens.most()) / 1000);
}

void print(const std::string& policy, const Simulated& s, const SimulationOptions& options) {
  const double seconds = static_cast<double>(s.duration_us) * 1e-6;
  const auto count = [](std::int64_t v) { return static_cast<long long>(v); };
  std::printf(
      "%s: %lld of %lld requests finished in %.3f s (%lld refused, %lld too long, %lld left, %lld ended "
      "early)\n",
      policy.c_str(), count(s.finished), count(s.requests), seconds, count(s.refused), count(s.too_long),
      count(s.left), count(s.ended_early));
  std::printf(
      "  %.1f requests/s, %.1f output and %.1f prompt tokens/s; hit rate %.4f; %lld preemptions (%lld by "
      "swap), %.4f of "
      "the computed tokens again; devices busy %.3f; at most %lld waiting, %.2f ms on average\n",
      static_cast<double>(s.finished) / std::max(seconds, 1e-9),
      static_cast<double>(s.output_tokens) / std::max(seconds, 1e-9),
      static_cast<double>(s.prompt_tokens) / std::max(seconds, 1e-9), ratio(s.hit_tokens, s.prompt_tokens),
      count(s.preemptions), count(s.swaps), ratio(s.recomputed_tokens, s.computed_tokens),
      ratio(s.busy_us, s.duration_us * options.replicas), count(s.waiting_most), s.queued_s * 1000);
  std::printf("%-12s %10s %10s %10s %10s %12s\n", "", "", "p50", "p90", "p99", "max");
  print_times("all", s.all);
  for (const auto& [tenant, l] : s.tenants) print_times(("tenant " + std::to_string(tenant)).c_str(), l);
}

Result<config::Settings> settings_of(const std::vector<std::string>& arguments, const std::string& policy,
                                     const config::EnvironmentReader& environment) {
  std::vector<std::string> all = arguments;
  if (!policy.empty()) all.insert(all.end(), {"--scheduler", policy});
  auto settings = config::read_settings(all, environment);
  if (!settings) return std::unexpected(settings.error().front());
  return std::move(*settings);
}

Result<> run(const std::vector<std::string>& arguments, const config::EnvironmentReader& environment) {
  SimulateFlags flags;
  MET_ASSIGN(const std::vector<std::string> rest, take_flags(arguments, flags.table()));
  const std::optional<Router> router = router_of(flags.router);
  if (!router)
    return invalid("--router", "'" + flags.router + "' is none of round-robin, least-loaded, prefix");
  flags.options.router = *router;
  MET_ASSIGN(const kernels::Hardware* hardware, hardware_of(flags.hardware));
  std::vector<std::string> policies = split(flags.policies);
  if (policies.empty()) policies.emplace_back();
  std::vector<TracedRequest> trace;
  json::Array rows;
  for (const std::string& policy : policies) {
    MET_ASSIGN(const config::Settings settings, settings_of(rest, policy, environment));
    if (trace.empty()) {
      MET_ASSIGN(trace, load_trace(settings.model, flags.rate_scale));
    }
    MET_ASSIGN(const engine::DeviceTraits traits, traits_of(*hardware, flags.recurrent));
    MET_ASSIGN(scheduler::PlanConfig plan,
               engine::plan_config(settings, *hardware, traits, settings.max_seq_len.value_or(kMaxSeqLen)));
    plan.blocks_total = static_cast<int>(flags.kv_blocks);
    plan.swap_blocks = flags.swap_blocks;
    flags.options.engine = engine::engine_config(settings, plan);
    flags.options.engine.swap_block_ns = 2 * flags.options.time.swap_block_ns;
    const auto began = std::chrono::steady_clock::now();
    MET_ASSIGN(const Simulated done, simulate(trace, flags.options));
    // Not part of the result, which is the same whenever it is made.
    std::fprintf(stderr, "%s: simulated in %.1f s\n", settings.scheduler.c_str(),
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    print(settings.scheduler, done, flags.options);
    rows.emplace_back(to_json(settings.scheduler, done, flags.options));
  }
  if (flags.json_file.empty()) return {};
  std::ofstream file(flags.json_file);
  file << json::write(json::Object{{"rows", std::move(rows)}}) << '\n';
  if (!file) return fail(ErrorCode::kIo, flags.json_file + " cannot be written", "--json");
  return {};
}

}  // namespace

int simulate_main(std::vector<std::string> arguments, const config::EnvironmentReader& environment) {
  const Result<> done = run(arguments, environment);
  return done ? 0 : fail_with(done.error());
}

int trace_main(const std::vector<std::string>& arguments) {
  ConversationShape shape;
  std::int64_t seed = 1;
  const std::vector<Flag> table = {{"--requests", &shape.requests, 1, 20'000'000},
                                   {"--per-second", &shape.per_second, 1e-3, 1e6},
                                   {"--seed", &seed},
                                   {"--system-prompts", &shape.system_prompts, 0, 1e6},
                                   {"--system-tokens", &shape.system_tokens, 0, 1e6},
                                   {"--follow-up", &shape.follow_up, 0, 0.99},
                                   {"--think-seconds", &shape.think_seconds, 0, 1e6},
                                   {"--context", &shape.context, 1, 1e8},
                                   {"--tenants", &shape.tenants, 1, 1e6}};
  const Result<std::vector<std::string>> rest = take_flags(arguments, table);
  if (!rest) return fail_with(rest.error());
  if (!rest->empty()) return fail_with({ErrorCode::kInvalidArgument, "unknown flag", rest->front()});
  shape.seed = static_cast<std::uint64_t>(seed);
  for (const TracedRequest& request : make_conversations(shape))
    std::fputs(write_line(request).c_str(), stdout);
  return std::ferror(stdout) == 0 && std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace met::bench
