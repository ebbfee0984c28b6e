// Every field by table: a wrong type or range is refused by its name, a right one lands where it belongs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/error.h"
#include "api/request.h"
#include "core/concat.h"

namespace met::api {
namespace {

ParseContext context() {
  ParseContext c;
  c.models = {"tiny", "alias"};
  c.vocabulary = 1000;
  return c;
}

Result<GenerationRequest> chat(const std::string& members) {
  const auto body =
      json::parse(R"({"model":"tiny","messages":[{"role":"user","content":"Hi."}])" + members + "}");
  EXPECT_TRUE(body) << members;
  return parse_chat(*body, context());
}

Result<GenerationRequest> completion(const std::string& members) {
  const auto body = json::parse(R"({"model":"tiny","prompt":"Hi.")" + members + "}");
  EXPECT_TRUE(body) << members;
  return parse_completion(*body, context());
}

struct Bad {
  const char* field;
  const char* value;
};

constexpr Bad kBad[] = {
    {"temperature", "-0.1"},
    {"temperature", "2.1"},
    {"temperature", "\"hot\""},
    {"temperature", "[1]"},
    {"top_p", "-0.1"},
    {"top_p", "1.1"},
    {"top_p", "\"x\""},
    {"top_k", "-2"},
    {"top_k", "1.5"},
    {"top_k", "2147483648"},
    {"min_p", "1.1"},
    {"typical_p", "-0.1"},
    {"presence_penalty", "2.1"},
    {"frequency_penalty", "-2.1"},
    {"repetition_penalty", "0"},
    {"repetition_penalty", "-1"},
    {"repeat_penalty", "0"},
    {"seed", "1.5"},
    {"seed", "123456789012345678901234567890"},
    {"seed", "\"x\""},
    {"n", "0"},
    {"n", "129"},
    {"n", "1.5"},
    {"max_tokens", "0"},
    {"max_tokens", "-1"},
    {"max_tokens", "1.5"},
    {"max_tokens", "9223372036854775808"},
    {"max_completion_tokens", "0"},
    {"stop", "5"},
    {"stop", "[1]"},
    {"stop", "{}"},
    {"stop", "\"\""},
    {"stop", "[\"\"]"},
    {"stop_token_ids", "\"x\""},
    {"stop_token_ids", "[1.5]"},
    {"stop_token_ids", "[-1]"},
    {"stop_token_ids", "[1000]"},
    {"min_tokens", "-1"},
    {"ignore_eos", "\"perhaps\""},
    {"ignore_eos", "1"},
    {"skip_special_tokens", "0"},
    {"logprobs", "\"x\""},
    {"logprobs", "[]"},
    {"prompt_logprobs", "-5"},
    {"prompt_logprobs", "21"},
    {"logit_bias", "{\"x\":1}"},
    {"logit_bias", "{\"1\":101}"},
    {"logit_bias", "{\"1\":\"a\"}"},
    {"logit_bias", "\"x\""},
    {"logit_bias", "{\"-1\":1}"},
    {"logit_bias", "{\"1000\":1}"},
    {"logit_bias", "{\"1x\":1}"},
    {"logit_bias", "[]"},
    {"allowed_token_ids", "[]"},
    {"allowed_token_ids", "[1000]"},
    {"bad_words", "[\"\"]"},
    {"bad_words", "5"},
    {"stream", "7"},
    {"priority", "\"x\""},
    {"cache_salt", "\"\""},
    {"cache_salt", "5"},
    {"timeout", "0"},
    {"reasoning_effort", "\"gigantic\""},
    {"reasoning_effort", "3"},
    {"user", "5"},
    {"metadata", "\"x\""},
    {"service_tier", "\"golden\""},
    {"parallel_tool_calls", "\"perhaps\""},
    {"store", "\"perhaps\""},
    {"chat_template_kwargs", "[]"},
    {"add_generation_prompt", "1"},
    {"continue_final_message", "\"x\""},
    {"return_token_ids", "1"},
    {"top_n_sigma", "\"x\""},
    {"xtc_probability", "1.1"},
    {"xtc_threshold", "\"x\""},
    {"dry_multiplier", "-1"},
    {"dry_base", "\"x\""},
    {"dry_allowed_length", "1.5"},
    {"dry_sequence_breakers", "5"},
    {"mirostat", "3"},
    {"mirostat_tau", "\"x\""},
    {"mirostat_eta", "\"x\""},
    {"dynatemp_range", "-1"},
    {"truncate_prompt_tokens", "0"},
    {"stream_options", "{\"include_usage\":true}"},
    // what we lack is refused, never ignored
    {"tools", "[{\"type\":\"function\"}]"},
    {"tool_choice", "\"required\""},
    {"response_format", "{\"type\":\"xml\"}"},
    {"response_format", "\"json\""},
    {"response_format", "{\"type\":\"json_schema\"}"},
    {"response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}}"},
    {"response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":\"x\"}}"},
    {"guided_json", "5"},
    {"guided_json", "\"{\""},
    {"guided_regex", "[\"a\"]"},
    {"guided_choice", "[1]"},
    {"structured_outputs", "{\"regex\":5}"},
    {"structured_outputs", "{\"choice\":[]}"},
    {"structured_outputs", "{\"regex\":\"a\",\"choice\":[\"a\"]}"},
    {"structured_outputs", "{\"regex\":\"a\",\"whitespace_pattern\":\" \"}"},
    {"structured_outputs", "[]"},
    {"chat_template", "\"{{ 1 }}\""},
    {"grammar", "5"},
    {"modalities", "[\"audio\"]"},
    {"use_beam_search", "true"},
    {"moderation", "{\"mode\":\"score\"}"},
    {"prediction", "\"x\""},
    {"prompt_cache_options", "5"},
    {"n_predict", "0"},
    {"detokenize", "false"},
    {"num_beams", "4"},
    {"repeat_last_n", "64"},
    {"repetition_detection", "5"},
    {"repetition_detection", "{\"max_pattern_size\":-1}"},
    {"repetition_detection", "{\"max_pattern_size\":2049,\"min_count\":2}"},
    {"repetition_detection", "{\"max_pattern_size\":4,\"min_count\":1}"},
    {"repetition_detection", "{\"max_pattern_size\":4}"},
    {"repetition_detection", "{\"max_pattern_size\":4,\"min_count\":\"2\"}"},
    {"repetition_detection", "{\"min_pattern_size\":5,\"max_pattern_size\":4,\"min_count\":2}"},
    {"n_keep", "-2"},
    {"n_discard", "-1"},
    {"id_slot", "-2"},
    {"samplers", "[\"top_k\"]"},
    {"lora", "[{\"id\":0}]"},
    {"return_hidden_states", "true"},
    {"reasoning_format", "\"none\""},
};

TEST(ChatFields, ABadValueIsRefusedByName) {
  for (const auto& [field, value] : kBad) {
    const auto r = chat(std::string(",\"") + field + "\":" + value);
    ASSERT_FALSE(r) << field << " = " << value;
    EXPECT_EQ(r.error().field, field) << value << ": " << r.error().message;
    EXPECT_THAT(r.error().message, testing::HasSubstr(field));
    EXPECT_EQ(ApiError(r.error()).status, 400);
  }
}

TEST(ChatFields, NullIsAbsent) {
  for (const auto& [field, value] : kBad) {
    const auto r = chat(std::string(",\"") + field + "\":null");
    EXPECT_TRUE(r) << field << ": " << r.error().message;
  }
}

TEST(ChatFields, NeutralValuesOfWhatWeLackPass) {
  const auto r =
      chat(R"(,"tools":[],"tool_choice":"auto","response_format":{"type":"text"},"guided_choice":[],
      "functions":[],"function_call":"none","num_beams":1,"min_keep":1,"repeat_last_n":-1,"detokenize":true,
      "samplers":[],"prediction":{"type":"content","content":"x"},"lora":[],"return_progress":false,"modalities":["text"],"use_beam_search":false,"structured_outputs":{})");
  EXPECT_TRUE(r) << r.error().message;
}

TEST(ChatFields, EveryWayToSayWhatTheTextMustBe) {
  using grammar::Kind;
  const struct {
    const char* member;
    Kind kind;
    const char* value;
  } kCases[] = {
      {R"("response_format":{"type":"json_object"})", Kind::kJsonObject, "null"},
      {R"("response_format":{"type":"json_object","schema":{"type":"array"}})", Kind::kJsonSchema,
       R"({"type":"array"})"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"null"}}})",
       Kind::kJsonSchema, R"({"type":"null"})"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})", Kind::kJsonObject, "null"},
      {R"("structured_outputs":{"json":"{\"type\":\"null\"}","regex":null,"disable_any_whitespace":false})",
       Kind::kJsonSchema, R"({"type":"null"})"},
      {R"("structured_outputs":{"json_object":true})", Kind::kJsonObject, "null"},
      {R"("structured_outputs":{"regex":"a+"})", Kind::kRegex, R"("a+")"},
      {R"("structured_outputs":{"choice":["a","b"]})", Kind::kChoice, R"(["a","b"])"},
      {R"("structured_outputs":{"structural_tag":"{\"format\":{}}"})", Kind::kStructuralTag,
       R"({"format":{}})"},
      {R"("guided_json":{"type":"null"},"guided_decoding_backend":"xgrammar")", Kind::kJsonSchema,
       R"({"type":"null"})"},
      {R"("guided_grammar":"root ::= \"a\"")", Kind::kEbnf, R"("root ::= \"a\"")"},
      {R"("grammar":"root ::= \"a\"")", Kind::kEbnf, R"("root ::= \"a\"")"},
      {R"("json_schema":{"type":"null"})", Kind::kJsonSchema, R"({"type":"null"})"},
  };
  for (const auto& c : kCases) {
    const auto r = chat(std::string(",") + c.member);
    ASSERT_TRUE(r) << c.member << ": " << r.error().message;
    ASSERT_TRUE(r->grammar) << c.member;
    EXPECT_EQ(r->grammar->kind, c.kind) << c.member;
    EXPECT_EQ(json::write(r->grammar->value), c.value) << c.member;
  }
  const auto two = chat(R"(,"response_format":{"type":"json_object"},"guided_regex":"a")");
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, testing::HasSubstr("give one"));
  EXPECT_FALSE(chat(R"(,"response_format":{"type":"text"})")->grammar);
}

