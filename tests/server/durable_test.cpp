// --store-dir: what a restart finds, over the fake engine.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/api/encoding.h"
#include "tests/server/served.h"
#include "tests/storage/temp_directory.h"

namespace met::testing {
namespace {

using ::testing::HasSubstr;
constexpr std::string_view kResponses = "/v1/responses";
constexpr std::string_view kConversations = "/v1/conversations";
constexpr std::string_view kChat = "/v1/chat/completions";

class Durable : public ::testing::Test {
 protected:
  /// The next life of the server.
  Served& start(std::vector<std::string> flags = {}, FakeOptions options = saying("Hello.")) {
    met_.reset();
    flags.insert(flags.end(), {"--store-dir", directory_.path()});
    met_.emplace(std::move(options), std::move(flags));
    return *met_;
  }
  json::Value ask(const std::string& bytes, int status = 200) {
    const Answer answer = met_->ask(bytes);
    EXPECT_EQ(answer.status, status) << bytes.substr(0, 100) << "\n" << answer.body;
    return parsed(answer.body);
  }
  json::Value remove(const std::string& path, int status = 200) {
    const std::string bytes = get(path);
    return ask("DELETE" + bytes.substr(bytes.find(' ')), status);
  }
  static std::string body(const std::string& members = "") {
    return R"({"model":"tiny","max_output_tokens":50,"input":"Hi.")" + members + "}";
  }
  static std::string path_of(std::string_view root, const json::Value& object, const char* rest = "") {
    return std::string(root) + "/" + at(object, "id").as_string() + rest;
  }
  static std::string text(const json::Value& value) { return json::write(value); }

