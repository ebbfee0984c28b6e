// Faults that users of other servers report, where no other test has them: tests/faults.md has the whole table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/concat.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

using ::testing::HasSubstr;
constexpr std::string_view kChat = "/v1/chat/completions";

TEST(Faults, APlainAnswerHasNoToolCallsKey) {
  Served met(saying("ab"), {}, true, tiny_text({.tools = text::ToolFormat::kHermes, .takes_tools = true}));
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"now"}}])";
  for (const char* stream : {"", R"(,"stream":true)"})
    EXPECT_FALSE(met.ask(post(kChat, chat_body(tools + stream))).body.contains("tool_calls")) << stream;
}

TEST(Faults, AStopStringDoesNotReachBackIntoThePrompt) {
  Served met(saying("DE"));
  for (const char* echo : {"false", "true"}) {
    const std::string members = concat(R"(,"stop":["CDE"],"echo":)", echo);
    const Answer answer = met.ask(post("/v1/completions", completion_body(members, "\"ABC\"")));
    const std::string text = at(parsed(answer.body), "choices", 0, "text").as_string();
    EXPECT_EQ(text, echo == std::string_view("true") ? "ABCDE" : "DE");
  }
}

TEST(Faults, UsageOfAStreamWithChoicesIsTheirSumAndCountsThePromptOnce) {
  Served met(saying("ab"));
  const json::Value plain = parsed(met.ask(post(kChat, chat_body(R"(,"n":3)"))).body);
  const auto chunks = chunks_of(
      met.ask(post(kChat, chat_body(R"(,"n":3,"stream":true,"stream_options":{"include_usage":true})")))
          .body);
  EXPECT_EQ(at(chunks.back(), "choices").as_array().size(), 0U);
  for (const char* count : {"prompt_tokens", "completion_tokens", "total_tokens"})
    EXPECT_EQ(at(chunks.back(), "usage", count), at(plain, "usage", count)) << count;
  EXPECT_EQ(at(chunks.back(), "usage", "completion_tokens").as_int(), 9);
}

TEST(Faults, ExtremeIntegersOfEveryFieldEndInAnAnswerOrItsName) {
  Served met(saying("a"));
  const char* kFields[] = {"top_k",
                           "n",
                           "max_tokens",
                           "max_completion_tokens",
                           "min_tokens",
                           "seed",
                           "priority",
                           "top_logprobs",
                           "prompt_logprobs",
                           "truncate_prompt_tokens",
                           "dry_allowed_length",
                           "dry_penalty_last_n",
                           "mirostat",
                           "n_predict",
                           "n_keep",
                           "n_discard",
                           "id_slot",
                           "repeat_last_n",
                           "min_keep",
                           "num_beams",
                           "thinking_token_budget",
                           "timeout"};
  for (const char* field : kFields)
    for (const char* value : {"-1", "0", "2147483647", "-2147483648", "9223372036854775807",
                              "-9223372036854775808", "9223372036854775808", "1e308", "-1e308", "0.5"}) {
      const std::string member = concat(",\"", field, "\":", value, ",\"logprobs\":true}");
      const Answer answer =
          met.ask(post(kChat, R"({"model":"tiny","messages":[{"role":"user","content":"Hi."}])" + member));
      if (answer.status == 200) continue;
      EXPECT_EQ(answer.status, 400) << member;
      EXPECT_THAT(answer.body, HasSubstr(field)) << member;
    }
}

TEST(Faults, ImagesAreNeverFetched) {
  Served met(saying("a"));
  for (const char* url : {"http://127.0.0.1:1/x.png", "http://169.254.169.254/latest", "http://[::1]/x",
                          "http://2130706433/x", "file:///etc/passwd", "data:image/png;base64,AA=="}) {
    const std::string part = concat(R"({"type":"image_url","image_url":{"url":")", url, "\"}}");
    const Answer answer = met.ask(
        post(kChat, concat(R"({"model":"tiny","messages":[{"role":"user","content":[)", part, "]}]}")));
    EXPECT_EQ(answer.status, 400) << url;
    EXPECT_EQ(at(parsed(answer.body), "error", "param"), json::Value("messages"));
  }
}

TEST(Faults, PromptsAndAnswersAreNotLogged) {
  Served met(saying("secretanswer"));
  log::set_level(log::Level::kInfo);
  ::testing::internal::CaptureStderr();
  const Answer answer = met.ask(post(kChat, chat_body(R"(,"max_tokens":40)", "secretquestion")));
  log::info("seen");
  const std::string lines = ::testing::internal::GetCapturedStderr();
  log::set_level(log::Level::kError);
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(lines, HasSubstr("seen"));
  EXPECT_FALSE(lines.contains("secret")) << lines;
}

TEST(Faults, AnEmptyModelIsNotFoundInEachShape) {
  Served met(saying("a"));
  const Answer openai = met.ask(post(kChat, R"({"model":"","messages":[{"role":"user","content":"x"}]})"));
  EXPECT_EQ(openai.status, 404);
  EXPECT_EQ(at(parsed(openai.body), "error", "code"), json::Value("model_not_found"));
  const Answer anthropic = met.ask(
      post("/v1/messages", R"({"model":"","max_tokens":4,"messages":[{"role":"user","content":"x"}]})"));
  EXPECT_EQ(anthropic.status, 404);
  EXPECT_EQ(at(parsed(anthropic.body), "error", "type"), json::Value("not_found_error"));
}

}  // namespace
}  // namespace met::testing
