// Is it alive, is it ready, what does it hold, what happens in it.
#include <chrono>
#include <map>

#include "core/concat.h"
#include "server/json_answer.h"
#include "server/routes.h"

namespace met::server {
namespace {

using api::ApiError;
constexpr auto kGenerateMax = std::chrono::seconds(30);
constexpr auto kEventsPeriod = std::chrono::milliseconds(500);

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count();
}

/// Not ready: loading, draining, faulted, or no step settled for longer than a step may take while work exists.
std::string_view health_of(const scheduler::Snapshot& snapshot, const Services& met) {
  if (snapshot.faulted) return "faulted";
  if (met.life.draining || snapshot.draining) return "draining";
  if (!met.life.ready) return "loading";
  const bool works = snapshot.running > 0;
  const auto idle_us = static_cast<double>(now_us() - snapshot.last_progress_us);
  if (works && snapshot.last_progress_us > 0 && idle_us > met.settings.step_timeout_s * 1e6) return "stalled";
  return "ok";
}

json::Object load_json(const scheduler::Snapshot& s) {
  json::Object out;
  out.append("running", s.running);
  out.append("waiting", s.waiting);
  out.append("prefilling", s.prefilling);
  out.append("parked", s.parked);
  out.append("swapped", s.swapped);
  out.append("blocks_free", s.blocks_free);
  out.append("blocks_cached", s.blocks_evictable);
  out.append("blocks_used", s.blocks_referenced);
  return out;
}

/// Totals since the start.
json::Object work_json(const scheduler::Snapshot& s) {
  json::Object out{{"prompt_tokens", s.stats.prompt_tokens}};
  out.append("cached_tokens", s.stats.prompt_tokens_cached);
  out.append("generated_tokens", s.stats.generation_tokens);
  out.append("steps", s.steps);
  out.append("preemptions", s.preemptions);
  out.append("evictions", s.stats.evictions);
  json::Object ended;
  for (int i = 0; i < scheduler::kEndClasses; ++i)
    ended.append(std::string(name(static_cast<scheduler::EndClass>(i))),
                 s.stats.ended[static_cast<std::size_t>(i)]);
  out.append("ended", std::move(ended));
  return out;
}

/// What the stream of events says again when it has changed.
class Told {
 public:
  void tell(std::string_view event, std::string data, std::string& out) {
    std::string& last = last_[event];
    if (data == last) return;
    out += concat("event: ", event, "\ndata: ", data, "\n\n");
    last = std::move(data);
  }

 private:
  std::map<std::string_view, std::string> last_;
};

awaitable<void> respond_with(Exchange& http, const json::Object& body, bool well) {
  Response response{.status = well ? 200 : 503, .body = json::write(body)};
  if (!well) response.headers.emplace_back("Retry-After", "1");
  co_await http.respond(std::move(response));
}

/// One token from the engine. Nothing: there was none in time, or the client has left.
awaitable<bool> one_token(Exchange& http, Services& met) {
  scheduler::Request request;
  request.prompt = {met.text->eos_ids.empty() ? 0 : met.text->eos_ids.front()};
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  request.timeout_us = std::chrono::microseconds(kGenerateMax).count();
  auto generation = met.engine.submit(std::move(request));
  if (!generation) co_return false;
  (*generation)->on_ready(http.wake().notifier());
  const auto deadline = Clock::now() + kGenerateMax;
  bool made = false;
  while (Clock::now() < deadline && !http.gone()) {
    while (const auto event = (*generation)->poll()) {
      made |= event->kind == scheduler::Event::Kind::kTokens;
      if (event->terminal()) co_return made;
    }
    co_await http.wake().wait(deadline);
  }
  co_return false;
}

}  // namespace

