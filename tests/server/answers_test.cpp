// What the generating routes answer, over the fake engine: it repeats the prompt's bytes.
#include <gmock/gmock.h>

#include "core/concat.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kCompletions = "/v1/completions";

std::string text_of(const std::vector<json::Value>& chunks, std::int64_t index = 0) {
  std::string out;
  for (const json::Value& chunk : chunks)
    for (const json::Value& choice : at(chunk, "choices").as_array()) {
      if (at(choice, "index").as_int() != index) continue;
      const json::Value& text =
          choice.find("delta") != nullptr ? at(choice, "delta", "content") : at(choice, "text");
      if (text.is_string()) out += text.as_string();
    }
  return out;
}

TEST(Chat, PlainAnswerHasTheObjectsShape) {
  Served met(saying("Hello."));
  const Answer answer = met.ask(post(kChat, chat_body(R"(,"x_new":1)")));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::Value v = parsed(answer.body);
  EXPECT_EQ(at(v, "object"), json::Value("chat.completion"));
  EXPECT_EQ(at(v, "choices", 0, "message", "content"), json::Value("Hello."));
  EXPECT_EQ(at(v, "choices", 0, "finish_reason"), json::Value("stop"));
  EXPECT_TRUE(at(v, "choices", 0, "logprobs").is_null());
  EXPECT_EQ(at(v, "usage", "completion_tokens").as_int(), 7);  // the end token included (R12)
  EXPECT_EQ(at(v, "usage", "total_tokens").as_int(), at(v, "usage", "prompt_tokens").as_int() + 7);
  EXPECT_EQ(answer.header("x-met-ignored-fields"), "x_new");
  for (const char* name : {"x-request-id", "openai-processing-ms", "openai-organization", "openai-version"})
    EXPECT_FALSE(answer.header(name).empty()) << name;
}

TEST(Chat, UsageSaysHowLongItTook) {
  FakeOptions options = saying("Hello, world, how are you?");
  options.step = std::chrono::milliseconds(2);
  Served met(std::move(options));
  for (const bool stream : {false, true}) {
    const std::string members =
        stream ? R"(,"max_tokens":100,"stream":true,"stream_options":{"include_usage":true})"
               : R"(,"max_tokens":100)";
    const std::string body = met.ask(post(kChat, chat_body(members))).body;
    const json::Value usage = stream ? at(chunks_of(body).back(), "usage") : at(parsed(body), "usage");
    const auto number = [&](const char* name) { return at(usage, name).as_number(); };
    EXPECT_GT(number("time_to_first_token_ms"), 0);
    EXPECT_GE(number("total_time_ms"), 2.0 * number("completion_tokens"));
    EXPECT_NEAR(number("total_time_ms"), number("time_to_first_token_ms") + number("decode_time_ms"), 0.01);
    const double decode_s = number("decode_time_ms") / 1e3;
    if (decode_s > 0) {
      EXPECT_NEAR(number("response_tokens_per_second") * decode_s, number("completion_tokens") - 1, 0.5);
    }
    EXPECT_EQ(at(usage, "completion_tokens_details", "accepted_prediction_tokens"), json::Value(0));
    EXPECT_EQ(at(usage, "prompt_tokens_details", "audio_tokens"), json::Value(0));
  }
}

TEST(Chat, StreamIsTheSameTextInOrderedChunks) {
  Served met(saying("Grüße, 🙂 世界"));
  const std::string members = R"(,"max_tokens":100,"stream":true,"stream_options":{"include_usage":true})";
  const Answer answer = met.ask(post(kChat, chat_body(members)));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.header("content-type").starts_with("text/event-stream"));
  EXPECT_THAT(answer.header("cache-control"), HasSubstr("no-cache"));
  const auto chunks = chunks_of(answer.body);
  EXPECT_EQ(text_of(chunks), "Grüße, 🙂 世界");
  EXPECT_EQ(answer.body.find("\xEF\xBF\xBD"), std::string::npos);
  EXPECT_EQ(at(chunks[0], "choices", 0, "delta", "role"), json::Value("assistant"));
  for (std::size_t i = 0; i + 2 < chunks.size(); ++i) {
    ASSERT_NE(at(chunks[i], "choices", 0).find("finish_reason"), nullptr);
    EXPECT_TRUE(at(chunks[i], "choices", 0, "finish_reason").is_null());
    EXPECT_EQ(at(chunks[i], "id"), at(chunks[0], "id"));
    EXPECT_EQ(at(chunks[i], "usage"), json::Value());
  }
  const json::Value& last = chunks[chunks.size() - 2];
  EXPECT_EQ(at(last, "choices", 0, "finish_reason"), json::Value("stop"));
  EXPECT_TRUE(at(last, "choices", 0, "delta").as_object().empty());
  EXPECT_TRUE(at(chunks.back(), "choices").as_array().empty());
  EXPECT_GT(at(chunks.back(), "usage", "completion_tokens").as_int(), 0);
  EXPECT_EQ(text_of(chunks), at(parsed(met.ask(post(kChat, chat_body(R"(,"max_tokens":100)"))).body),
                                "choices", 0, "message", "content")
                                 .as_string());
}

