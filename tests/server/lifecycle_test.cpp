// Clients that leave, keys, shutdown, pressure.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "server/auth.h"
#include "server/routes.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::string_view kChat = "/v1/chat/completions";
const std::string kEndless = R"(,"max_tokens":200,"ignore_eos":true)";

TEST(Disconnect, EveryWayOfLeavingCancels) {  // R5, R6
  for (const bool stream : {true, false})
    for (const bool reset : {true, false})
      for (const bool queued : {true, false}) {
        Served met({.step = 5ms});
        met.engine.hold(queued);
        Client client(met.port());
        client.send(post(kChat, chat_body(kEndless + (stream ? R"(,"stream":true)" : ""))));
        if (stream && !queued) {
          ASSERT_TRUE(client.read_until("data:", 3));
        } else {
          ASSERT_TRUE(met.eventually([&] { return met.engine.running() == 1; }));
        }
        if (reset) {
          client.reset();
        } else {
          client.close();
        }
        EXPECT_TRUE(met.eventually([&] { return met.engine.running() == 0; })) << stream << reset << queued;
        EXPECT_EQ(met.engine.cancelled(), 1);
      }
}

TEST(Disconnect, AHalfClosedClientThatSaidSoGetsItsAnswer) {
  Served met({.step = 5ms});
  Client client(met.port());
  client.send(post(kChat, chat_body(), {"Connection: close"}));
  client.half_close();
  EXPECT_EQ(client.answer()->status, 200);
  EXPECT_TRUE(client.closed());
}

TEST(Disconnect, ConnectingAndLeavingIsHarmless) {
  Served met;
  for (int i = 0; i < 50; ++i) Client(met.port()).close();
  EXPECT_EQ(met.ask(get("/health")).status, 200);
}

TEST(Streams, SilenceIsFilledWithComments) {
  Served met({.step = 1ms}, {"--sse-keepalive-s", "0.1"});
  met.engine.hold(true);
  Client client(met.port());
  client.send(post(kChat, chat_body(R"(,"stream":true)")));
  EXPECT_TRUE(client.read_until(": keep-alive\n\n", 2));
  met.engine.hold(false);
  chunks_of(client.answer()->body);
}

TEST(Streams, ManyAtOnceDoNotMix) {
  Served met({.rows = 8, .step = 1ms});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 32; ++i) {
    clients.push_back(std::make_unique<Client>(met.port()));
    clients.back()->send(post(
        "/v1/completions", R"({"stream":true,"max_tokens":12,"prompt":"id)" + std::to_string(i) + R"(."})"));
  }
  for (int i = 0; i < 32; ++i) {
    std::string text;
    for (const json::Value& chunk : chunks_of(clients[static_cast<std::size_t>(i)]->answer()->body))
      text += at(chunk, "choices", 0, "text").as_string();
    const std::string once = "id" + std::to_string(i) + ".";
    std::string want;
    while (want.size() < 12) want += once;
    EXPECT_EQ(text, want.substr(0, 12));
  }
}

TEST(Pressure, AFullEngineIs503WithRetryAfter) {
  Served met({.max_num_seqs = 1});
  met.engine.hold(true);
  Client first(met.port());
  first.send(post(kChat, chat_body()));
  ASSERT_TRUE(met.eventually([&] { return met.engine.running() == 1; }));
  const Answer answer = met.ask(post(kChat, chat_body()));
  EXPECT_EQ(answer.status, 503);
  EXPECT_FALSE(answer.header("retry-after").empty());
  met.engine.hold(false);
  EXPECT_EQ(first.answer()->status, 200);
}

TEST(Shutdown, LiveStreamsFinishNewWorkIsRefusedExitIsZero) {  // F7
  Served met({.step = 10ms}, {"--shutdown-timeout", "5"});
  Client client(met.port());
  Client other(met.port());
  client.send(post(kChat, chat_body(R"(,"max_tokens":40,"ignore_eos":true,"stream":true)")));
  ASSERT_TRUE(client.read_until("data:", 2));
  met.server->shut_down();
  ASSERT_TRUE(met.eventually([&] { return met.ask(get("/health")).status == 503; }));
  other.send(post(kChat, chat_body()));
  const auto refused = other.answer();
  EXPECT_EQ(refused->status, 503);
  EXPECT_FALSE(refused->header("retry-after").empty());
  const auto chunks = chunks_of(client.answer()->body);
  EXPECT_EQ(at(chunks.back(), "choices", 0, "finish_reason"), json::Value("length"));
  EXPECT_EQ(met.stop(), 0);
}