awaitable<void> get_health(Exchange& http, Services& met) {
  const auto snapshot = met.engine.snapshot();
  const std::string_view status = health_of(*snapshot, met);
  json::Object out{{"status", status}};
  out.append("running", snapshot->running);
  out.append("waiting", snapshot->waiting);
  out.append("last_token_age",
             snapshot->last_progress_us > 0
                 ? json::Value(static_cast<double>(now_us() - snapshot->last_progress_us) / 1e6)
                 : json::Value());
  co_await respond_with(http, out, status == "ok");
}

awaitable<void> get_alive(Exchange& http, Services&) {
  const json::Object out{{"status", "alive"}};
  co_await respond_with(http, out, true);
}

awaitable<void> get_health_generate(Exchange& http, Services& met) {
  http.watch();
  const std::int64_t begin_us = now_us();
  const bool made = co_await one_token(http, met);
  if (http.gone()) co_return;
  json::Object out{{"status", made ? "ok" : health_of(*met.engine.snapshot(), met)}};
  if (!made && *out.find("status") == json::Value("ok")) out.set("status", "no token");
  out.append("seconds", static_cast<double>(now_us() - begin_us) / 1e6);
  co_await respond_with(http, out, made);
}

awaitable<void> get_memory(Exchange& http, Services& met) {
  json::Object out;
  if (met.facts.memory.is_object()) out = met.facts.memory.as_object();
  const auto snapshot = met.engine.snapshot();
  json::Object pool{{"blocks_total", snapshot->blocks_total}};
  pool.append("blocks_free", snapshot->blocks_free);
  pool.append("blocks_cached", snapshot->blocks_evictable);
  pool.append("blocks_used", snapshot->blocks_referenced);
  out.set("kv_pool", std::move(pool));
  json::Object swap{{"blocks_in_host_memory", snapshot->swap_blocks_used}};
  swap.append("blocks_on_disk", snapshot->disk_blocks_used);
  out.set("swap", std::move(swap));
  auto job = [](storage::ObjectStore& store) -> Answered<json::Object> {
    json::Object stores{{"bytes", store.bytes()}};
    stores.append("responses", store.entries(static_cast<int>(Kind::kResponse)));
    stores.append("conversations", store.entries(static_cast<int>(Kind::kConversation)));
    stores.append("completions", store.entries(static_cast<int>(Kind::kCompletion)));
    return stores;
  };
  Answered<json::Object> stores = co_await met.stores.run(std::move(job));
  if (stores) out.set("stores", std::move(*stores));
  JsonResult result = json::Value(std::move(out));
  co_await answer(http, std::move(result));
}

awaitable<void> get_forward(Exchange& http, Services& met) {
  JsonResult result = met.facts.forward;
  co_await answer(http, std::move(result));
}

awaitable<void> get_hardware(Exchange& http, Services& met) {
  JsonResult result = met.facts.hardware;
  co_await answer(http, std::move(result));
}

/// "status" when the server's state changes, "load" when the engine's does, "work" when it has done some.
awaitable<void> get_events(Exchange& http, Services& met) {
  if (http.head().method == "HEAD") {
    Response head{.type = "text/event-stream"};
    co_await http.respond(std::move(head));
    co_return;
  }
  http.watch();
  http.begin_stream();
  Told told;
  auto last_sent = Clock::now();
  for (bool ends = false; !ends;) {
    const auto snapshot = met.engine.snapshot();
    const std::string status(health_of(*snapshot, met));
    std::string out;
    told.tell("status", json::write(json::Object{{"status", status}}), out);
    told.tell("load", json::write(load_json(*snapshot)), out);
    told.tell("work", json::write(work_json(*snapshot)), out);
    ends = status == "draining" || status == "faulted";
    const std::chrono::duration<double> silence = Clock::now() - last_sent;
    if (out.empty() && silence.count() > met.settings.sse_keepalive_s) out = ": keep-alive\n\n";
    if (!out.empty()) {
      last_sent = Clock::now();
      const bool here = co_await http.send(out);
      if (!here) co_return;
    }
    if (!ends) co_await http.wake().wait(Clock::now() + kEventsPeriod);
    if (http.gone()) co_return;
  }
  co_await http.end_stream();
}

}  // namespace met::server
