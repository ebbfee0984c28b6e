// What leaves a conversation when the request says so, and what it says in the answer.
#include "api/context_edits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "api/anthropic.h"

namespace met::api {
namespace {

json::Value parsed(const std::string& text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value) << text;
  return value ? *value : json::Value();
}

Result<ContextEdit> edit_of(const std::string& text) {
  auto edits = read_context_edits(parsed(R"({"edits":[)" + text + "]}"));
  if (!edits) return std::unexpected(edits.error());
  return edits->at(0);
}

/// Two turns with tools between questions, as `read_messages` gives them.
json::Array conversation() {
  const auto call = [](const char* id, const char* name) {
    return std::string(R"({"id":")") + id + R"(","type":"function","function":{"name":")" + name +
           R"(","arguments":{"a":1}}})";
  };
  return parsed(R"([{"role":"user","content":"q1"},
    {"role":"assistant","content":"","reasoning_content":"r1","tool_calls":[)" +
                call("c1", "f") + "," + call("c2", "g") + R"(]},
    {"role":"tool","tool_call_id":"c1","content":"long result"},{"role":"tool","tool_call_id":"c2","content":"other"},
    {"role":"assistant","content":"a1","reasoning_content":"r2"},
    {"role":"user","content":"q2"},
    {"role":"assistant","content":"","reasoning_content":"r3","tool_calls":[)" +
                call("c3", "f") + R"(]},
    {"role":"tool","tool_call_id":"c3","content":"last"}])")
      .as_array();
}

std::string reasoning(const json::Array& messages) {
  std::string out;
  for (const json::Value& message : messages)
    if (const json::Value* text = message.find("reasoning_content")) out += text->as_string() + ",";
  return out;
}

std::string results(const json::Array& messages) {
  std::string out;
  for (const json::Value& message : messages)
    if (message.find("tool_call_id") != nullptr) out += message.find("content")->as_string() + ",";
  return out;
}

TEST(ContextEdits, ReasoningOfTheLastTurnsStays) {
  struct Case {
    const char* edit;
    std::int64_t cleared;
    const char* left;
  };
  for (const auto& [edit, cleared, left] :
       {Case{R"({"type":"clear_thinking_20251015"})", 1, "r3,"},
        Case{R"({"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}})", 1, "r3,"},
        Case{R"({"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":2}})", 0,
             "r1,r2,r3,"},
        Case{R"({"type":"clear_thinking_20251015","keep":"all"})", 0, "r1,r2,r3,"},
        Case{R"({"type":"clear_thinking_20251015","keep":{"type":"all"}})", 0, "r1,r2,r3,"}}) {
    const auto read = edit_of(edit);
    ASSERT_TRUE(read) << edit;
    const EditedMessages got = edited(conversation(), *read);
    EXPECT_EQ(got.cleared, cleared) << edit;
    EXPECT_EQ(reasoning(got.messages), left) << edit;
  }
}

TEST(ContextEdits, ResultsOfTheLastUsesStay) {
  const std::string cleared = "[cleared to save context],";
  struct Case {
    const char* rest;
    std::int64_t count;
    std::string left;
    const char* first_input;
  };
  for (const auto& [rest, count, left, first_input] :
       {Case{"", 0, "long result,other,last,", R"({"a":1})"},
        Case{R"(,"keep":{"type":"tool_uses","value":1})", 2, cleared + cleared + "last,", R"({"a":1})"},
        Case{R"(,"keep":{"type":"tool_uses","value":1},"exclude_tools":["g"])", 1, cleared + "other,last,",
             R"({"a":1})"},
        Case{R"(,"keep":{"type":"tool_uses","value":0},"clear_tool_inputs":true)", 3,
             cleared + cleared + cleared, "{}"},
        Case{R"(,"keep":{"type":"tool_uses","value":2},"clear_tool_inputs":["f"])", 1,
             cleared + "other,last,", "{}"}}) {
    const auto read = edit_of(std::string(R"({"type":"clear_tool_uses_20250919")") + rest + "}");
    ASSERT_TRUE(read) << rest;
    const EditedMessages got = edited(conversation(), *read);
    EXPECT_EQ(got.cleared, count) << rest;
    EXPECT_EQ(results(got.messages), left) << rest;
    EXPECT_EQ(
        json::write(*got.messages[1].find("tool_calls")->as_array()[0].find("function")->find("arguments")),
        first_input)
        << rest;
  }
  EXPECT_EQ(tool_uses(conversation()), 3);
}

TEST(ContextEdits, BadOnesAreRefusedWithTheirPlace) {
  for (const char* value :
       {"5", R"({"edits":5})", R"({"edits":[5]})", R"({"edits":[{"type":"compact_20260112"}]})",
        R"({"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":0}}]})",
        R"({"edits":[{"type":"clear_thinking_20251015","keep":"some"}]})",
        R"({"edits":[{"type":"clear_tool_uses_20250919","trigger":{"type":"hours","value":1}}]})",
        R"({"edits":[{"type":"clear_tool_uses_20250919","keep":{"type":"tool_uses","value":-1}}]})",
        R"({"edits":[{"type":"clear_tool_uses_20250919","exclude_tools":"f"}]})",
        R"({"edits":[{"type":"clear_tool_uses_20250919","clear_tool_inputs":5}]})"}) {
    const auto edits = read_context_edits(parsed(value));
    ASSERT_FALSE(edits) << value;
    EXPECT_EQ(edits.error().field, "context_management") << value;
  }
}

Result<GenerationRequest> message(const std::string& members) {
  ParseContext context;
  context.models = {"tiny"};
  context.vocabulary = 1000;
  return parse_messages(
      parsed(R"({"max_tokens":5,"messages":[{"role":"user","content":"Hi."}])" + members + "}"), context);
}

TEST(ClientTools, AreFunctionsOfTheirPublishedSchema) {
  for (const char* type : {"bash_20250124", "text_editor_20250728", "memory_20250818"}) {
    const auto request = message(std::string(R"(,"tools":[{"name":"t","type":")") + type + "\"}]");
    ASSERT_TRUE(request) << type << ": " << request.error().message;
    ASSERT_EQ(request->tools.size(), 1U);
    EXPECT_EQ(request->tools[0].name, "t");
  }
  for (const char* type :
       {"bash_", "bash_2025x124", "web_search_20250305", "code_execution_20250825", "bash_202501244"}) {
    const auto request = message(std::string(R"(,"tools":[{"name":"t","type":")") + type + "\"}]");
    ASSERT_FALSE(request) << type;
    EXPECT_EQ(request.error().field, "tools");
  }
}

}  // namespace
}  // namespace met::api