TEST(Shutdown, ThePatienceEndsAndStreamsEndWellFormed) {
  Served met({.max_seq_len = 100'000, .step = 10ms}, {"--shutdown-timeout", "0.1"});
  Client client(met.port());
  client.send(post(kChat, chat_body(R"(,"max_tokens":90000,"ignore_eos":true,"stream":true)")));
  ASSERT_TRUE(client.read_until("data:", 2));
  EXPECT_EQ(met.stop(), 0);
  const auto chunks = chunks_of(client.answer()->body);
  EXPECT_THAT(at(chunks.back(), "error", "message").as_string(), HasSubstr("shutting down"));
}

TEST(Shutdown, AFaultExitsWithThree) {  // F4
  Served met;
  met.server->fault();
  met.thread.join();
  EXPECT_EQ(met.exit_code, 3);
}

TEST(Shutdown, APortInUseIsAnErrorThatNamesTheFlag) {
  Served met;
  auto settings = config::read_settings(std::vector<std::string>{"--port", std::to_string(met.port())}, {});
  const auto second = server::Server::open({.text = tiny_text(), .settings = *settings});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().field, "--port");
}

TEST(Shutdown, AnAddressThatIsNotOursNamesItsFlag) {
  auto settings = config::read_settings(std::vector<std::string>{"--port", "0", "--bind", "192.0.2.1"}, {});
  const auto server = server::Server::open({.text = tiny_text(), .settings = *settings});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().field, "--bind");
}

TEST(Loading, ProbesSayItAndTheRestWaits) {
  Served met(saying("x"), {}, /*attached=*/false);
  EXPECT_EQ(at(parsed(met.ask(get("/health")).body), "status"), json::Value("loading"));
  EXPECT_EQ(met.ask(get("/health")).status, 503);
  EXPECT_EQ(met.ask(get("/health/live")).status, 200);
  EXPECT_EQ(met.ask(get("/health_generate")).status, 503);
  const Answer early = met.ask(post(kChat, chat_body()));
  EXPECT_EQ(early.status, 503);
  EXPECT_EQ(at(parsed(early.body), "error", "code"), json::Value("model_loading"));
  EXPECT_EQ(early.header("retry-after"), "1");
  met.server->attach(met.engine, {.memory = json::Object{{"budget_bytes", 7}}});
  EXPECT_EQ(met.ask(get("/health")).status, 200);
  EXPECT_EQ(met.ask(post(kChat, chat_body())).status, 200);
  EXPECT_EQ(at(parsed(met.ask(get("/memory")).body), "budget_bytes"), json::Value(7));
}

TEST(Loading, AShutdownDoesNotWaitForTheModel) {
  Served met({}, {}, /*attached=*/false);
  EXPECT_EQ(met.stop(), 0);
}

TEST(Probes, GenerateMakesOneToken) {
  Served met(saying("abc"));
  const Answer answer = met.ask(get("/health_generate"));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(met.engine.finished(), 1);
  EXPECT_EQ(met.engine.last_request().max_tokens, 1);
}

TEST(Probes, EventsTellStatusAndLoad) {
  Served met(saying("abc"));
  Client client(met.port());
  client.send(get("/v1/events"));
  ASSERT_TRUE(client.read_until("event: load"));
  EXPECT_THAT(client.buffered(), HasSubstr("event: status\ndata: {\"status\":\"ok\"}"));
  met.server->shut_down();
  EXPECT_TRUE(client.read_until("draining"));
}

TEST(Pages, ModelsAsAnthropicsClientsReadThem) {
  Served met;
  const std::vector<std::string> version = {"anthropic-version: 2023-06-01"};
  const json::Value list = parsed(met.ask(get("/v1/models", version)).body);
  EXPECT_EQ(at(list, "data", 0, "type"), json::Value("model"));
  EXPECT_EQ(at(list, "data", 0, "created_at"), json::Value("2023-11-14T22:13:20Z"));
  EXPECT_EQ(at(list, "has_more"), json::Value(false));
  EXPECT_EQ(at(parsed(met.ask(get("/v1/models/tiny", version)).body), "display_name"), json::Value("tiny"));
  EXPECT_EQ(at(parsed(met.ask(get("/v1/models/other", version)).body), "type"), json::Value("error"));
}