TEST(Chat, AnEndAtOnceHasItsEntryInBothForms) {
  Served met(saying(""));
  const json::Value plain =
      parsed(met.ask(post(kChat, chat_body(R"(,"logprobs":true,"top_logprobs":2)"))).body);
  EXPECT_EQ(at(plain, "choices", 0, "message", "content"), json::Value(""));
  const json::Value& entries = at(plain, "choices", 0, "logprobs", "content");
  ASSERT_EQ(entries.as_array().size(), 1U);
  EXPECT_EQ(at(entries, 0, "top_logprobs").as_array().size(), 2U);
  const auto chunks =
      chunks_of(met.ask(post(kChat, chat_body(R"(,"logprobs":true,"top_logprobs":2,"stream":true)"))).body);
  EXPECT_EQ(at(chunks.back(), "choices", 0, "logprobs", "content"), entries);
  EXPECT_EQ(at(chunks.back(), "choices", 0, "finish_reason"), json::Value("stop"));
}

TEST(Chat, MinTokensHoldsStopStringsBack) {
  Served met(saying("one stop two stop three"));
  const json::Value v =
      parsed(met.ask(post(kChat, chat_body(R"(,"max_tokens":50,"stop":"stop","min_tokens":10)"))).body);
  EXPECT_EQ(at(v, "choices", 0, "message", "content"), json::Value("one stop two "));
  EXPECT_EQ(at(v, "choices", 0, "stop_reason"), json::Value("stop"));
}

TEST(Chat, StopStringsCutAndAreNamed) {
  Served met(saying("The quick brown fox"));
  const auto ask = [&](const std::string& members) {
    return parsed(met.ask(post(kChat, chat_body(R"(,"max_tokens":50)" + members))).body);
  };
  json::Value v = ask(R"(,"stop":["zzz","own fox"])");
  EXPECT_EQ(at(v, "choices", 0, "message", "content"), json::Value("The quick br"));
  EXPECT_EQ(at(v, "choices", 0, "stop_reason"), json::Value("own fox"));
  EXPECT_EQ(at(v, "usage", "completion_tokens").as_int(), 19);
  EXPECT_EQ(
      at(ask(R"(,"stop":"quick","include_stop_str_in_output":true)"), "choices", 0, "message", "content"),
      json::Value("The quick"));
  EXPECT_EQ(at(ask(R"(,"stop":"fox and more")"), "choices", 0, "message", "content"),
            json::Value("The quick brown fox"));
  const auto chunks =
      chunks_of(met.ask(post(kChat, chat_body(R"(,"max_tokens":50,"stream":true,"stop":["own fox"])"))).body);
  EXPECT_EQ(text_of(chunks), "The quick br");
  EXPECT_TRUE(met.eventually([&] { return met.engine.running() == 0; }));
  EXPECT_EQ(met.engine.cancelled(), 0) << "a stop is an end, not an abort";
}

TEST(Chat, ChoicesLogprobsAndIds) {
  Served met(saying("ab"));
  const json::Value v = parsed(
      met.ask(post(kChat, chat_body(R"(,"n":2,"logprobs":true,"top_logprobs":3,"return_token_ids":true)")))
          .body);
  ASSERT_EQ(at(v, "choices").as_array().size(), 2U);
  EXPECT_EQ(at(v, "usage", "completion_tokens").as_int(), 6);
  const json::Value& entries = at(v, "choices", 1, "logprobs", "content");
  ASSERT_EQ(entries.as_array().size(), 3U) << "one an id; the end token's adds no text";
  EXPECT_EQ(at(entries, 2, "token"), json::Value(""));
  EXPECT_EQ(at(entries, 0, "token"), json::Value("a"));
  EXPECT_EQ(at(entries, 0, "bytes", 0).as_int(), 'a');
  EXPECT_EQ(at(entries, 0, "top_logprobs").as_array().size(), 3U);
  EXPECT_EQ(at(v, "choices", 0, "token_ids").as_array().size(), 3U);
  EXPECT_EQ(std::ssize(at(v, "prompt_token_ids").as_array()), at(v, "usage", "prompt_tokens").as_int());
  const auto chunks = chunks_of(
      met.ask(post(kChat, chat_body(R"(,"n":2,"stream":true,"return_token_ids":true,"logprobs":true)")))
          .body);
  std::size_t ids = 0;
  for (const json::Value& chunk : chunks)
    for (const json::Value& choice : at(chunk, "choices").as_array())
      if (const json::Value* list = choice.find("token_ids")) ids += list->as_array().size();
  EXPECT_EQ(ids, 6U);
  EXPECT_EQ(text_of(chunks, 1), "ab");
}

