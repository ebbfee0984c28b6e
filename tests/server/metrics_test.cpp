// The metrics page, /debug/prefix and /v1/events of a server over the real engine: lint on live pages (O1), and a
// dashboard that asks for nothing that the server does not export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

#include "core/log.h"
#include "scheduler/engine.h"
#include "server/server.h"
#include "telemetry/metric_table.h"
#include "tests/scheduler/scripted_device.h"
#include "tests/server/served.h"
#include "tests/telemetry/page_lint.h"

namespace met::testing {
namespace {

using telemetry::testing::lint;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RealEngine {
 public:
  RealEngine() : device_(config().plan, {.vocab = 200}, device_clock_) {
    log::set_level(log::Level::kError);
    const std::vector<std::string> flags = {"--port", "0"};
    const auto settings = config::read_settings(flags, {});
    server_ = std::move(*server::Server::open({.text = tiny_text(), .settings = *settings}));
    engine_ = std::move(*scheduler::start_engine(config(), device_, clock_, [](const Error&) {}));
    server_->attach(*engine_, {});
    thread_ = std::jthread([this] { server_->run(/*signals=*/false); });
  }
  ~RealEngine() {
    server_->shut_down();
    thread_.join();
    server_.reset();
  }

  int port() const { return server_->port(); }
  Answer ask(const std::string& bytes) const {
    Client client(server_->port());
    client.send(bytes);
    return client.answer().value_or(Answer{});
  }
  /// The metrics page that holds `line`, or the last within two seconds: an answer may come before its step is counted.
  std::string page_with(std::string_view line) const {
    std::string page = ask(get("/metrics")).body;
    for (int i = 0; i < 400 && !page.contains(line); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      page = ask(get("/metrics")).body;
    }
    return page;
  }
  json::Value probe(const std::string& body) const {
    const Answer answer = ask(post("/debug/prefix", body));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body).value_or(json::Value());
  }

 private:
  static scheduler::EngineConfig config() {
    scheduler::EngineConfig config;
    config.plan = {.block_tokens = 16, .blocks_total = 129, .max_batch_size = 4, .max_seq_len = 1024};
    config.max_num_seqs = 8;
    return config;
  }

