#include "server/metrics_page.h"

#include "core/concat.h"
#include "core/histogram.h"

namespace met::server {
namespace {

using scheduler::Snapshot;
using scheduler::Statistics;

/// Families one after the other, each with HELP and TYPE; every sample has the model's name as its first
/// label.
class Page {
 public:
  explicit Page(std::string_view model) : label_("model_name=\"") {
    for (const char c : model) {
      if (c == '\\' || c == '"') label_ += '\\';
      label_ += c == '\n' ? ' ' : c;
    }
    label_ += '"';
  }

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  template <class T>
  void sample(T value, std::string_view labels = {}, std::string_view suffix = {}) {
    text_ += concat(name_, suffix, "{", label_, labels.empty() ? "" : ",", labels, "} ", value, "\n");
  }
  template <class T>
  void gauge(std::string_view name, std::string_view help, T value) {
    family(name, "gauge", help);
    sample(value);
  }
  template <class T>
  void counter(std::string_view name, std::string_view help, T value) {
    family(name, "counter", help);
    sample(value);
  }
  /// Cumulative buckets, +Inf, sum and count of one series.
  void buckets(const Histogram& h, std::string_view labels = {}) {
    const std::string_view comma = labels.empty() ? "" : ",";
    std::int64_t below = 0;
    for (std::size_t i = 0; i < h.bounds.size(); ++i) {
      below += h.counts[i];
      sample(below, concat(labels, comma, "le=\"", h.bounds[i], "\""), "_bucket");
    }
    sample(h.count, concat(labels, comma, "le=\"+Inf\""), "_bucket");
    sample(h.sum, labels, "_sum");
    sample(h.count, labels, "_count");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string label_;
  std::string name_;
};

struct HistogramRow {
  std::string_view name;
  std::string_view help;
  Histogram Statistics::* histogram;
};

constexpr HistogramRow kHistograms[] = {
    {"vllm:time_to_first_token_seconds", "Acceptance to first id.", &Statistics::time_to_first_token},
    {"vllm:inter_token_latency_seconds", "Gap between two emissions of a sequence.",
     &Statistics::inter_token_latency},
    {"vllm:request_time_per_output_token_seconds", "A request's (last - first id) / (ids - 1).",
     &Statistics::time_per_output_token},
    {"vllm:e2e_request_latency_seconds", "Acceptance to the end.", &Statistics::e2e_latency},
    {"vllm:request_queue_time_seconds", "Acceptance to admission.", &Statistics::queue_time},
    {"vllm:request_prefill_time_seconds", "Admission to first id.", &Statistics::prefill_time},
    {"vllm:request_decode_time_seconds", "First to last id.", &Statistics::decode_time},
    {"vllm:request_inference_time_seconds", "Admission to last id.", &Statistics::inference_time},
    {"vllm:request_prompt_tokens", "Prompt tokens of ended requests.", &Statistics::request_prompt_tokens},
    {"vllm:request_generation_tokens", "Generated tokens of ended requests.",
     &Statistics::request_generation_tokens},
    {"vllm:request_params_max_tokens", "max_tokens of ended requests.", &Statistics::request_max_tokens},
    {"vllm:request_params_n", "n of ended requests.", &Statistics::request_n},
    {"vllm:iteration_tokens_total", "Tokens of a step.", &Statistics::iteration_tokens},
    {"met_tick_host_seconds", "Host work of a tick.", &Statistics::tick_host},
};

/// One family with a label per element of an enumeration.
template <class Enum, std::size_t N>
void by_class(Page& page, std::string_view label, const std::array<std::int64_t, N>& values) {
  for (std::size_t i = 0; i < N; ++i)
    page.sample(values[i], concat(label, "=\"", name(static_cast<Enum>(i)), "\""));
}

void add_load(const Snapshot& s, Page& page) {
  page.gauge("vllm:num_requests_running", "Sequences with a device row.", s.running);
  page.gauge("vllm:num_requests_waiting", "Sequences that are queued or parked.", s.waiting);
  const double total = s.blocks_total > 0 ? static_cast<double>(s.blocks_total) : 1;
  page.gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks that live sequences hold, 0 to 1.",
             static_cast<double>(s.blocks_referenced) / total);
  page.counter("vllm:prefix_cache_queries_total", "Prompt tokens of first admissions.", s.prefix_queries);
  page.counter("vllm:prefix_cache_hits_total", "Prompt tokens that the prefix cache had.", s.prefix_hits);
  page.counter("vllm:num_preemptions_total", "Preemptions.", s.preemptions);
  page.family("met_blocks", "gauge", "KV blocks by state.");
  page.sample(s.blocks_free, "state=\"free\"");
  page.sample(s.blocks_evictable, "state=\"evictable\"");
  page.sample(s.blocks_referenced, "state=\"referenced\"");
}

void add_work(const Snapshot& s, Page& page) {
  const Statistics& stats = s.stats;
  page.counter("vllm:prompt_tokens_total", "Prompt tokens, counted at the first id.", stats.prompt_tokens);
  page.counter("vllm:generation_tokens_total", "Ids emitted.", stats.generation_tokens);
  page.family("vllm:request_success_total", "counter", "Ended requests by reason.");
  by_class<scheduler::EndClass>(page, "finished_reason", stats.ended);
  for (const HistogramRow& row : kHistograms) {
    page.family(row.name, "histogram", row.help);
    page.buckets(stats.*row.histogram);
  }
  page.family("met_step_seconds", "histogram", "Device time of a step by its rows.");
  page.buckets(stats.step_decode, "kind=\"decode\"");
  page.buckets(stats.step_prefill, "kind=\"prefill\"");
  page.buckets(stats.step_mixed, "kind=\"mixed\"");
  page.counter("met_device_idle_seconds_total", "Gaps between steps while work existed.",
               stats.device_idle_s);
  page.family("met_tokens_computed_total", "counter", "Positions computed by class.");
  by_class<scheduler::TokenClass>(page, "class", stats.tokens);
  page.counter("met_overshoot_tokens_total", "Positions computed past an end by a step in flight.",
               s.overshoot_tokens);
  page.counter("met_steps_total", "Steps settled.", s.steps);
  page.counter("met_evictions_total", "Cached blocks given up.", stats.evictions);
  page.family("met_wait_reasons", "gauge", "Sequences that did not advance in the last tick, by reason.");
  by_class<scheduler::WaitReason>(page, "reason", stats.waits);
}

void add_server(const Services& met, Page& page) {
  const Counters& c = met.counters;
  page.counter("met_http_requests_total", "Requests that reached a route or were answered 404 or 405.",
               c.requests.load());
  page.counter("met_http_refused_total", "Requests refused before the engine saw them.", c.refused.load());
  page.counter("met_http_disconnects_total", "Clients that left while their request ran.",
               c.disconnects.load());
  page.counter("met_http_bytes_out_total", "Bytes of answers.", c.bytes_out.load());
  page.gauge("met_http_connections", "Open connections.", met.life.connections.load());
  page.gauge("met_http_exchanges", "Requests that are being answered.", met.life.exchanges.load());
}

}  // namespace

std::string metrics_page(const Snapshot& snapshot, const Services& met) {
  Page page(met.text->names.front());
  add_load(snapshot, page);
  add_work(snapshot, page);
  add_server(met, page);
  return page.take();
}

}  // namespace met::server
