#include "telemetry/metric_table.h"

#include <algorithm>

namespace met::telemetry {
namespace {

constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;
constexpr auto kHistogram = MetricType::kHistogram;

constexpr Metric kMetrics[] = {
    {"vllm:num_requests_running", kGauge, "sequences", {}, "Sequences with a device row."},
    {"vllm:num_requests_waiting", kGauge, "sequences", {}, "Sequences that are queued or parked."},
    {"vllm:kv_cache_usage_perc", kGauge, "ratio", {}, "Referenced KV blocks, 1 is all of them."},
    {"vllm:prefix_cache_queries_total", kCounter, "tokens", {}, "Prompt tokens at first admissions."},
    {"vllm:prefix_cache_hits_total", kCounter, "tokens", {}, "Of those, tokens that the prefix cache held."},
    {"vllm:num_preemptions_total", kCounter, "preemptions", {}, "Sequences that gave their blocks up."},
    {"met_prefix_cache_requests_total",
     kCounter,
     "requests",
     {"result"},
     "Requests at their first admission: whether the prefix cache held a part of the prompt."},
    {"met_preemptions_total", kCounter, "preemptions", {"mode"}, "The same by mode."},
    {"vllm:prompt_tokens_total", kCounter, "tokens", {}, "Prompt tokens, counted with the first token."},
    {"vllm:prompt_tokens_cached_total",
     kCounter,
     "tokens",
     {},
     "Of the prompt tokens, those found in the cache."},
    {"vllm:prompt_tokens_by_source_total",
     kCounter,
     "tokens",
     {"source"},
     "Prompt tokens by where they came from."},
    {"vllm:generation_tokens_total", kCounter, "tokens", {}, "Tokens emitted."},
    {"vllm:request_success_total",
     kCounter,
     "requests",
     {"finished_reason"},
     "Requests that ended, by reason."},
    {"vllm:corrupted_requests_total",
     kCounter,
     "requests",
     {},
     "Requests that failed for logits that are not finite."},
    {"vllm:time_to_first_token_seconds", kHistogram, "seconds", {}, "From acceptance to the first token."},
    {"vllm:inter_token_latency_seconds", kHistogram, "seconds", {}, "Gap between successive emissions."},
    {"vllm:request_time_per_output_token_seconds",
     kHistogram,
     "seconds",
     {},
     "Mean gap of a request's tokens."},
    {"vllm:e2e_request_latency_seconds", kHistogram, "seconds", {}, "From acceptance to the end."},
    {"vllm:request_queue_time_seconds", kHistogram, "seconds", {}, "From acceptance to admission."},
    {"vllm:request_prefill_time_seconds", kHistogram, "seconds", {}, "From admission to the first token."},
    {"vllm:request_decode_time_seconds", kHistogram, "seconds", {}, "From the first token to the last."},
    {"vllm:request_inference_time_seconds", kHistogram, "seconds", {}, "From admission to the last token."},
    {"vllm:request_prompt_tokens", kHistogram, "tokens", {}, "Prompt tokens of a request."},
    {"vllm:request_generation_tokens", kHistogram, "tokens", {}, "Tokens that a request got."},
    {"vllm:request_max_num_generation_tokens",
     kHistogram,
     "tokens",
     {},
     "Tokens of a request's longest choice."},
    {"vllm:request_prefill_kv_computed_tokens",
     kHistogram,
     "tokens",
     {},
     "Prompt tokens of a request that were computed, not found in the cache."},
    {"vllm:request_params_max_tokens", kHistogram, "tokens", {}, "max_tokens as requests ask for it."},
    {"vllm:request_params_n", kHistogram, "choices", {}, "n as requests ask for it."},
    {"vllm:iteration_tokens_total", kHistogram, "tokens", {}, "Tokens of a step."},
    {"vllm:cache_config_info", kGauge, "info", {"block_size", "num_gpu_blocks"}, "The KV pool, in labels."},
    {"met_step_rows", kGauge, "rows", {"kind"}, "Rows of the last step: decode, prefill."},
    {"met_step_seconds", kHistogram, "seconds", {"kind"}, "Duration of a step: decode, prefill or mixed."},
    {"met_tick_host_seconds",
     kHistogram,
     "seconds",
     {},
     "Host work of a tick, without waiting for the device."},
    {"met_device_idle_seconds_total", kCounter, "seconds", {}, "Gaps between steps while work existed."},
    {"met_tokens_computed_total", kCounter, "tokens", {"class"}, "Token positions computed, by class."},
    {"met_overshoot_tokens_total", kCounter, "tokens", {}, "Positions computed past a request's end."},
    {"met_wait_reasons", kGauge, "sequences", {"reason"}, "Sequences that the last step did not advance."},
    {"met_graph_steps_total",
     kCounter,
     "steps",
     {"path"},
     "Steps by how they ran: a captured graph (replay) or kernel by kernel (eager)."},
    {"met_async_drains_total",
     kCounter,
     "ticks",
     {"reason"},
     "Ticks that could plan nothing behind the step in flight although sequences existed (async)."},
    {"met_async_rows_held_total",
     kCounter,
     "rows",
     {},
     "Rows left out of a step because what may follow depends on a token in flight (async)."},
    {"met_slai_infeasible", kGauge, "flag", {}, "1 while decode alone misses --tbt-deadline-ms."},
    {"met_blocks", kGauge, "blocks", {"group", "state"}, "KV blocks: free, evictable, referenced."},
    {"met_swap_bytes_total",
     kCounter,
     "bytes",
     {"direction"},
     "Blocks of preempted sequences, to host memory and back, to disk and back."},
    {"met_swap_failures_total", kCounter, "moves", {}, "Moves between host memory and disk that failed."},
    {"met_swap_blocks", kGauge, "blocks", {"tier"}, "Blocks of swapped sequences: in host memory, on disk."},
    {"met_state_slots",
     kGauge,
     "slots",
     {"state"},
     "Recurrent state: of sequences (used, free), of checkpoints (checkpoint, checkpoint_free)."},
    {"met_checkpoints_total", kCounter, "checkpoints", {"event"}, "Recurrent state: store, restore, evict."},
    {"met_evictions_total", kCounter, "blocks", {}, "Cached blocks given up for new ones."},
    {"met_sequences", kGauge, "sequences", {"state"}, "Sequences by state."},
    {"met_ticks_total", kCounter, "ticks", {}, "Turns of the engine's loop."},
    {"met_steps_total", kCounter, "steps", {}, "Steps done."},
    {"met_faulted", kGauge, "flag", {}, "1 after a device failure."},
    {"met_draining", kGauge, "flag", {}, "1 during shutdown."},
    {"met_http_requests_total", kCounter, "requests", {}, "HTTP requests that reached a route or none."},
    {"met_http_refused_total", kCounter, "requests", {}, "HTTP requests refused before the engine saw them."},
    {"met_http_rate_limited_total", kCounter, "requests", {"limit"}, "Requests refused by a rate limit."},
    {"met_http_disconnects_total", kCounter, "requests", {}, "Clients that left while their request ran."},
    {"met_dump_records_total",
     kCounter,
     "records",
     {"outcome"},
     "Requests and answers for --dump: written, or dropped because the disk did not take them."},
    {"met_compactions_total", kCounter, "requests", {}, "Conversations that were shortened to fit (C1)."},
    {"met_prefix_probes_total", kCounter, "requests", {}, "Questions where a prompt leaves the cache."},
    {"met_tool_calls_total",
     kCounter,
     "calls",
     {"parser", "outcome"},
     "Tool calls read from answers: complete, or incomplete because malformed or cut by a limit."},
    {"met_kernel_lookups_unresolved",
     kGauge,
     "kernels",
     {},
     "Kernels that the model asked for in vain, as --dangerously-allow-unresolved-kernel-lookups permits."},
    {"met_http_bytes_in_total", kCounter, "bytes", {}, "Bytes of request bodies."},
    {"met_http_bytes_out_total", kCounter, "bytes", {}, "Bytes of answers."},
    {"met_http_connections", kGauge, "connections", {}, "Open connections."},
    {"met_http_exchanges", kGauge, "requests", {}, "HTTP requests that are being answered."},
};

constexpr bool well_formed() {
  for (const Metric& metric : kMetrics) {
    // iteration_tokens_total is a histogram in vLLM too, under this name.
    const bool total = metric.name.ends_with("_total") && metric.name != "vllm:iteration_tokens_total";
    if (total != (metric.type == kCounter) || metric.help.empty() || metric.unit.empty()) return false;
    if (std::count_if(std::begin(kMetrics), std::end(kMetrics),
                      [&](const Metric& other) { return other.name == metric.name; }) != 1)
      return false;
  }
  return true;
}
static_assert(well_formed(), "a counter ends in _total, nothing else does, and no name stands twice");

}  // namespace

std::string_view name(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

std::span<const Metric> metrics() { return kMetrics; }

const Metric* find_metric(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                         [&](const Metric& metric) { return metric.name == name; });
  return found == std::end(kMetrics) ? nullptr : found;
}

}  // namespace met::telemetry