  storage::TempDirectory directory_;
  std::optional<Served> met_;
};

TEST_F(Durable, ARestartFindsWhatWasStored) {
  start();
  const json::Value response = ask(post(kResponses, body(R"(,"metadata":{"a":"b"})")));
  const json::Value deleted = ask(post(kResponses, body()));
  remove(path_of(kResponses, deleted));
  const json::Value chat = ask(post(kChat, chat_body(R"(,"store":true)")));
  const json::Value conversation =
      ask(post(kConversations, R"({"items":[{"role":"user","content":"a"},{"role":"user","content":"b"}]})"));
  ask(post(kResponses, body(R"(,"conversation":)" + text(at(conversation, "id")))));
  const std::string items = path_of(kConversations, conversation, "/items");
  const json::Value page = ask(get(items + "?limit=3"));
  start();
  EXPECT_EQ(ask(get(path_of(kResponses, response))), response);
  ask(get(path_of(kResponses, deleted)), 404);
  EXPECT_EQ(at(ask(get(path_of(kResponses, response, "/input_items"))), "data", 0, "content", 0, "text"),
            json::Value("Hi."));
  EXPECT_EQ(at(ask(get(path_of(kChat, chat))), "choices"), at(chat, "choices"));
  EXPECT_EQ(at(ask(get(path_of(kChat, chat, "/messages"))), "data", 0, "content"), json::Value("Hi."));
  EXPECT_EQ(ask(get(path_of(kConversations, conversation))), conversation);
  EXPECT_EQ(ask(get(items + "?limit=3")), page);
  const json::Value rest = ask(get(items + "?limit=3&after=" + at(page, "last_id").as_string()));
  ASSERT_EQ(at(rest, "data").as_array().size(), 1U);
  EXPECT_EQ(at(rest, "data", 0, "content", 0, "text"), json::Value("a"));
  ask(post(kResponses, body(R"(,"previous_response_id":)" + text(at(response, "id")))));
  EXPECT_THAT(tiny_text()->tokenizer.decode(met_->engine.last_request().prompt),
              HasSubstr("assistant\nHello."));
}

TEST_F(Durable, AnotherKeyMovesNothing) {
  start({"--require-auth", "--auth-token", "b", "--auth-token", "c"});
  const json::Value mine = ask(post(kResponses, body(), {"authorization: Bearer b"}));
  start({"--require-auth", "--auth-token", "a", "--auth-token", "b", "--auth-token", "c"});
  const std::string path = path_of(kResponses, mine);
  ask(get(path, {"authorization: Bearer b"}));
  ask(get(path, {"authorization: Bearer a"}), 404);
  ask(get(path, {"authorization: Bearer c"}), 404);
}

TEST_F(Durable, WhatRanWhenTheProcessDiedHasFailed) {
  Served& first = start();
  first.engine.hold(true);
  const json::Value quiet = ask(post(kResponses, body(R"(,"background":true)")));
  Client client(first.port());
  client.send(post(kResponses, body(R"(,"background":true,"stream":true)")));
  ASSERT_TRUE(client.read_until("response.queued"));
  const std::string& head = client.buffered();
  const std::size_t id = head.find("\"resp_") + 1;
  const std::string streamed = std::string(kResponses) + "/" + head.substr(id, head.find('"', id) - id);
  // The files as they are now are what a kill leaves behind.
  const storage::TempDirectory crashed;
  std::filesystem::copy(directory_.path(), crashed.path());
  client.reset();
  first.engine.hold(false);
  met_.reset();
  met_.emplace(saying("Hello."), std::vector<std::string>{"--store-dir", crashed.path()});
  const json::Value after = ask(get(path_of(kResponses, quiet)));
  EXPECT_EQ(at(after, "status"), json::Value("failed"));
  EXPECT_EQ(at(after, "error", "code"), json::Value("server_error"));
  EXPECT_THAT(at(after, "error", "message").as_string(), HasSubstr("the server stopped"));
  EXPECT_EQ(ask(post(path_of(kResponses, quiet, "/cancel"), "{}")), after);
  for (const char* from : {"", "&starting_after=1", "&starting_after=40"}) {
    const auto events = events_of(met_->ask(get(streamed + "?stream=true" + from)).body);
    ASSERT_FALSE(events.empty()) << from;
    EXPECT_EQ(at(events.back(), "type"), json::Value("response.failed"));
    EXPECT_EQ(at(events.back(), "response", "status"), json::Value("failed"));
    EXPECT_EQ(at(events.back(), "sequence_number").as_int(), 2);
  }
  remove(path_of(kResponses, quiet));
  ask(get(path_of(kResponses, quiet)), 404);
}

TEST_F(Durable, AShutdownEndsBackgroundRunsForGood) {
  FakeOptions options;
  options.step = std::chrono::milliseconds(20);
  start({"--shutdown-timeout", "0.1"}, std::move(options));
  const json::Value made = ask(post(kResponses, body(R"(,"background":true)")));
  start();
  EXPECT_THAT(at(ask(get(path_of(kResponses, made))), "error", "message").as_string(),
              HasSubstr("shutting down"));
}

TEST_F(Durable, AConversationTakesTurnsThatOverlap) {
  Served& met = start();
  const json::Value made = ask(post(kConversations, "{}"));
  met.engine.hold(true);
  Client client(met.port());
  client.send(post(kResponses, body(R"(,"conversation":)" + text(at(made, "id")))));
  EXPECT_TRUE(met.eventually([&] { return met.engine.running() == 1; }));
  const std::string items = path_of(kConversations, made, "/items");
  ask(post(items, R"({"items":[{"role":"user","content":"between"}]})"));
  met.engine.hold(false);
  const auto answer = client.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200) << answer->body;
  const json::Value all = ask(get(items + "?order=asc"));
  ASSERT_EQ(at(all, "data").as_array().size(), 3U);
  EXPECT_EQ(at(all, "data", 0, "content", 0, "text"), json::Value("between"));
  EXPECT_EQ(at(all, "data", 2, "content", 0, "text"), json::Value("Hello."));
}

TEST_F(Durable, OneServerHasTheDirectory) {
  start();
  const std::vector<std::string> flags = {"--port", "0", "--store-dir", directory_.path()};
  const auto settings = config::read_settings(flags, {});
  ASSERT_TRUE(settings);
  const auto second = server::Server::open({.text = tiny_text(), .settings = *settings});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().field, "--store-dir");
  EXPECT_THAT(second.error().message, HasSubstr("is in use by another process"));
}

TEST_F(Durable, WhatIsLargerThanTheStoreIsRefused) {
  start({"--store-max-bytes", "1048576"});
  const std::string large =
      R"({"items":[{"role":"user","content":")" + std::string(1'100'000, 'x') + R"("}]})";
  const json::Value error = ask(post(kConversations, large), 413);
  EXPECT_THAT(at(error, "error", "message").as_string(), HasSubstr("--store-max-bytes"));
  ask(post(kConversations, "{}"));
}

}  // namespace
}  // namespace met::testing