TEST(ChatFields, ValuesLandWhereTheyBelong) {
  const auto r =
      chat(R"(,"temperature":0.5,"top_p":0.9,"top_k":-1,"min_p":0.05,"repeat_penalty":1.2,"seed":-1,"n":3,
      "max_tokens":7,"max_completion_tokens":9,"stop":["a","b"],"logprobs":true,"top_logprobs":4,"logit_bias":{"5":-100},
      "stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"min_tokens":2,"timeout":1.5,
      "chat_template_kwargs":{"x":[1]},"dry_sequence_breakers":["\n"],"x_unknown":{"a":1},"return_token_ids":true)");
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->sampling.temperature, 0.5);
  EXPECT_EQ(r->sampling.top_k, 0);
  EXPECT_EQ(r->sampling.repetition_penalty, 1.2);
  EXPECT_EQ(r->sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(r->n, 3);
  EXPECT_EQ(r->max_tokens, 9);
  EXPECT_EQ(r->stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r->logprobs, 4);
  EXPECT_EQ(r->sampling.logprobs, 4);
  EXPECT_EQ(r->sampling.logit_bias.size(), 1U);
  EXPECT_TRUE(r->stream && r->include_usage && r->ignore_eos && r->return_token_ids);
  EXPECT_EQ(r->sampling.min_tokens, 2);
  EXPECT_EQ(r->timeout_s, 1.5);
  EXPECT_TRUE(r->chat_template_kwargs.contains("x"));
  EXPECT_EQ(r->ignored, std::vector<std::string>{"x_unknown"});
}

