// Anthropic's bodies become chats; its events are those that the public reference lists, in their order.
#include "api/anthropic.h"

#include <gtest/gtest.h>

#include "tests/api/encoding.h"

namespace met::testing {
namespace {

using api::GenerationRequest;

api::ParseContext context() {
  api::ParseContext out;
  out.models = {"m"};
  out.vocabulary = 100;
  return out;
}

Result<GenerationRequest> parse(const std::string& members) {
  const auto body = json::parse(R"({"model":"m","max_tokens":8,)" + members + "}");
  EXPECT_TRUE(body) << members;
  return api::parse_messages(*body, context());
}

TEST(AnthropicRequest, BecomesAChat) {
  struct Case {
    const char* members;
    const char* messages;  ///< of the chat
  };
  for (
      const auto& [members, messages] : {
          Case{R"("messages":[{"role":"user","content":"a"}])", R"([{"role":"user","content":"a"}])"},
          {R"("system":[{"type":"text","text":"s"},{"type":"text","text":"t"}],
               "messages":[{"role":"user","content":[{"type":"text","text":"a"}]}])",
           R"([{"role":"system","content":"s\nt"},{"role":"user","content":"a"}])"},
          {R"("messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}])",
           R"([{"role":"user","content":"a\nb"}])"},
          {R"("messages":[{"role":"user","content":"a"},
                {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},
                  {"type":"tool_use","id":"t1","name":"f","input":{"c":1}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"20","is_error":true},
                  {"type":"text","text":"go"}]}])",
           R"([{"role":"user","content":"a"},
                {"role":"assistant","content":"","reasoning_content":"hm",
                 "tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":{"c":1}}}]},
                {"role":"tool","tool_call_id":"t1","content":"Error:\n20"},
                {"role":"user","content":"go"}])"},
          {R"("messages":[{"role":"user","content":[
                {"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"d"},
                 "cache_control":{"type":"ephemeral"}},
                {"type":"search_result","source":"s","title":"U","content":[{"type":"text","text":"r"}]}]}])",
           R"([{"role":"user","content":"T\nd\nU\ns\nr"}])"},
          {R"("messages":[{"role":"user","content":"a"},
                {"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"b"}]},
                {"role":"user","content":"c"}])",
           R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}])"},
      }) {
    const auto request = parse(members);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(json::Value(request->messages), *json::parse(messages)) << json::write(request->messages);
    EXPECT_FALSE(request->continue_final_message);
  }
}

TEST(AnthropicRequest, ALastAssistantMessageIsContinued) {
  const auto open =
      parse(R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"The"}])");
  ASSERT_TRUE(open);
  EXPECT_TRUE(open->continue_final_message);
  const auto empty = parse(R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":""}])");
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->continue_final_message);
  EXPECT_EQ(empty->messages.size(), 1U);
}

TEST(AnthropicRequest, FieldsLandInTheInternalRequest) {
  const std::string hi = R"("messages":[{"role":"user","content":"a"}],)";
  const auto request = parse(hi + R"("stop_sequences":["x"],"top_k":5,"min_p":0.1,"n":2,"frobnicate":1,
      "thinking":{"type":"disabled"},"metadata":{"user_id":"u"},"stream":true)");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->stop, std::vector<std::string>{"x"});
  EXPECT_EQ(request->sampling.top_k, 5);
  EXPECT_EQ(request->sampling.min_p, 0.1);
  EXPECT_EQ(request->n, 1);
  EXPECT_EQ(request->thinking.enabled, false);
  EXPECT_TRUE(request->stream);
  EXPECT_EQ(request->ignored, (std::vector<std::string>{"frobnicate", "n"}));
}

TEST(AnthropicRequest, TheAnswersFormKeepsItsName) {
  const auto request = parse(
      R"("messages":[{"role":"user","content":"a"}],"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})");
  ASSERT_TRUE(request && request->grammar);
  EXPECT_EQ(request->grammar->field, "output_config");
}

TEST(AnthropicRequest, ErrorsNameAnthropicsFields) {
  const std::string hi = R"("messages":[{"role":"user","content":"a"}],)";
  struct Case {
    std::string members;
    const char* field;
    const char* says;
  };
  for (
      const auto& [members, field, says] : {
          Case{
              hi +
                  R"("stop_sequences":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
              "stop_sequences", "stop_sequences must hold at most"},
          {hi + R"("tool_choice":{"type":"any"})", "tool_choice", "needs tools"},
          {hi + R"("thinking":{"type":"enabled","budget_tokens":10})", "thinking", "at least 1024"},
          {hi + R"("tools":[{"type":"web_search_20250305","name":"web_search"}])", "tools",
           "web_search_20250305"},
          {hi + R"("mcp_servers":[{"name":"x"}])", "mcp_servers", "not supported"},
          {R"("messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"http://x"}}]}])",
           "messages", "messages[0].content[0] has the type \"image\""},
          {R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}])",
           "messages", "names no tool_use"},
          {R"("messages":[{"role":"user","content":"a"},
                {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}])",
           "messages", "tool_result must follow"},
          {R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}],
              "output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})",
           "messages", "would not continue"},
          {hi + R"("system":[{"type":"smell"}])", "system", "system[0]"},
          {hi + R"("thinking":{"type":"between_tools"})", "thinking", "not supported"},
          {hi + R"("thinking":{"type":"adaptive","display":"loud"})", "thinking", "summarized or omitted"},
          {hi + R"("speed":"slow")", "speed", "standard|fast"},
          {hi + R"("cache_control":"x")", "cache_control", "an object"},
          {hi + R"("context_management":{"edits":[{"type":"x"}]})", "context_management", "not supported"},
          {hi + R"("compaction":{"type":"x"})", "compaction", "not supported"},
          {hi + R"("container":"x")", "container", "not supported"},
          {R"("messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"http://x"}}]}])",
           "messages", "source has the type \"url\""},
      }) {
    const auto request = parse(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.error().field, field) << members;
    EXPECT_NE(request.error().message.find(says), std::string::npos) << request.error().message;
  }
}