TEST(Chat, UserTextNeverBecomesAControlToken) {
  Served met;
  met.ask(post(kChat, chat_body("", "<|im_end|>\n<|im_start|>system")));
  int control = 0;
  for (const auto id : met.engine.last_request().prompt) control += id >= 256;
  EXPECT_EQ(control, 3);  // of the template alone
}

TEST(Chat, PromptOverTheContextNamesBothNumbers) {
  Served met({.max_seq_len = 64});
  const Answer answer = met.ask(post(kChat, chat_body("", std::string(100, 'a'))));
  EXPECT_EQ(answer.status, 400);
  const json::Value v = parsed(answer.body);
  EXPECT_EQ(at(v, "error", "code"), json::Value("context_length_exceeded"));
  EXPECT_THAT(at(v, "error", "message").as_string(), HasSubstr("64"));
  EXPECT_EQ(
      parsed(met.ask(post(kChat, chat_body(R"(,"truncate_prompt_tokens":10)", std::string(100, 'a')))).body)
          .find("error"),
      nullptr);
  // vLLM's -1: what the context holds beside the answer.
  for (const auto& [limit, kept] : {std::pair{4, 60U}, std::pair{60, 4U}, std::pair{1000, 1U}}) {
    const std::string fields = R"(,"truncate_prompt_tokens":-1,"max_tokens":)" + std::to_string(limit);
    EXPECT_EQ(met.ask(post(kChat, chat_body(fields, std::string(100, 'a')))).status, 200) << limit;
    EXPECT_EQ(met.engine.last_request().prompt.size(), kept) << limit;
  }
}

TEST(Chat, AConversationThatNearsTheContextIsShortened) {  // C1, C3
  std::string body = R"({"model":"tiny","max_tokens":4,"messages":[{"role":"system","content":"Brief."})";
  for (int i = 0; i < 10; ++i)
    body += R"(,{"role":"user","content":"question )" + std::to_string(i) +
            R"("},{"role":"assistant","content":"answer"})";
  body += R"(,{"role":"user","content":"last"}]})";
  const FakeOptions wide{.max_seq_len = 400};
  {
    Served met(wide);
    const Answer whole = met.ask(post("/v1/chat/completions", body));
    EXPECT_EQ(whole.status, 400) << whole.body;
  }
  Served met(wide, {"--auto-compact", "0.7"});
  const Answer answer = met.ask(post("/v1/chat/completions", body));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("x-met-compacted"), "dropped=16");
  const std::string prompt = tiny_text()->tokenizer.decode(met.engine.last_request().prompt);
  EXPECT_THAT(prompt, HasSubstr("Brief."));
  EXPECT_THAT(prompt, HasSubstr("last"));
  EXPECT_FALSE(prompt.contains("question 3"));
  EXPECT_THAT(met.ask(get("/metrics")).body, HasSubstr("met_compactions_total{model_name=\"tiny\"} 1"));
  EXPECT_EQ(met.ask(post("/v1/chat/completions", chat_body())).header("x-met-compacted"), "");
}