TEST(ChatFields, DefaultsAreTheModelsThenNeutral) {
  ParseContext c = context();
  c.defaults.temperature = 0.6;
  c.defaults.top_k = 20;
  const auto body = json::parse(R"({"messages":[{"role":"user","content":"x"}],"top_k":5})");
  const auto r = parse_chat(*body, c);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->model, "tiny");
  EXPECT_EQ(r->sampling.temperature, 0.6);
  EXPECT_EQ(r->sampling.top_k, 5);
  EXPECT_EQ(r->sampling.top_p, 1.0);
  EXPECT_EQ(r->logprobs, -1);
}

TEST(ChatFields, RulesBetweenFields) {
  EXPECT_EQ(chat(R"(,"top_logprobs":2)").error().field, "top_logprobs");
  EXPECT_EQ(chat(R"(,"min_tokens":10,"max_tokens":5)").error().field, "min_tokens");
  EXPECT_EQ(chat(R"(,"stream":true,"prompt_logprobs":1)").error().field, "prompt_logprobs");
  EXPECT_EQ(chat(R"(,"stream":true,"stream_options":"usage")").error().field, "stream_options");
  EXPECT_EQ(chat(R"(,"stream":true,"stream_options":{"include_obfuscation":5})").error().field,
            "stream_options");
  EXPECT_EQ(chat(R"(,"stream":true,"stream_options":{"include_obfuscation":false,"x":1})")->ignored,
            std::vector<std::string>{"stream_options.x"});
  EXPECT_EQ(chat(R"(,"n_predict":5)")->max_tokens, 5);
  EXPECT_FALSE(chat(R"(,"n_predict":-1)")->max_tokens);
  EXPECT_EQ(chat(R"(,"stream":true,"stream_options":{"include_usage":"perhaps"})").error().field,
            "stream_options");
  EXPECT_EQ(chat(R"(,"continue_final_message":true)").error().field, "continue_final_message");
  const auto zero = chat(R"(,"logprobs":true,"top_logprobs":0)");
  EXPECT_EQ(zero->logprobs, 0);
}

