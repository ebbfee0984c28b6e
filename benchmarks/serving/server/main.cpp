// What the HTTP server costs over its engine, which here takes a fixed time a step: no model runs.
//   met_bench_server VOCABULARY.gguf TEMPLATE.jinja [latency|events|request|crowd|masks]...
// Each figure is the median of five rounds with the least and the most. Clients run in this process.
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>

#include "api/prepare.h"
#include "api/vocabulary.h"
#include "benchmarks/serving/server/host.h"
#include "tests/server/client.h"

namespace met::bench {
namespace {

using testing::Client;
using Text = std::shared_ptr<const api::ModelText>;
constexpr int kRounds = 5;

struct Spread {
  double least, median, most;
};
Spread spread_of(std::vector<double> all) {
  std::ranges::sort(all);
  return {all.front(), all[all.size() / 2], all.back()};
}
void print(const char* what, std::vector<double> rounds, const char* unit) {
  const Spread s = spread_of(std::move(rounds));
  std::printf("%-62s %10.1f (%.1f to %.1f) %s\n", what, s.median, s.least, s.most, unit);
  std::fflush(stdout);
}
double percentile(std::vector<double>& all, double share) {
  std::ranges::sort(all);
  return all[std::min(all.size() - 1, static_cast<std::size_t>(share * static_cast<double>(all.size())))];
}
double us_since(Time begin) { return std::chrono::duration<double, std::micro>(now() - begin).count(); }

std::string completion(int tokens) {
  return testing::post(
      "/v1/completions",
      R"({"prompt":[5,6,7,8],"stream":true,"ignore_eos":true,"max_tokens":)" + std::to_string(tokens) + "}");
}
std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++n;
  return n;
}

/// From the engine's word that there is an id to its event in the client's hands.
void latency(const Text& text) {
  std::vector<double> p50, p99;
  for (int round = 0; round < kRounds; ++round) {
    Host host(text, {.step = std::chrono::microseconds(1000), .flags = {"--io-threads", "1"}});
    const Client client(host.port());
    client.send(completion(2000));
    std::vector<double> us;
    char bytes[65536];
    for (std::string tail; !tail.contains("[DONE]");) {
      const ssize_t n = recv(client.socket(), bytes, sizeof bytes, 0);
      const std::int64_t at = ns_of(now());
      if (n <= 0) return;
      us.push_back(static_cast<double>(at - host.client().told_ns) * 1e-3);
      tail.assign(bytes, static_cast<std::size_t>(n));
    }
    p50.push_back(percentile(us, 0.5));
    p99.push_back(percentile(us, 0.99));
  }
  print("one stream, server over engine, a token, p50", p50, "us");
  print("  p99", p99, "us");
}

/// Events that reach 64 clients, over the time that the server's only loop computed.
void events(const Text& text) {
  std::vector<double> per_cpu, per_second;
  for (int round = 0; round < kRounds; ++round) {
    constexpr int kStreams = 64;
    // Slow enough that no two ids share an event.
    Host host(text, {.step = std::chrono::microseconds(4000),
                     .max_batch_size = kStreams,
                     .flags = {"--io-threads", "1"}});
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < kStreams; ++i) clients.push_back(std::make_unique<Client>(host.port()));
    for (const auto& client : clients) client->send(completion(500));
    std::vector<pollfd> waits;
    for (const auto& client : clients)
      waits.push_back({.fd = client->socket(), .events = POLLIN, .revents = 0});
    std::vector<char> bytes(1 << 20);
    std::size_t seen = 0;
    int open = kStreams;
    const double cpu = host.loop_cpu_s();
    const Time begin = now();
    while (open > 0) {
      poll(waits.data(), waits.size(), 1000);
      for (pollfd& wait : waits) {
        if (wait.fd < 0 || (wait.revents & (POLLIN | POLLHUP)) == 0) continue;
        const ssize_t n = recv(wait.fd, bytes.data(), bytes.size(), 0);
        const std::string_view got(bytes.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
        seen += count(got, "data: {");
        if (n > 0 && !got.contains("[DONE]")) continue;
        wait.fd = -1;
        --open;
      }
    }
    per_second.push_back(static_cast<double>(seen) / (us_since(begin) * 1e-6));
    per_cpu.push_back(static_cast<double>(seen) / (host.loop_cpu_s() - cpu));
  }
  print("64 streams, SSE events a CPU second of the one loop", per_cpu, "events/s");
  print("  events offered and delivered a second", per_second, "events/s");
}

std::string english(std::size_t bytes) {
  static constexpr std::string_view kWords[] = {
      "The",      "committee", "decided", "that",      "every", "harbour",  "should", "keep",
      "a",        "record",    "of",      "ships",     "and",   "cargo",    "which",  "arrived",
      "during",   "night",     "while",   "engineers", "wrote", "programs", "to",     "reduce",
      "repeated", "work",      "because", "time",      "is",    "limited"};
  std::string out;
  for (std::uint64_t x = 1; out.size() < bytes; x = x * 6364136223846793005ULL + 1442695040888963407ULL) {
    out += kWords[(x >> 33U) % std::size(kWords)];
    out += (x >> 40U) % 9 == 0 ? ". " : " ";
  }
  return out;
}

/// A chat of 25 KB with ten tools.
std::string chat_body() {
  json::Array tools;
  for (int i = 0; i < 10; ++i) {
    json::Object properties;
    for (const char* name : {"city", "country", "unit", "days"})
      properties.append(name, json::Object{{"type", "string"}, {"description", english(60)}});
    json::Object function{{"name", "tool_" + std::to_string(i)}};
    function.append("description", english(120));
    function.append("parameters", json::Object{{"type", "object"}, {"properties", std::move(properties)}});
    tools.emplace_back(json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  json::Array messages;
  messages.emplace_back(json::Object{{"role", "system"}, {"content", english(1000)}});
  for (int i = 0; i < 15; ++i)
    messages.emplace_back(
        json::Object{{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", english(1150)}});
  json::Object body{{"max_tokens", 1}};
  body.append("messages", std::move(messages));
  body.append("tools", std::move(tools));
  return json::write(body);
}

void request(const Text& text) {
  const std::string body = chat_body();
  const std::string bytes = testing::post("/v1/chat/completions", body);
  const json::Value value = *json::parse(body);
  const auto parsed = api::parse_chat(value, {.models = {"bench"}, .vocabulary = 1 << 20});
  const api::RenderOptions options{.tools = value.find("tools")->as_array()};
  const auto prompt = text->chat->render(parsed->messages, options);
  if (!prompt) return;
  std::vector<double> totals, encodes, rests, speeds;
  for (int round = 0; round < kRounds; ++round) {
    Host host(text, {.flags = {"--io-threads", "1", "--text-threads", "1"}});
    const Client client(host.port());
    std::vector<double> total, encode;
    for (int i = 0; i < 60; ++i) {
      const std::int64_t begin = ns_of(now());
      client.send(bytes);
      if (const auto answer = const_cast<Client&>(client).answer(); !answer || answer->status != 200) return;
      total.push_back(static_cast<double>(host.client().submitted_ns - begin) * 1e-3);
      const Time encoding = now();
      (void)text->tokenizer.encode(prompt->text, {.untrusted = prompt->untrusted});
      encode.push_back(us_since(encoding));
    }
    totals.push_back(percentile(total, 0.5));
    encodes.push_back(percentile(encode, 0.5));
    rests.push_back(totals.back() - encodes.back());
    speeds.push_back(static_cast<double>(prompt->text.size()) / encodes.back());
  }
  std::printf("chat of %zu bytes, 10 tools, prompt of %zu bytes\n", body.size(), prompt->text.size());
  print("  first byte sent to the scheduler's door, p50", totals, "us");
  print("  its tokenization alone, p50", encodes, "us");
  print("  the rest", rests, "us");
  print("  tokenization", speeds, "MB/s");
  const std::string plain = english(1 << 20);
  std::vector<double> warm;
  for (int round = 0; round < kRounds; ++round) {
    const Time begin = now();
    (void)text->tokenizer.encode(plain);
    warm.push_back(static_cast<double>(plain.size()) / us_since(begin));
  }
  print("tokenization of 1 MB of English words", warm, "MB/s");
}

double status_value(const char* name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name)) return std::strtod(line.c_str() + std::strlen(name), nullptr);
  return 0;
}

/// The longest gaps between a stream's events, in milliseconds: p50 and most.
std::pair<double, double> gaps(int port, int tokens) {
  const Client client(port);
  client.send(completion(tokens));
  std::vector<double> ms;
  char bytes[65536];
  Time last{};
  for (std::string tail; !tail.contains("[DONE]");) {
    const ssize_t n = recv(client.socket(), bytes, sizeof bytes, 0);
    if (n <= 0) break;
    if (last != Time{}) ms.push_back(us_since(last) * 1e-3);
    last = now();
    tail.assign(bytes, static_cast<std::size_t>(n));
  }
  const double most = percentile(ms, 1);
  return {percentile(ms, 0.5), most};
}

void crowd(const Text& text) {
  constexpr int kStreams = 1000;
  std::vector<double> health, health_most, memory, threads, free_gap, slow_gap;
  for (int round = 0; round < kRounds; ++round) {
    Host host(text, {.step = std::chrono::microseconds(10000)});
    free_gap.push_back(gaps(host.port(), 100).first);
    const double kib = status_value("VmRSS:"), threads_before = status_value("Threads:");
    std::vector<std::unique_ptr<Client>> clients;
    // All of them: 200 decode, 800 wait. Nobody reads: the slowest readers that there can be.
    for (int i = 0; i < kStreams; ++i) {
      clients.push_back(std::make_unique<Client>(host.port(), 10));
      clients.back()->send(completion(i < 199 ? 12000 : 50));
    }
    while (host.client().snapshot()->waiting + host.client().snapshot()->running < kStreams)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::vector<double> ms;
    for (int i = 0; i < 100; ++i) {
      const Time begin = now();
      Client probe(host.port());
      probe.send(testing::get("/health"));
      if (const auto answer = probe.answer(); !answer || answer->status != 200) return;
      ms.push_back(us_since(begin) * 1e-3);
    }
    memory.push_back((status_value("VmRSS:") - kib) / kStreams);
    threads.push_back(status_value("Threads:") - threads_before);
    health.push_back(percentile(ms, 0.5));
    health_most.push_back(percentile(ms, 1));
    for (std::size_t i = 199; i < clients.size(); ++i) clients[i]->close();  // a row for one that reads
    slow_gap.push_back(gaps(host.port(), 100).first);
  }
  print("1,000 streams, 200 decoding: /health, p50", health, "ms");
  print("  most of 100", health_most, "ms");
  print("  resident memory a connection and its request", memory, "KiB");
  print("  threads more than before", threads, "");
  print("steps of 10 ms, gap of one stream alone, p50", free_gap, "ms");
  print("  beside 199 streams that nobody reads", slow_gap, "ms");
}

/// Masks along English words inside a string, without and with bounds of its length.
void masks(const Text& text) {
  const std::vector<text::TokenId> ids = text->tokenizer.encode(english(400));
  const std::size_t width = text->tokenizer.vocabulary_size();
  const auto vocabulary = [&] { return api::grammar_vocabulary(text->tokenizer, text->eos_ids, width); };
  for (const char* bounds : {"", R"(,"maxLength":1000)", R"(,"minLength":20,"maxLength":900)"}) {
    const auto schema = json::parse(std::string(R"({"properties":{"a":{"type":"string")") + bounds +
                                    R"(}},"required":["a"],"type":"object"})");
    std::vector<double> compiles, first, later;
    for (int round = 0; round < kRounds; ++round) {
      grammar::Compiler cold(vocabulary);
      const Time begin = now();
      const auto constraint =
          cold.compile({.kind = grammar::Kind::kJsonSchema, .value = *schema, .field = "schema"});
      compiles.push_back(us_since(begin) * 1e-3);
      if (!constraint) return;
      const auto state = (*constraint)->begin();
      for (const text::TokenId id : text->tokenizer.encode(R"({"a":")")) (void)state->accept(id);
      std::vector<std::uint32_t> mask((width + 31) / 32);
      std::vector<double> us;
      for (const text::TokenId id : ids) {
        if (!state->accept(id)) return;
        const Time filling = now();
        (void)state->fill(mask);
        us.push_back(us_since(filling));
      }
      first.push_back(us.front());
      later.push_back(percentile(us, 0.5));
    }
    std::printf("a string%s%s\n", *bounds == 0 ? "" : " with ", *bounds == 0 ? "" : bounds + 1);
    print("  its compilation, vocabulary included", compiles, "ms");
    print("  its first mask", first, "us");
    print("  a later mask, p50", later, "us");
  }
}

}  // namespace
}  // namespace met::bench

int main(int argc, char** argv) {
  using namespace met::bench;
  if (argc < 3)
    return std::fprintf(stderr,
                        "usage: met_bench_server VOCABULARY.gguf TEMPLATE.jinja "
                        "[latency|events|request|crowd|masks]...\n"),
           2;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const Text text = load_text(argv[1], argv[2]);
  const std::pair<std::string_view, void (*)(const Text&)> kinds[] = {
      {"latency", latency}, {"events", events}, {"request", request}, {"crowd", crowd}, {"masks", masks}};
  for (const auto& [name, measure] : kinds) {
    const auto asked = [&](const char* argument) { return name == argument; };
    if (argc == 3 || std::any_of(argv + 3, argv + argc, asked)) measure(text);
  }
  return 0;
}