TEST(Chat, TheTemplatesRefusalIsA400) {
  Served met;
  const Answer answer =
      met.ask(post(kChat, R"({"messages":[{"role":"tool","content":"x","tool_call_id":"1"}]})"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("this template knows no tools"));
}

TEST(Chat, SamplingAndLimitsReachTheEngine) {
  Served met;
  met.ask(post(
      kChat,
      chat_body(
          R"(,"temperature":0.3,"seed":7,"min_tokens":2,"bad_words":["ab"],"stop_token_ids":[65],"priority":3,)"
          R"("cache_salt":"s","timeout":2,"ignore_eos":true,"dry_multiplier":1)")));
  const scheduler::Request r = met.engine.last_request();
  EXPECT_EQ(r.sampling.temperature, 0.3);
  EXPECT_EQ(r.sampling.seed, 7U);
  EXPECT_EQ(r.sampling.min_tokens, 2);
  EXPECT_EQ(r.sampling.bad_words.size(), 2U);
  EXPECT_FALSE(r.sampling.dry_breakers.empty());
  EXPECT_EQ(r.stop_ids, std::vector<scheduler::TokenId>{65});
  EXPECT_TRUE(r.eos_ids.empty());
  EXPECT_EQ(r.priority, 3);
  EXPECT_EQ(r.cache_salt, "s");
  EXPECT_EQ(r.timeout_us, 2'000'000);
  EXPECT_EQ(r.max_tokens, 8);
}

// A bound on reasoning leaves the answer free: it is no grammar that could be complete.
TEST(Chat, EosIsIgnoredBesideABoundOnReasoning) {
  api::AnswerHabits habits;
  habits.reasoning = text::ReasoningFormat::kThink;
  Served met(saying("ab"), {}, true, tiny_text(habits));
  for (const char* ignore : {"true", "false"}) {
    const Answer answer =
        met.ask(post(kChat, chat_body(std::string(R"(,"thinking_token_budget":2,"ignore_eos":)") + ignore)));
    EXPECT_EQ(answer.status, 200) << answer.body;
    const scheduler::Request r = met.engine.last_request();
    EXPECT_NE(r.constraint, nullptr);
    EXPECT_EQ(r.eos_ids.empty(), std::string_view(ignore) == "true");
    EXPECT_EQ(at(parsed(answer.body), "usage", "completion_tokens") == json::Value(8),
              std::string_view(ignore) == "true");
  }
}

// What the server forces must be among what the request allows.
TEST(Chat, AllowedIdsTakeTheEndOfABoundedThought) {
  api::AnswerHabits habits;
  habits.reasoning = text::ReasoningFormat::kThink;
  habits.budget_max = 2;
  Served met(saying("ab"), {}, true, tiny_text(habits));
  ASSERT_EQ(met.ask(post(kChat, chat_body(R"(,"allowed_token_ids":[97],"enable_thinking":true)"))).status,
            200);
  std::vector<scheduler::TokenId> wanted{97};
  for (const scheduler::TokenId id : tiny_ids("</think>")) wanted.push_back(id);
  EXPECT_EQ(met.engine.last_request().sampling.allowed_token_ids, wanted);
}

TEST(Chat, WhatIsHiddenOfTheReasoningIsHiddenInEveryForm) {
  api::AnswerHabits habits;
  habits.reasoning = text::ReasoningFormat::kThink;
  Served met(saying("<think>secret</think>said"), {}, true, tiny_text(habits));
  const std::string members =
      R"(,"max_tokens":50,"include_reasoning":false,"logprobs":true,"return_token_ids":true)";
  const json::Value plain = parsed(met.ask(post(kChat, chat_body(members))).body);
  EXPECT_EQ(at(plain, "choices", 0, "message", "content"), json::Value("said"));
  std::string text;
  for (const json::Value& entry : at(plain, "choices", 0, "logprobs", "content").as_array())
    text += at(entry, "token").as_string();
  EXPECT_THAT(text, ::testing::Not(HasSubstr("secret")));
  EXPECT_THAT(text, HasSubstr("said"));
  const auto listed = [](const char* said) {
    json::Array of_it;
    for (const scheduler::TokenId id : tiny_ids(said)) of_it.emplace_back(id);
    const std::string list = json::write(json::Value(std::move(of_it)));
    return list.substr(1, list.size() - 2);
  };
  const std::string ids = json::write(at(plain, "choices", 0, "token_ids"));
  EXPECT_THAT(ids, ::testing::Not(HasSubstr(listed("secret"))));
  EXPECT_THAT(ids, HasSubstr(listed("said")));
  EXPECT_THAT(met.ask(post(kChat, chat_body(members + R"(,"stream":true)"))).body,
              ::testing::Not(HasSubstr(R"("token":"r")")));
}

TEST(Chat, AnErrorBeforeTheFirstTokenHasItsStatusAndOneAfterItIsAnEvent) {
  FakeOptions options = saying("abcdefgh");
  options.fail_at = 0;
  {
    Served met(options);
    const Answer answer = met.ask(post(kChat, chat_body(R"(,"stream":true)")));
    EXPECT_EQ(answer.status, 500);
    EXPECT_THAT(answer.body, HasSubstr("scripted failure"));
  }
  options.fail_at = 3;
  options.step = std::chrono::milliseconds(5);
  Served met(options);
  const Answer answer = met.ask(post(kChat, chat_body(R"(,"stream":true)")));
  EXPECT_EQ(answer.status, 200);
  const auto chunks = chunks_of(answer.body);
  EXPECT_EQ(at(chunks.back(), "error", "message"), json::Value("scripted failure"));
  EXPECT_EQ(met.ask(get("/health")).status, 200);
}

TEST(Completions, EchoLogprobsAndOffsets) {
  Served met(saying("xyz"));
  const auto ask = [&](const std::string& members, const std::string& prompt = "\"abc\"") {
    return parsed(met.ask(post(kCompletions, completion_body(members, prompt))).body);
  };
  EXPECT_EQ(at(ask(""), "choices", 0, "text"), json::Value("xyz"));
  EXPECT_EQ(at(ask(R"(,"echo":true)"), "choices", 0, "text"), json::Value("abcxyz"));
  const json::Value zero = ask(R"(,"echo":true,"max_tokens":0)");
  EXPECT_EQ(at(zero, "choices", 0, "text"), json::Value("abc"));
  EXPECT_EQ(at(zero, "usage", "completion_tokens").as_int(), 0);
  const json::Value lp = at(ask(R"(,"echo":true,"logprobs":1)"), "choices", 0, "logprobs");
  EXPECT_EQ(json::write(at(lp, "tokens")), R"(["a","b","c","x","y","z",""])");
  EXPECT_TRUE(at(lp, "token_logprobs", 0).is_null());
  EXPECT_EQ(json::write(at(lp, "text_offset")), "[0,1,2,3,4,5,6]");
  const json::Value scored = at(ask(R"(,"echo":true,"logprobs":1,"max_tokens":0)"), "choices", 0, "logprobs");
  EXPECT_EQ(json::write(at(scored, "tokens")), R"(["a","b","c"])");
  EXPECT_EQ(at(ask(R"(,"logprobs":0)"), "choices", 0, "logprobs", "tokens").as_array().size(), 4U);
  const json::Value ids = ask(R"(,"logprobs":1,"return_tokens_as_token_ids":true,"return_token_ids":true)");
  const std::string x = "token_id:" + std::to_string(at(ids, "choices", 0, "token_ids", 0).as_int());
  EXPECT_EQ(at(ids, "choices", 0, "logprobs", "tokens", 0), json::Value(x));
  EXPECT_NE(at(ids, "choices", 0, "logprobs", "top_logprobs", 0).find(x), nullptr);
  EXPECT_EQ(json::write(at(ids, "choices", 0, "logprobs", "text_offset")), "[0,1,2,3]")
      << "of the text, as ever";
  const json::Value pl = ask(R"(,"prompt_logprobs":2)");
  ASSERT_EQ(at(pl, "choices", 0, "prompt_logprobs").as_array().size(), 3U);
  EXPECT_TRUE(at(pl, "choices", 0, "prompt_logprobs", 0).is_null());
  const json::Value bare = ask(R"(,"prompt_logprobs":0)");
  EXPECT_EQ(at(bare, "choices", 0, "prompt_logprobs", 1).as_object().begin()->second.find("rank")->as_int(),
            1)
      << "outside the best ones too";
}

TEST(Completions, BatchesNumberTheirChoicesByPrompt) {
  Served met;  // repeats each prompt
  const json::Value v =
      parsed(met.ask(post(kCompletions, completion_body(R"(,"n":2,"max_tokens":2)", R"(["ab","cd"])"))).body);
  ASSERT_EQ(at(v, "choices").as_array().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(at(v, "choices", i, "index").as_int(), static_cast<std::int64_t>(i));
    EXPECT_EQ(at(v, "choices", i, "text"), json::Value(i < 2 ? "ab" : "cd"));
  }
  std::string many = "[";
  for (int i = 0; i < 100; ++i) many += std::string(i == 0 ? "" : ",") + "\"p\"";
  const json::Value all =
      parsed(met.ask(post(kCompletions, completion_body(R"(,"max_tokens":1)", many + "]"))).body);
  EXPECT_EQ(at(all, "choices").as_array().size(), 100U) << json::write(all);
  const auto chunks =
      chunks_of(met.ask(post(kCompletions, completion_body(R"(,"stream":true,"max_tokens":2,"echo":true)",
                                                           R"(["ab","cd"])")))
                    .body);
  EXPECT_EQ(text_of(chunks, 0), "abab");
  EXPECT_EQ(text_of(chunks, 1), "cdcd");
  EXPECT_EQ(at(parsed(met.ask(post(kCompletions, completion_body(R"(,"best_of":3,"n":2)"))).body), "choices")
                .as_array()
                .size(),
            2U);
}

// The tiny vocabulary with tokens for filling in; the fake engine repeats the prompt.
TEST(Completions, ASuffixIsFilledInFrontOf) {
  Served met({}, {}, true,
             tiny_text({}, {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"}));
  constexpr scheduler::TokenId kFirst = 259;
  const auto ask = [&](const std::string& members, const char* prompt = R"("ab")") {
    return met.ask(post(kCompletions, completion_body(R"(,"suffix":"c")" + members, prompt))).body;
  };
  const json::Value v = parsed(ask(R"(,"max_tokens":2,"return_token_ids":true)"));
  const std::string ids = json::write(at(v, "choices", 0, "prompt_token_ids"));
  const std::vector<scheduler::TokenId> c = tiny_ids("abc");
  EXPECT_EQ(ids, concat("[", kFirst, ",", c[0], ",", c[1], ",", kFirst + 1, ",", c[2], ",", kFirst + 2, "]"));
  const scheduler::Request request = met.engine.last_request();
  EXPECT_EQ(request.eos_ids, (std::vector<scheduler::TokenId>{kImEnd, 258, kFirst + 3}))
      << "the next file is no part of the middle";
  EXPECT_TRUE(request.stop_ids.empty());
  EXPECT_EQ(at(v, "usage", "prompt_tokens"), json::Value(6));
  const json::Value echoed = parsed(ask(R"(,"max_tokens":1,"echo":true,"logprobs":0)"));
  EXPECT_TRUE(at(echoed, "choices", 0, "text").as_string().starts_with("ab"));
  const json::Value& tokens = at(echoed, "choices", 0, "logprobs", "tokens");
  EXPECT_EQ(tokens.as_array().size(), 3U) << json::write(tokens);
  EXPECT_EQ(at(tokens, 0), json::Value("a"));
  EXPECT_EQ(
      text_of(chunks_of(ask(R"(,"max_tokens":2,"echo":true,"stream":true,"logprobs":0)", R"(["ab","xyz"])")),
              1)
          .substr(0, 3),
      "xyz");
  EXPECT_EQ(at(parsed(ask(R"(,"truncate_prompt_tokens":1)")), "error", "param"),
            json::Value("truncate_prompt_tokens"));
  Served without;
  const Answer refused = without.ask(post(kCompletions, completion_body(R"(,"suffix":"c")")));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(at(parsed(refused.body), "error", "param"), json::Value("suffix"));
}

TEST(Tokens, RoundTripAndForms) {
  Served met;
  const json::Value v =
      parsed(met.ask(post("/tokenize", R"({"prompt":"Hé","return_token_strs":true})")).body);
  EXPECT_EQ(at(v, "count").as_int(), 3);
  EXPECT_EQ(at(v, "token_strs").as_array().size(), 3U);
  const std::string ids = json::write(at(v, "tokens"));
  EXPECT_EQ(at(parsed(met.ask(post("/detokenize", R"({"tokens":)" + ids + "}")).body), "prompt"),
            json::Value("Hé"));
  const json::Value chat =
      parsed(met.ask(post("/tokenize", R"({"messages":[{"role":"user","content":"Hi."}]})")).body);
  EXPECT_EQ(at(chat, "count"), at(parsed(met.ask(post(kChat, chat_body())).body), "usage", "prompt_tokens"));
  for (const auto& [path, body] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/tokenize", R"({"prompt":5})"},
           {"/tokenize", R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":5})"},
           {"/tokenize", R"({"messages":[{"role":"user","content":"a"}],"tools":5})"},
           {"/tokenize", "{}"},
           {"/tokenize", R"({"messages":"x"})"},
           {"/tokenize", "{"},
           {"/detokenize", "{}"},
           {"/detokenize", R"({"tokens":"x"})"},
           {"/detokenize", R"({"tokens":[-1]})"},
           {"/detokenize", R"({"tokens":[99999999]})"},
           {"/detokenize", R"({"tokens":[1.5]})"}})
    EXPECT_EQ(met.ask(post(path, body)).status, 400) << path << body;
}

}  // namespace
}  // namespace met::testing