TEST(ChatFields, ATextThatTheRequestPrescribesIsNoRefusal) {
  ParseContext c = context();
  c.detect_refusals = true;
  const auto detects = [&](const char* members) {
    const auto body = json::parse(concat(R"({"messages":[{"role":"user","content":"x"}])", members, "}"));
    return parse_chat(*body, c)->detect_refusals;
  };
  EXPECT_TRUE(detects(""));
  EXPECT_FALSE(detects(R"(,"guided_choice":["I cannot help with that."])"));
}

TEST(CompletionFields, BadValuesAndRules) {
  for (const auto& [field, value] : std::initializer_list<Bad>{{"logprobs", "21"},
                                                               {"logprobs", "-2"},
                                                               {"logprobs", "\"many\""},
                                                               {"best_of", "0"},
                                                               {"best_of", "\"two\""},
                                                               {"echo", "\"perhaps\""},
                                                               {"suffix", "5"},
                                                               {"max_tokens", "0"},
                                                               {"temperature", "5"}}) {
    const auto r = completion(std::string(",\"") + field + "\":" + value);
    ASSERT_FALSE(r) << field << " = " << value;
    EXPECT_EQ(r.error().field, field) << value;
  }
  EXPECT_EQ(completion(R"(,"n":3,"best_of":2)").error().field, "best_of");
  for (const char* seed : {"9223372036854775808", "18446744073709551615", "-1e300", "1.5"})
    EXPECT_TRUE(completion(std::string(",\"seed\":") + seed)
                    .error()
                    .message.contains(
                        "seed must be an integer from -9223372036854775808 to 9223372036854775807, got "))
        << completion(std::string(",\"seed\":") + seed).error().message;
  EXPECT_TRUE(completion(R"(,"seed":-9223372036854775808)"));
  EXPECT_TRUE(completion(R"(,"prompt_logprobs":-1)").error().message.contains("whole vocabulary"));
  EXPECT_TRUE(completion(R"(,"prompt_logprobs":-2)").error().message.contains("0 to 20"));
  EXPECT_EQ(completion(R"(,"truncate_prompt_tokens":-1)")->truncate_prompt_tokens, -1);
  EXPECT_EQ(completion(R"(,"n":1,"best_of":2,"stream":true)").error().field, "best_of");
  EXPECT_EQ(completion(R"(,"suffix":"x","truncate_prompt_tokens":4)").error().field,
            "truncate_prompt_tokens");
  EXPECT_EQ(completion(R"(,"suffix":"x")")->suffix, "x");
  EXPECT_EQ(completion("")->max_tokens, 16);
  EXPECT_FALSE(completion(R"(,"n_predict":-1)")->max_tokens) << "no bound, not the default";
  EXPECT_EQ(completion(R"(,"n_predict":-1,"max_tokens":5)")->max_tokens, 5);
  EXPECT_EQ(completion(R"(,"max_tokens":0,"echo":true)")->max_tokens, 0);
  EXPECT_EQ(completion(R"(,"logprobs":0)")->logprobs, 0);
}