TEST(Pages, HeadOfAStreamHasNoBody) {
  Served met;
  Client client(met.port());
  client.send("HEAD /v1/events HTTP/1.1\r\nHost: x\r\n\r\n" + get("/health"));
  const auto head = client.answer(/*head_only=*/true);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
  const auto next = client.answer();
  ASSERT_TRUE(next) << "the connection stays usable";
  EXPECT_EQ(next->status, 200);
}

TEST(Pages, OpenapiIsTheTable) {
  Served met;
  const json::Value v = parsed(met.ask(get("/openapi.json")).body);
  const json::Value& paths = at(v, "paths");
  ASSERT_TRUE(paths.is_object());
  EXPECT_NE(at(paths, "/v1/chat/completions").find("post"), nullptr);
  const json::Value& item = at(paths, "/v1/conversations/{conversation_id}/items/{item_id}", "get");
  EXPECT_EQ(at(item, "parameters").as_array().size(), 2U);
  EXPECT_EQ(item.find("security") != nullptr, true);
  EXPECT_EQ(at(paths, "/health", "get").find("security"), nullptr);
  // Each path answers something else than "no such route".
  for (const auto& [path, methods] : paths.as_object())
    EXPECT_NE(met.ask("OPTIONS " + path + " HTTP/1.1\r\nHost: x\r\n\r\n").status, 404) << path;
}

TEST(Pages, WhatIsNotServedSaysSo) {
  Served met;
  for (const char* path :
       {"/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/lora/load", "/v1/moderations",
        "/v1/images/generations", "/v1/responses/compact", "/rerank", "/pooling", "/v1/uploads"}) {
    const Answer answer = met.ask(post(path, "{}"));
    EXPECT_EQ(answer.status, 501) << path;
    EXPECT_THAT(at(parsed(answer.body), "error", "message").as_string(), HasSubstr("not supported"));
  }
}

