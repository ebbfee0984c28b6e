// Anthropic's routes over the fake engine: shapes, order of events, errors in their own form.
#include <gmock/gmock.h>

#include "tests/api/encoding.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

using ::testing::HasSubstr;
constexpr std::string_view kMessages = "/v1/messages";

std::string message_body(const std::string& members = "") {
  return R"({"model":"tiny","max_tokens":50,"messages":[{"role":"user","content":"Hi."}])" + members + "}";
}

TEST(Messages, PlainAndStreamedAreOneAnswer) {
  Served met(saying("Grüße, 🙂 世界"));
  const Answer answer = met.ask(post(kMessages, message_body()));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::Value plain = parsed(answer.body);
  EXPECT_TRUE(at(plain, "id").as_string().starts_with("msg_"));
  EXPECT_EQ(at(plain, "content", 0, "text"), json::Value("Grüße, 🙂 世界"));
  EXPECT_EQ(at(plain, "stop_reason"), json::Value("end_turn"));
  EXPECT_EQ(answer.header("request-id"), answer.header("x-request-id"));

  const auto events = events_of(met.ask(post(kMessages, message_body(R"(,"stream":true)"))).body);
  ASSERT_GE(events.size(), 6U);
  EXPECT_EQ(at(events.front(), "type"), json::Value("message_start"));
  EXPECT_TRUE(at(events.front(), "message", "content").as_array().empty());
  std::string text;
  for (const json::Value& event : events)
    if (at(event, "type") == json::Value("content_block_delta"))
      text += at(event, "delta", "text").as_string();
  EXPECT_EQ(text, "Grüße, 🙂 世界");
  EXPECT_EQ(at(events[events.size() - 2], "usage", "output_tokens"), at(plain, "usage", "output_tokens"));
  EXPECT_EQ(at(events.back(), "type"), json::Value("message_stop"));
}

TEST(Messages, StopSequencesAreNamed) {
  Served met(saying("The quick brown fox"));
  const std::string members = R"(,"stop_sequences":["zzz","own fox"])";
  const json::Value plain = parsed(met.ask(post(kMessages, message_body(members))).body);
  EXPECT_EQ(at(plain, "content", 0, "text"), json::Value("The quick br"));
  EXPECT_EQ(at(plain, "stop_reason"), json::Value("stop_sequence"));
  EXPECT_EQ(at(plain, "stop_sequence"), json::Value("own fox"));
}

TEST(Messages, CountIsThePromptOfTheSameRequest) {
  Served met(saying("x"));
  const std::string members = R"(,"system":"Be brief.")";
  const json::Value plain = parsed(met.ask(post(kMessages, message_body(members))).body);
  const json::Value count = parsed(met.ask(post("/v1/messages/count_tokens", message_body(members))).body);
  EXPECT_EQ(at(count, "input_tokens").as_int(), at(plain, "usage", "input_tokens").as_int() +
                                                    at(plain, "usage", "cache_read_input_tokens").as_int());
}

TEST(Messages, EveryErrorHasAnthropicsShape) {
  Served met(saying("x"), {"--require-auth", "--auth-token", "k"});
  const std::string key = "x-api-key: k";
  struct Case {
    std::string request;
    int status;
    const char* type;
  };
  for (const auto& [request, status, type] : {
           Case{post(kMessages, message_body()), 401, "authentication_error"},
           {post(kMessages, "{", {key}), 400, "invalid_request_error"},
           {post(kMessages, message_body(R"(,"top_p":2)"), {key}), 400, "invalid_request_error"},
           {post(kMessages, message_body(R"(,"model":"other")"), {key}), 404, "not_found_error"},
           {get(kMessages, {key}), 405, "invalid_request_error"},
       }) {
    const Answer answer = met.ask(request);
    EXPECT_EQ(answer.status, status) << answer.body;
    const json::Value body = parsed(answer.body);
    EXPECT_EQ(at(body, "type"), json::Value("error"));
    EXPECT_EQ(at(body, "error", "type"), json::Value(type));
    EXPECT_EQ(at(body, "request_id"), json::Value(answer.header("request-id")));
  }
}

TEST(Messages, AFailureInMidStreamIsAnErrorEvent) {
  FakeOptions options = saying("a long answer that fails");
  options.fail_at = 3;
  options.step = std::chrono::milliseconds(20);
  Served met(std::move(options));
  const auto events = events_of(met.ask(post(kMessages, message_body(R"(,"stream":true)"))).body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(at(events.back(), "type"), json::Value("error"));
  EXPECT_EQ(at(events.back(), "error", "type"), json::Value("api_error"));
}

TEST(Messages, TellWhatWasClearedFromTheContext) {
  Served met(saying("Hello."));
  const auto ask = [&](const std::string& members, std::string_view path = kMessages) {
    const auto turn = [](const char* reasoning) {
      return std::string(
                 R"({"role":"user","content":"Hi."},{"role":"assistant","content":[{"type":"thinking","thinking":")") +
             reasoning + R"(","signature":"s"},{"type":"text","text":"Yes."}]},)";
    };
    return met.ask(post(path, R"({"max_tokens":20,"messages":[)" + turn("r1") + turn("r2") +
                                  R"({"role":"user","content":"And?"}])" + members + "}"));
  };
  const json::Value without = parsed(ask("").body);
  EXPECT_EQ(without.find("context_management"), nullptr);
  const std::string nothing =
      R"(,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})";
  const json::Value kept = parsed(ask(nothing).body);
  ASSERT_TRUE(at(kept, "context_management", "applied_edits").is_array()) << json::write(kept);
  EXPECT_TRUE(at(kept, "context_management", "applied_edits").as_array().empty());
  const std::string clears = R"(,"context_management":{"edits":[{"type":"clear_thinking_20251015"}]})";
  const json::Value cleared = parsed(ask(clears).body);
  const json::Value& edit = at(cleared, "context_management", "applied_edits", 0);
  EXPECT_EQ(at(edit, "type"), json::Value("clear_thinking_20251015"));
  EXPECT_EQ(at(edit, "cleared_thinking_turns"), json::Value(1));
  const auto tokens = [](const json::Value& v) { return at(v, "usage", "input_tokens").as_int(); };
  EXPECT_EQ(at(edit, "cleared_input_tokens").as_int(), tokens(without) - tokens(cleared));
  const auto events = events_of(ask(clears + R"(,"stream":true)").body);
  EXPECT_EQ(at(events[events.size() - 2], "context_management"), at(cleared, "context_management"));
  const json::Value counted = parsed(ask(clears, "/v1/messages/count_tokens").body);
  EXPECT_EQ(at(counted, "input_tokens").as_int(), tokens(cleared));
  EXPECT_EQ(at(counted, "context_management", "original_input_tokens").as_int(), tokens(without));
}

}  // namespace
}  // namespace met::testing