TEST(CompletionFields, PromptForms) {
  const auto read = [](const std::string& prompt) {
    return parse_completion(*json::parse(R"({"prompt":)" + prompt + "}"), context());
  };
  EXPECT_EQ(read("\"a\"")->prompts.size(), 1U);
  EXPECT_EQ(read("[\"a\",\"b\"]")->prompts.size(), 2U);
  EXPECT_EQ(std::get<std::vector<TokenId>>(read("[1,2,3]")->prompts[0]), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(read("[[1],[2,3]]")->prompts.size(), 2U);
  for (const char* bad : {"{\"text\":\"x\"}", "5", "[[]]", "[-1]", "[99999999]", "[1.5]", "[true]",
                          "[\"a\",1]", "[[1],\"a\"]", "[]", "[1,\"a\"]", "[null]", "[9223372036854775808]"}) {
    const auto r = read(bad);
    ASSERT_FALSE(r) << bad;
    EXPECT_EQ(r.error().field, "prompt") << bad;
  }
  EXPECT_EQ(parse_completion(*json::parse("{}"), context()).error().field, "prompt");
}

TEST(Model, UnknownIsNotFoundAndListsTheServed) {
  const auto r =
      parse_chat(*json::parse(R"({"model":"gpt","messages":[{"role":"user","content":"x"}]})"), context());
  ASSERT_FALSE(r);
  const ApiError error(r.error());
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(error.code, "model_not_found");
  EXPECT_THAT(error.message, testing::AllOf(testing::HasSubstr("gpt"), testing::HasSubstr("tiny, alias")));
  for (const char* bad : {"5", "[]", "{}"})
    EXPECT_EQ(parse_chat(*json::parse(std::string("{\"model\":") + bad + "}"), context()).error().field,
              "model");
  EXPECT_TRUE(completion(R"(,"model":"alias")"));
}

TEST(Body, MustBeAnObject) {
  for (const char* bad : {"[]", "\"x\"", "5", "null"}) {
    EXPECT_FALSE(parse_chat(*json::parse(bad), context()));
    EXPECT_FALSE(parse_completion(*json::parse(bad), context()));
  }
}

}  // namespace
}  // namespace met::api