TEST(Pages, EveryRouteOfTheTableAnswersEveryMethod) {
  Served met;
  std::set<std::string> paths;
  for (const server::Route& route : server::routes()) {
    std::string path(route.path);
    for (std::size_t at = 0; (at = path.find('{')) != std::string::npos;)
      path.replace(at, path.find('}') - at + 1, "x");
    paths.insert(path);
    if (route.handler == server::get_events) continue;  // a stream without an end
    const std::string one(route.method);
    for (const std::string& method :
         one == "*" ? std::vector<std::string>{"GET", "POST", "DELETE"} : std::vector<std::string>{one}) {
      const std::string head = method + " " + path + " HTTP/1.1\r\nHost: x\r\n";
      const Answer answer = met.ask(head + (method == "GET" ? "\r\n" : "Content-Length: 2\r\n\r\n{}"));
      EXPECT_NE(answer.status, 0) << head;
      EXPECT_NE(answer.status, 405) << head;
      EXPECT_NE(answer.status, 500) << head;
      EXPECT_FALSE(answer.body.contains("route_not_found")) << head;
      if (one == "*") {
        EXPECT_EQ(answer.status, 501) << head;
      }
    }
  }
  for (const std::string& path : paths) {
    const Answer options = met.ask("OPTIONS " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(options.status, 204) << path;
    const Answer wrong = met.ask("PATCH " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    EXPECT_EQ(wrong.status, 405) << path;
    EXPECT_EQ(wrong.header("allow"), options.header("allow")) << path;
  }
  EXPECT_EQ(met.ask(get("/v1/none")).status, 404);
}

TEST(Keys, TheTable) {
  Served met({}, {"--require-auth", "--auth-token", "Secret-1", "--auth-token", "Other-2"});
  struct Case {
    std::string header;
    int status;
  };
  for (const auto& [header, status] :
       {Case{"X-None: 1", 401}, Case{"Authorization: Bearer Secret-1", 200},
        Case{"authorization: bearer Secret-1", 200}, Case{"Authorization: Bearer Other-2", 200},
        Case{"X-Api-Key: Secret-1", 200}, Case{"X-Api-Key: wrong", 401},
        Case{"Authorization: Bearer Secret-", 401}, Case{"Authorization: Bearer Secret-1x", 401},
        Case{"Authorization: Bearer sECRET-1", 401}, Case{"Authorization: Bearer", 401},
        Case{"Authorization: Secret-1", 401}, Case{"Authorization: Basic dXNlcjpwYXNz", 401},
        Case{"Authorization: Bearer \"Secret-1\"", 401}}) {
    for (const auto& request : {post(kChat, chat_body(), {header}), get("/v1/models", {header}),
                                post("/tokenize", R"({"prompt":"a"})", {header})}) {
      const Answer answer = met.ask(request);
      EXPECT_EQ(answer.status, status) << header << "\n" << request.substr(0, 40);
      if (status == 401) {
        EXPECT_FALSE(answer.header("www-authenticate").empty());
        EXPECT_EQ(at(parsed(answer.body), "error", "type"), json::Value("authentication_error"));
        EXPECT_EQ(answer.body.find("Secret"), std::string::npos);
      }
    }
  }
  EXPECT_EQ(met.engine.last_request().tenant, server::tenant_of("Secret-1"));
  EXPECT_EQ(met.ask(post(kChat, "{broken")).status, 401) << "the key comes before the body";
  EXPECT_EQ(met.ask(post(std::string(kChat) + "?api_key=Secret-1", chat_body())).status, 401);
  for (const char* open : {"/health", "/health/live", "/metrics", "/ping", "/version"})
    EXPECT_EQ(met.ask(get(open)).status, 200) << open;
  EXPECT_EQ(met.ask(get("/serve-config")).status, 401);
  EXPECT_EQ(met.ask("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n").status, 204);
  EXPECT_EQ(met.ask(post("/v1/embeddings", "{}")).status, 401);
  const Answer config = met.ask(get("/serve-config", {"Authorization: Bearer Secret-1"}));
  EXPECT_EQ(config.status, 200);
  EXPECT_EQ(config.body.find("Secret-1"), std::string::npos);
}

TEST(Keys, FilesAndContradictions) {
  const std::string path = ::testing::TempDir() + "/met_keys.txt";
  std::ofstream(path) << "# ours\nalpha  # first\n\n  beta\n";
  const auto from = [](std::vector<std::string> flags) {
    return server::Auth::from(*config::read_settings(flags, {}));
  };
  const auto auth = from({"--require-auth", "--auth-tokens-file", path});
  ASSERT_TRUE(auth) << auth.error().message;
  // The first half of a line that `printf beta | sha256sum` prints: no other key changes it.
  EXPECT_EQ(auth->tenant({.headers = {{"Authorization", "Bearer beta"}}}), 0xf44e64e75f3948e9U);
  EXPECT_FALSE(from({"--require-auth"}));
  EXPECT_FALSE(from({"--auth-token", "x"}));
  EXPECT_FALSE(from({"--require-auth", "--auth-token", "a b"}));
  EXPECT_FALSE(from({"--require-auth", "--auth-tokens-file", "/no/such/file"}));
  log::set_level(log::Level::kWarn);
  for (const auto& [mode, warned] : {std::pair{0600, false}, std::pair{0640, true}, std::pair{0604, true}}) {
    std::filesystem::permissions(path, std::filesystem::perms(mode));
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(from({"--require-auth", "--auth-tokens-file", path}));
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("can be read by other users") != std::string::npos, warned) << log;
    EXPECT_EQ(log.find("alpha"), std::string::npos);
  }
  log::set_level(log::Level::kError);
  std::ofstream(path) << "# nothing\n";
  EXPECT_FALSE(from({"--require-auth", "--auth-tokens-file", path}));
  std::filesystem::remove(path);
}

TEST(Pages, HealthModelsMetrics) {
  Served met;
  met.ask(post(kChat, chat_body()));
  const json::Value models = parsed(met.ask(get("/v1/models")).body);
  EXPECT_EQ(at(models, "data", 0, "id"), json::Value("tiny"));
  EXPECT_EQ(at(models, "data", 0, "max_model_len").as_int(), 256);
  const Answer metrics = met.ask(get("/metrics"));
  EXPECT_THAT(metrics.header("content-type"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("vllm:num_requests_running{model_name=\"tiny\"} 0\n"));
  EXPECT_EQ(at(parsed(met.ask(get("/health")).body), "status"), json::Value("ok"));
}

}  // namespace
}  // namespace met::testing
