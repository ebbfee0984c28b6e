#include "server/metrics_page.h"

#include "core/concat.h"

namespace met::server {
namespace {

/// Families one after the other, each with HELP and TYPE and the model's name as label.
class Page {
 public:
  explicit Page(std::string_view model) {
    label_ = "model_name=\"";
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
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string label_;
  std::string name_;
};

void add_engine(const scheduler::Snapshot& s, Page& page) {
  page.gauge("vllm:num_requests_running", "Sequences with a device row.", s.running);
  page.gauge("vllm:num_requests_waiting", "Sequences that are queued or parked.", s.waiting);
  const double total = s.blocks_total > 0 ? static_cast<double>(s.blocks_total) : 1;
  page.gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks that live sequences hold, 0 to 1.",
             static_cast<double>(s.blocks_referenced) / total);
  page.counter("vllm:prefix_cache_queries_total", "Prompt tokens of first admissions.", s.prefix_queries);
  page.counter("vllm:prefix_cache_hits_total", "Prompt tokens that the prefix cache had.", s.prefix_hits);
  page.counter("vllm:num_preemptions_total", "Preemptions.", s.preemptions);
  page.counter("met_overshoot_tokens_total", "Positions computed past an end by a step in flight.",
               s.overshoot_tokens);
  page.family("met_blocks", "gauge", "KV blocks by state.");
  page.sample(s.blocks_free, "state=\"free\"");
  page.sample(s.blocks_evictable, "state=\"evictable\"");
  page.sample(s.blocks_referenced, "state=\"referenced\"");
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

std::string metrics_page(const scheduler::Snapshot& snapshot, const Services& met) {
  Page page(met.text->names.front());
  add_engine(snapshot, page);
  add_server(met, page);
  return page.take();
}

}  // namespace met::server
