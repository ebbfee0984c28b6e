// Where an answer that declines stands in each API, and that nothing is judged unless it was asked for.
#include "core/concat.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

constexpr const char* kText = "I'm sorry, but I can't help with that.";
constexpr std::string_view kChat = "/v1/chat/completions";

TEST(Refusals, AreContentUnlessTheyAreLookedFor) {
  Served met(saying(kText));
  const json::Value v = parsed(met.ask(post(kChat, chat_body(R"(,"max_tokens":100)"))).body);
  EXPECT_EQ(at(v, "choices", 0, "message", "content"), json::Value(kText));
  EXPECT_TRUE(at(v, "choices", 0, "message", "refusal").is_null());
}

TEST(Refusals, StandInTheirOwnFieldOfAChat) {
  Served met(saying(kText), {"--detect-refusals"});
  const json::Value v = parsed(
      met.ask(post(kChat, chat_body(R"(,"max_tokens":100,"logprobs":true,"return_token_ids":true)"))).body);
  EXPECT_EQ(at(v, "choices", 0, "message", "refusal"), json::Value(kText));
  EXPECT_TRUE(at(v, "choices", 0, "message", "content").is_null());
  EXPECT_EQ(at(v, "choices", 0, "finish_reason"), json::Value("stop"));
  EXPECT_TRUE(at(v, "choices", 0, "logprobs", "content").is_null());
  const std::size_t tokens = static_cast<std::size_t>(at(v, "usage", "completion_tokens").as_int());
  EXPECT_EQ(at(v, "choices", 0, "logprobs", "refusal").as_array().size(), tokens);
  EXPECT_EQ(at(v, "choices", 0, "token_ids").as_array().size(), tokens);
  const auto chunks =
      chunks_of(met.ask(post(kChat, chat_body(R"(,"max_tokens":100,"stream":true,"logprobs":true)"))).body);
  std::string refusal;
  for (const json::Value& chunk : chunks) {
    const json::Value& delta = at(chunk, "choices", 0, "delta");
    if (const json::Value* text = delta.find("content")) {
      EXPECT_EQ(*text, json::Value(""));
    }
    if (const json::Value* text = delta.find("refusal")) refusal += text->as_string();
  }
  EXPECT_EQ(refusal, kText);
  EXPECT_EQ(at(chunks.back(), "choices", 0, "finish_reason"), json::Value("stop"));
}

TEST(Refusals, AreAPartOfAResponse) {
  Served met(saying(kText), {"--detect-refusals"});
  const json::Value v = parsed(met.ask(post("/v1/responses", R"({"input":"Hi."})")).body);
  EXPECT_EQ(at(v, "output", 0, "type"), json::Value("message"));
  EXPECT_EQ(at(v, "output", 0, "content", 0, "type"), json::Value("refusal"));
  EXPECT_EQ(at(v, "output", 0, "content", 0, "refusal"), json::Value(kText));
  const Answer streamed = met.ask(post("/v1/responses", R"({"input":"Hi.","stream":true})"));
  std::vector<std::string> types;
  for (std::size_t from = 0; (from = streamed.body.find("event: ", from)) != std::string::npos; from += 7)
    types.push_back(streamed.body.substr(from + 7, streamed.body.find('\n', from) - from - 7));
  EXPECT_EQ(types, (std::vector<std::string>{
                       "response.created", "response.in_progress", "response.output_item.added",
                       "response.content_part.added", "response.refusal.delta", "response.refusal.done",
                       "response.content_part.done", "response.output_item.done", "response.completed"}));
  // what the assistant said stays in the conversation
  const std::string next =
      concat(R"({"input":"And?","previous_response_id":)", json::write(at(v, "id")), "}");
  EXPECT_EQ(met.ask(post("/v1/responses", next)).status, 200);
  const auto& prompt = met.engine.last_request().prompt;
  const std::string text = tiny_text()->tokenizer.decode(prompt);
  EXPECT_NE(text.find(kText), std::string::npos) << text;
}

TEST(Refusals, MessagesAndCompletionsHaveNone) {
  Served met(saying(kText), {"--detect-refusals"});
  const json::Value message = parsed(
      met.ask(post("/v1/messages", R"({"max_tokens":90,"messages":[{"role":"user","content":"Hi."}]})"))
          .body);
  EXPECT_EQ(at(message, "content", 0, "text"), json::Value(kText));
  EXPECT_EQ(at(message, "stop_reason"), json::Value("end_turn"));
  const json::Value completion =
      parsed(met.ask(post("/v1/completions", completion_body(R"(,"max_tokens":90)"))).body);
  EXPECT_EQ(at(completion, "choices", 0, "text"), json::Value(kText));
}

}  // namespace
}  // namespace met::testing