  SteadyClock clock_;
  VirtualClock device_clock_;
  scheduler::testing::ScriptedDevice device_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<scheduler::Client> engine_;
  std::jthread thread_;
};

std::string completion(const std::string& prompt) {
  return post("/v1/completions",
              R"({"prompt": ")" + prompt + R"(", "max_tokens": 3, "temperature": 0, "ignore_eos": true})");
}

std::int64_t number(const json::Value& value, std::string_view key) {
  const json::Value* found = value.find(key);
  return found != nullptr && found->is_int() ? found->as_int() : -1;
}

std::string words(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += "word" + std::to_string(i) + " ";
  return out;
}

TEST(Metrics, LivePagesPassTheLintAndHoldEveryMetricOfTheTable) {  // O1
  const RealEngine met;
  const std::string before = met.ask(get("/metrics")).body;
  EXPECT_THAT(lint(before), IsEmpty());
  EXPECT_EQ(met.ask(completion(words(20))).status, 200);
  EXPECT_EQ(met.ask(completion(words(20) + "more")).status, 200);
  constexpr std::string_view kAllTokens = "vllm:generation_tokens_total{model_name=\"tiny\"} 6\n";
  const std::string after = met.page_with(kAllTokens);
  EXPECT_THAT(lint(after, before), IsEmpty());
  EXPECT_THAT(after, HasSubstr(kAllTokens));
  EXPECT_THAT(after, HasSubstr("met_graph_steps_total{model_name=\"tiny\",path=\"replay\"} 4\n"));
  EXPECT_THAT(after, HasSubstr("met_graph_steps_total{model_name=\"tiny\",path=\"eager\"} 2\n"));
  EXPECT_THAT(after, HasSubstr("met_state_slots{model_name=\"tiny\",state=\"free\"} 0\n"))
      << "no recurrent state";
  EXPECT_THAT(after, HasSubstr("met_checkpoints_total{model_name=\"tiny\",event=\"store\"} 0\n"));
  EXPECT_THAT(after, HasSubstr("met_prefix_cache_requests_total{model_name=\"tiny\",result=\"hit\"} 1\n"));
  EXPECT_THAT(after, HasSubstr("met_prefix_cache_requests_total{model_name=\"tiny\",result=\"miss\"} 1\n"));
  EXPECT_THAT(before, HasSubstr("met_step_rows{model_name=\"tiny\",kind=\"decode\"} 0\n"));
  EXPECT_THAT(after, HasSubstr("met_step_rows{model_name=\"tiny\",kind=\"decode\"} 1\n"));
  EXPECT_THAT(after, HasSubstr("met_step_rows{model_name=\"tiny\",kind=\"prefill\"} 0\n"));
  for (const char* absent : {"lora", "spec_decode"}) EXPECT_FALSE(after.contains(absent)) << absent;
  EXPECT_THAT(after, HasSubstr("vllm:request_max_num_generation_tokens_count{model_name=\"tiny\"} 2\n"));
  EXPECT_THAT(
      after,
      HasSubstr("vllm:cache_config_info{model_name=\"tiny\",block_size=\"16\",num_gpu_blocks=\"129\"} 1\n"));
  for (const telemetry::Metric& metric : telemetry::metrics()) {
    if (metric.name == "met_dump_records_total") continue;  // with --dump alone
    EXPECT_TRUE(after.contains("# TYPE " + std::string(metric.name) + " ")) << metric.name;
  }
}

TEST(Metrics, KernelsThatAreMissingAreKnownOnceTheModelIsLoaded) {
  Served met({}, {}, /*attached=*/false);
  constexpr std::string_view kSeries = "met_kernel_lookups_unresolved{model_name=\"tiny\"} ";
  EXPECT_THAT(met.ask(get("/metrics")).body, HasSubstr(std::string(kSeries) + "0\n"));
  met.server->attach(met.engine, {.memory = {}, .forward = {}, .hardware = {}, .kernels_unresolved = 2});
  EXPECT_THAT(met.ask(get("/metrics")).body, HasSubstr(std::string(kSeries) + "2\n"));
}

TEST(Metrics, TheDashboardAsksForNothingThatIsNotExported) {
  std::ifstream file(MET_SOURCE_DIR "/deploy/grafana/met.json", std::ios::binary);
  ASSERT_TRUE(file);
  const auto dashboard = json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(dashboard) << dashboard.error().message;
  const RealEngine met;
  EXPECT_EQ(met.ask(completion("hello")).status, 200);
  const std::string page = met.ask(get("/metrics")).body;
  static const std::regex series(R"((vllm:|met_)[a-z0-9_]+)");
  static const std::regex grouped(R"(by \(([a-z_, ]+)\))");
  std::set<std::string> names;
  const auto check = [&](const std::string& expression) {
    for (std::sregex_iterator i(expression.begin(), expression.end(), series), end; i != end; ++i) {
      names.insert(i->str());
      EXPECT_TRUE(page.contains("\n" + i->str() + "{")) << expression;
    }
    for (std::sregex_iterator i(expression.begin(), expression.end(), grouped), end; i != end; ++i)
      for (const auto& label :
           {"state", "reason", "finished_reason", "class", "source", "limit", "kind", "path", "event"})
        if ((*i)[1].str().find(label) != std::string::npos) {
          EXPECT_TRUE(page.contains(std::string(label) + "=\"")) << expression;
        }
  };
  for (const json::Value& panel : dashboard->find("panels")->as_array()) {
    const json::Value* targets = panel.find("targets");
    if (targets == nullptr) continue;
    for (const json::Value& target : targets->as_array()) check(target.find("expr")->as_string());
  }
  for (const json::Value& variable : dashboard->find("templating")->find("list")->as_array())
    if (const json::Value* query = variable.find("definition")) check(query->as_string());
  EXPECT_GT(names.size(), 35U);
}

TEST(PrefixProbe, SaysWhereAPromptLeavesTheCacheAndTheLastPrompts) {
  const RealEngine met;
  const std::string shared = words(30);
  const std::string asked = shared + "the old end of it, which goes on for a while yet";
  const json::Value cold = met.probe(R"({"prompt": ")" + asked + R"("})");
  EXPECT_EQ(number(cold, "matched_tokens"), 0);
  EXPECT_TRUE(cold.find("nearest_prompt")->is_null());
  EXPECT_EQ(met.ask(completion(asked)).status, 200);

  const json::Value same = met.probe(R"({"prompt": ")" + asked + R"("})");
  const std::int64_t prompt = number(same, "prompt_tokens");
  EXPECT_EQ(number(same, "matched_tokens"), prompt / 16 * 16);
  EXPECT_EQ(number(same, "cached_tokens"), (prompt - 1) / 16 * 16);
  EXPECT_TRUE(same.find("leaves_cache")->is_null());
  EXPECT_EQ(same.find("reason")->as_string(), "every whole block is in the cache");

  const json::Value other =
      met.probe(R"({"prompt": ")" + shared + R"(THE new end of it, which goes on as well"})");
  const json::Value& nearest = *other.find("nearest_prompt");
  const std::int64_t common = number(nearest, "token");
  EXPECT_GT(common, 30);
  EXPECT_EQ(number(other, "matched_tokens"), common / 16 * 16);
  EXPECT_EQ(number(*other.find("leaves_cache"), "token"), common / 16 * 16);
  EXPECT_EQ(nearest.find("text")->as_string().substr(0, 3), "THE");
  EXPECT_EQ(nearest.find("text_there")->as_string().substr(0, 3), "the");
  EXPECT_EQ(other.find("reason")->as_string(), "no prompt in the cache goes on like this one");

  const json::Value salted = met.probe(R"({"cache_salt": "x", "prompt": ")" + asked + R"("})");
  EXPECT_EQ(number(salted, "matched_tokens"), 0) << "another salt, other blocks (B3)";
  EXPECT_THAT(salted.find("reason")->as_string(), HasSubstr("of another salt"));
  EXPECT_EQ(met.ask(post("/debug/prefix", R"({"prompt": 3})")).status, 400);
  EXPECT_EQ(met.ask(post("/debug/prefix", R"({"prompt": "a", "cache_salt": 3})")).status, 400);
  EXPECT_THAT(met.ask(get("/metrics")).body, HasSubstr("met_prefix_probes_total{model_name=\"tiny\"} 4\n"));
}

TEST(Events, TellWhatTheEngineHasDone) {
  const RealEngine met;
  EXPECT_EQ(met.ask(completion("hello")).status, 200);
  Client client(met.port());
  client.send(get("/v1/events"));
  ASSERT_TRUE(client.read_until("event: work"));
  ASSERT_TRUE(client.read_until("\"generated_tokens\":3"));
  EXPECT_THAT(client.buffered(), HasSubstr("\"swapped\":0"));
}

}  // namespace
}  // namespace met::testing
