#include "server/metrics_page.h"

#include <string>

#include "telemetry/prometheus.h"

namespace met::server {
namespace {

using scheduler::Snapshot;
using scheduler::Statistics;
using telemetry::PrometheusPage;

struct HistogramRow {
  std::string_view name;
  Histogram Statistics::* histogram;
};

constexpr HistogramRow kHistograms[] = {
    {"vllm:time_to_first_token_seconds", &Statistics::time_to_first_token},
    {"vllm:inter_token_latency_seconds", &Statistics::inter_token_latency},
    {"vllm:request_time_per_output_token_seconds", &Statistics::time_per_output_token},
    {"vllm:e2e_request_latency_seconds", &Statistics::e2e_latency},
    {"vllm:request_queue_time_seconds", &Statistics::queue_time},
    {"vllm:request_prefill_time_seconds", &Statistics::prefill_time},
    {"vllm:request_decode_time_seconds", &Statistics::decode_time},
    {"vllm:request_inference_time_seconds", &Statistics::inference_time},
    {"vllm:request_prompt_tokens", &Statistics::request_prompt_tokens},
    {"vllm:request_generation_tokens", &Statistics::request_generation_tokens},
    {"vllm:request_max_num_generation_tokens", &Statistics::request_generation_most},
    {"vllm:request_prefill_kv_computed_tokens", &Statistics::request_prefill_computed},
    {"vllm:request_params_max_tokens", &Statistics::request_max_tokens},
    {"vllm:request_params_n", &Statistics::request_n},
    {"vllm:iteration_tokens_total", &Statistics::iteration_tokens},
    {"met_tick_host_seconds", &Statistics::tick_host},
};

/// One series for each element of an enumeration.
template <class Enum, std::size_t N>
void by_class(PrometheusPage& page, std::string_view metric, std::string_view label,
              const std::array<std::int64_t, N>& values) {
  for (std::size_t i = 0; i < N; ++i)
    page.value(metric, static_cast<double>(values[i]), {{label, name(static_cast<Enum>(i))}});
}

void add_load(const Snapshot& s, const Services& met, PrometheusPage& page) {
  const auto number = [](std::int64_t v) { return static_cast<double>(v); };
  page.value("vllm:num_requests_running", number(s.running));
  page.value("vllm:num_requests_waiting", number(s.waiting));
  page.value("vllm:kv_cache_usage_perc",
             s.blocks_total > 0 ? number(s.blocks_referenced) / number(s.blocks_total) : 0);
  page.value("vllm:prefix_cache_queries_total", number(s.prefix_queries));
  page.value("vllm:prefix_cache_hits_total", number(s.prefix_hits));
  const std::int64_t hits = s.prefix_requests_hit;
  page.value("met_prefix_cache_requests_total", number(hits), {{"result", "hit"}});
  page.value("met_prefix_cache_requests_total", number(s.prefix_requests - hits), {{"result", "miss"}});
  page.value("vllm:num_preemptions_total", number(s.preemptions));
  page.value("met_preemptions_total", number(s.preemptions - s.stats.preemptions_swap),
             {{"mode", "recompute"}});
  page.value("met_preemptions_total", number(s.stats.preemptions_swap), {{"mode", "swap"}});
  page.value("met_swap_bytes_total", number(s.stats.swap_out_bytes), {{"direction", "out"}});
  page.value("met_swap_bytes_total", number(s.stats.swap_in_bytes), {{"direction", "in"}});
  page.value("met_swap_bytes_total", number(s.stats.disk_out_bytes), {{"direction", "disk_out"}});
  page.value("met_swap_bytes_total", number(s.stats.disk_in_bytes), {{"direction", "disk_in"}});
  page.value("met_swap_failures_total", number(s.stats.spill_failures));
  page.value("met_swap_blocks", number(s.swap_blocks_used), {{"tier", "host"}});
  page.value("met_swap_blocks", number(s.disk_blocks_used), {{"tier", "disk"}});
  page.value("vllm:cache_config_info", 1,
             {{"block_size", std::to_string(met.settings.block_size)},
              {"num_gpu_blocks", std::to_string(s.blocks_total)}});
  page.value("met_blocks", number(s.blocks_free), {{"group", "0"}, {"state", "free"}});
  page.value("met_blocks", number(s.blocks_evictable), {{"group", "0"}, {"state", "evictable"}});
  page.value("met_blocks", number(s.blocks_referenced), {{"group", "0"}, {"state", "referenced"}});
  const std::int64_t checkpoints = s.checkpoint_slots_used;
  page.value("met_state_slots", number(s.state_slots_used), {{"state", "used"}});
  page.value("met_state_slots", number(s.state_slots_total - s.state_slots_used), {{"state", "free"}});
  page.value("met_state_slots", number(checkpoints), {{"state", "checkpoint"}});
  page.value("met_state_slots", number(s.checkpoint_slots_total - checkpoints),
             {{"state", "checkpoint_free"}});
  page.value("met_sequences", number(s.prefilling), {{"state", "prefilling"}});
  page.value("met_sequences", number(s.running - s.prefilling), {{"state", "decoding"}});
  page.value("met_sequences", number(s.waiting - s.parked - s.swapped), {{"state", "queued"}});
  page.value("met_sequences", number(s.parked), {{"state", "parked"}});
  page.value("met_sequences", number(s.swapped), {{"state", "swapped"}});
  page.value("met_faulted", s.faulted ? 1 : 0);
  page.value("met_draining", s.draining ? 1 : 0);
}

void add_work(const Snapshot& s, PrometheusPage& page) {
  const Statistics& stats = s.stats;
  page.value("vllm:prompt_tokens_total", static_cast<double>(stats.prompt_tokens));
  const auto cached = static_cast<double>(stats.prompt_tokens_cached);
  page.value("vllm:prompt_tokens_cached_total", cached);
  page.value("vllm:prompt_tokens_by_source_total", static_cast<double>(stats.prompt_tokens) - cached,
             {{"source", "local_compute"}});
  page.value("vllm:prompt_tokens_by_source_total", cached, {{"source", "local_cache_hit"}});
  page.value("vllm:generation_tokens_total", static_cast<double>(stats.generation_tokens));
  by_class<scheduler::EndClass>(page, "vllm:request_success_total", "finished_reason", stats.ended);
  page.value("vllm:corrupted_requests_total", static_cast<double>(stats.corrupted));
  for (const HistogramRow& row : kHistograms) page.histogram(row.name, stats.*row.histogram);
  page.value("met_step_rows", static_cast<double>(stats.last_decode_rows), {{"kind", "decode"}});
  page.value("met_step_rows", static_cast<double>(stats.last_prefill_rows), {{"kind", "prefill"}});
  page.histogram("met_step_seconds", stats.step_decode, {{"kind", "decode"}});
  page.histogram("met_step_seconds", stats.step_prefill, {{"kind", "prefill"}});
  page.histogram("met_step_seconds", stats.step_mixed, {{"kind", "mixed"}});
  page.value("met_device_idle_seconds_total", stats.device_idle_s);
  by_class<scheduler::TokenClass>(page, "met_tokens_computed_total", "class", stats.tokens);
  page.value("met_overshoot_tokens_total", static_cast<double>(s.overshoot_tokens));
  page.value("met_ticks_total", static_cast<double>(s.ticks));
  page.value("met_steps_total", static_cast<double>(s.steps));
  page.value("met_graph_steps_total", static_cast<double>(stats.steps_replayed), {{"path", "replay"}});
  page.value("met_graph_steps_total", static_cast<double>(stats.steps_eager), {{"path", "eager"}});
  page.value("met_checkpoints_total", static_cast<double>(stats.checkpoints_stored), {{"event", "store"}});
  page.value("met_checkpoints_total", static_cast<double>(stats.checkpoints_restored),
             {{"event", "restore"}});
  page.value("met_checkpoints_total", static_cast<double>(stats.checkpoints_evicted), {{"event", "evict"}});
  page.value("met_evictions_total", static_cast<double>(stats.evictions));
  by_class<scheduler::WaitReason>(page, "met_wait_reasons", "reason", stats.waits);
  by_class<scheduler::WaitReason>(page, "met_async_drains_total", "reason", stats.async_drains);
  page.value("met_async_rows_held_total", static_cast<double>(stats.async_rows_held));
  page.value("met_slai_infeasible", stats.slai_infeasible ? 1 : 0);
}

void add_server(const Services& met, PrometheusPage& page) {
  const Counters& c = met.counters;
  page.value("met_http_requests_total", static_cast<double>(c.requests));
  page.value("met_http_refused_total", static_cast<double>(c.refused));
  page.value("met_http_rate_limited_total", static_cast<double>(c.limited_requests), {{"limit", "requests"}});
  page.value("met_http_rate_limited_total", static_cast<double>(c.limited_tokens), {{"limit", "tokens"}});
  page.value("met_http_disconnects_total", static_cast<double>(c.disconnects));
  if (met.dump != nullptr) {
    page.value("met_dump_records_total", static_cast<double>(met.dump->written()), {{"outcome", "written"}});
    page.value("met_dump_records_total", static_cast<double>(met.dump->dropped()), {{"outcome", "dropped"}});
  }
  page.value("met_compactions_total", static_cast<double>(c.compactions));
  page.value("met_prefix_probes_total", static_cast<double>(c.probes));
  const std::string_view parser = name(met.text->habits.tools);
  page.value("met_tool_calls_total", static_cast<double>(c.calls_complete),
             {{"parser", parser}, {"outcome", "complete"}});
  page.value("met_tool_calls_total", static_cast<double>(c.calls_incomplete),
             {{"parser", parser}, {"outcome", "incomplete"}});
  page.value("met_http_bytes_in_total", static_cast<double>(c.bytes_in));
  page.value("met_http_bytes_out_total", static_cast<double>(c.bytes_out));
  page.value("met_kernel_lookups_unresolved", met.life.ready ? met.facts.kernels_unresolved : 0);
  page.value("met_http_connections", met.life.connections);
  page.value("met_http_exchanges", met.life.exchanges);
}

}  // namespace

std::string metrics_page(const Snapshot& snapshot, const Services& met) {
  PrometheusPage page(met.text->names.front());
  add_load(snapshot, met, page);
  add_work(snapshot, page);
  add_server(met, page);
  return page.take();
}

}  // namespace met::server
