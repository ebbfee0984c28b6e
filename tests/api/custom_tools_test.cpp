// Custom tools: one parameter for the model, a text for the client.
#include "api/custom_tools.h"

#include <gmock/gmock.h>

#include "api/responses.h"
#include "tests/api/encoding.h"

namespace met::testing {
namespace {

using ::testing::HasSubstr;

api::ParseContext context() {
  api::ParseContext out;
  out.models = {"m"};
  out.vocabulary = 100;
  return out;
}

Result<api::GenerationRequest> chat(const std::string& members) {
  return api::parse_chat(*json::parse(R"({"messages":[{"role":"user","content":"a"}],)" + members + "}"),
                         context());
}

TEST(CustomTools, TheInputComesOutAtEverySplit) {
  struct Case {
    const char* arguments;
    const char* input;
  };
  for (const auto& [arguments, input] : {
           Case{R"({"input": "a = 1\n\"b\" \\ c"})", "a = 1\n\"b\" \\ c"},
           {" {\n\"input\" : \"\\u00e9\\ud83d\\ude42\xC3\xA9\"\n} ", "\xC3\xA9\xF0\x9F\x99\x82\xC3\xA9"},
           {R"({"input":""})", ""},
           {R"({"input":"x", "more": "y"})", "x"},
           {"{}", "{}"},
           {R"({"input": 5})", R"({"input": 5})"},
           {R"({"code": "x"})", R"({"code": "x"})"},
           {"plain", "plain"},
           {R"({"inp)", R"({"inp)"},
           {R"({"input": "cut)", "cut"},
           {R"({"input": "\q"})", "\xEF\xBF\xBD"},
       })
    for (std::string_view whole = arguments;
         const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{100}}) {
      api::CustomInput read;
      std::string out;
      for (std::size_t at = 0; at < whole.size(); at += step) out += read.push(whole.substr(at, step));
      EXPECT_EQ(out + read.finish(), input) << arguments << " in pieces of " << step;
    }
}

TEST(CustomTools, AreFunctionsOfOneText) {
  const auto r =
      chat(R"("tools":[{"type":"custom","custom":{"name":"sql","description":"d","format":{"type":"text"}}},
      {"type":"custom","custom":{"name":"date","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"\\d+|x"}}}}],
      "tool_choice":{"type":"custom","custom":{"name":"date"}})");
  ASSERT_TRUE(r) << r.error().message;
  ASSERT_EQ(r->tools.size(), 2U);
  EXPECT_TRUE(r->tools[0].custom && !r->tools[0].strict && r->tools[1].strict);
  EXPECT_EQ(r->tools[0].definition,
            *json::parse(R"({"type":"function","function":{"name":"sql","description":"d","parameters":
      {"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}})"));
  EXPECT_EQ(*r->tools[1].parameters.find("properties")->find("input")->find("pattern"),
            json::Value(R"(^(?:\d+|x)$)"));
  EXPECT_EQ(r->tool_choice.only, std::vector<std::string>{"date"});
}

TEST(CustomTools, WhatCannotBeServedIsRefusedByItsPlace) {
  struct Case {
    const char* custom;
    const char* says;
  };
  for (
      const auto& [custom, says] : {
          Case{"5", "tools[0].custom must be an object"},
          {"{}", "tools[0].custom.name"},
          {R"({"name":"a b"})", "tools[0].custom.name must be 1 to"},
          {R"({"name":"f","description":5})", "tools[0].custom.description"},
          {R"({"name":"f","format":{"type":"json"}})", "format.type must be text or grammar"},
          {R"({"name":"f","format":{"type":"grammar"}})", "format.syntax"},
          {R"({"name":"f","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"a\""}}})",
           "format.grammar.syntax is lark"},
          {R"({"name":"f","format":{"type":"grammar","grammar":{"syntax":"ebnf","definition":"a"}}})",
           "must be lark or regex"},
          {R"({"name":"f","format":{"type":"grammar","grammar":{"syntax":"regex"}}})",
           "format.grammar.definition"},
      }) {
    const auto r = chat(std::string(R"("tools":[{"type":"custom","custom":)") + custom + "}]");
    ASSERT_FALSE(r) << custom;
    EXPECT_EQ(r.error().field, "tools");
    EXPECT_THAT(r.error().message, HasSubstr(says));
  }
}

TEST(CustomTools, AHistoryShowsTheModelItsOwnCalls) {
  const auto messages = api::read_messages(*json::parse(R"([{"role":"assistant","tool_calls":[
      {"id":"c","type":"custom","custom":{"name":"sql","input":"a \"b\""}}]},{"role":"tool","tool_call_id":"c","content":"1"}])"));
  ASSERT_TRUE(messages) << messages.error().message;
  const json::Value call = *json::parse(
      R"({"id":"c","type":"function","function":{"name":"sql","arguments":{"input":"a \"b\""}}})");
  EXPECT_EQ(messages->front().find("tool_calls")->as_array().front(), call);
  const auto items = api::read_items(
      *json::parse(R"([{"type":"custom_tool_call","id":"ctc_1","call_id":"c","name":"sql","input":"a \"b\""},
      {"type":"custom_tool_call_output","call_id":"c","output":"1"}])"),
      "input");
  ASSERT_TRUE(items) << items.error().message;
  EXPECT_EQ(api::id_prefix((*items)[1]), "ctco_");
  std::vector<api::Item> shared;
  for (const json::Value& item : *items) shared.push_back(std::make_shared<const json::Value>(item));
  const auto chat_form = api::chat_messages(shared, "input");
  ASSERT_TRUE(chat_form) << chat_form.error().message;
  EXPECT_EQ(api::read_messages(json::Value(*chat_form))->front().find("tool_calls")->as_array().front(),
            call);
  shared.erase(shared.begin());
  EXPECT_THAT(api::chat_messages(shared, "input").error().message, HasSubstr("custom_tool_call_output"));
}

TEST(CustomTools, ResponsesTellTheInput) {
  using Kind = api::AnswerPart::Kind;
  const std::vector<api::AnswerPart> parts = {
      {.kind = Kind::kCallBegin, .custom = true, .text = "sql"},
      {.kind = Kind::kCallArguments, .custom = true, .text = "SELECT "},
      {.kind = Kind::kCallArguments, .custom = true, .text = "1"},
      {.kind = Kind::kCallEnd, .custom = true},
      {.finish = api::Finish{"tool_calls", {}}}};
  api::GenerationRequest generation;
  api::ResponseEncoder collect(kHead, {}, generation);
  const json::Value plain = *json::parse(written(collect, parts));
  EXPECT_EQ(*plain.find("output"),
            *json::parse(R"([{"id":"ctc_0123456789abcdef0x0","type":"custom_tool_call","status":"completed",
      "call_id":"call_0123456789abcdef0x0","name":"sql","input":"SELECT 1"}])"));
  generation.stream = true;
  api::ResponseEncoder stream(kHead, {}, generation);
  std::string input;
  std::string done;
  for (const json::Value& event : events_of(written(stream, parts))) {
    if (*event.find("type") == json::Value("response.custom_tool_call_input.delta"))
      input += event.find("delta")->as_string();
    if (*event.find("type") == json::Value("response.custom_tool_call_input.done"))
      done = event.find("input")->as_string();
  }
  EXPECT_EQ(input, "SELECT 1");
  EXPECT_EQ(done, input);
}

}  // namespace
}  // namespace met::testing