TEST(AnthropicAnswer, BlocksInOrderInBothForms) {
  const std::vector<api::AnswerPart> parts = thinking_text_and_two_calls();
  const std::string body = written(*api::messages_collect(kHead, {}, {}), parts);
  const json::Value plain = *json::parse(body);
  EXPECT_EQ(
      *plain.find("content"),
      *json::parse(R"([{"type":"thinking","thinking":"let me see","signature":"sig_0123456789abcdef0x0"},
      {"type":"text","text":"Looking."},
      {"type":"tool_use","id":"toolu_0123456789abcdef0x0","name":"weather","input":{"city":"Rome"}},
      {"type":"tool_use","id":"toolu_0123456789abcdef0x1","name":"time","input":{}}])"))
      << body;
  EXPECT_EQ(*plain.find("stop_reason"), json::Value("tool_use"));
  EXPECT_EQ(*plain.find("usage")->find("input_tokens"), json::Value(7));
  EXPECT_EQ(*plain.find("usage")->find("cache_read_input_tokens"), json::Value(3));

  const std::string stream = written(*api::messages_stream(kHead, {}, {}), parts);
  const auto events = events_of(stream);
  std::vector<std::string> types;
  for (const json::Value& event : events) {
    std::string type = event.find("type")->as_string();
    if (types.empty() || types.back() != type || type != "content_block_delta") types.push_back(type);
  }
  EXPECT_EQ(types, (std::vector<std::string>{
                       "message_start", "content_block_start", "content_block_delta", "content_block_stop",
                       "content_block_start", "content_block_delta", "content_block_stop",
                       "content_block_start", "content_block_delta", "content_block_stop",
                       "content_block_start", "content_block_stop", "message_delta", "message_stop"}));
  // Put together, the events give the plain answer.
  json::Array blocks;
  std::string input;
  for (const json::Value& event : events) {
    const std::string& type = event.find("type")->as_string();
    if (type == "content_block_start") {
      ASSERT_EQ(event.find("index")->as_int(), std::ssize(blocks));
      blocks.push_back(*event.find("content_block"));
      input.clear();
    }
    if (type == "content_block_delta") {
      const json::Value& delta = *event.find("delta");
      json::Object& block = blocks.back().as_object();
      for (const char* key : {"text", "thinking", "signature"})
        if (delta.find(key) != nullptr) block.find(key)->as_string() += delta.find(key)->as_string();
      if (delta.find("partial_json") != nullptr) input += delta.find("partial_json")->as_string();
    }
    if (type == "content_block_stop" && !input.empty())
      *blocks.back().as_object().find("input") = *json::parse(input);
  }
  EXPECT_EQ(json::Value(blocks), *plain.find("content"));
  EXPECT_EQ(*events[events.size() - 2].find("usage"), *plain.find("usage"));
}

TEST(AnthropicAnswer, StopReasons) {
  struct Case {
    api::Finish finish;
    const char* reason;
    json::Value sequence;
  };
  for (const auto& [finish, reason, sequence] :
       {Case{{"stop", {}}, "end_turn", {}}, Case{{"stop", json::Value("zz")}, "stop_sequence", "zz"},
        Case{{"stop", json::Value(7)}, "end_turn", {}}, Case{{"length", {}}, "max_tokens", {}},
        Case{{"timeout", {}}, "pause_turn", {}}}) {
    const std::vector<api::AnswerPart> parts = {{.text = "a", .finish = finish}};
    const json::Value plain = *json::parse(written(*api::messages_collect(kHead, {}, {}), parts));
    EXPECT_EQ(*plain.find("stop_reason"), json::Value(reason));
    EXPECT_EQ(*plain.find("stop_sequence"), sequence);
    const auto events = events_of(written(*api::messages_stream(kHead, {}, {}), parts));
    EXPECT_EQ(*events[events.size() - 2].find("delta")->find("stop_reason"), json::Value(reason));
  }
}

}  // namespace
}  // namespace met::testing
