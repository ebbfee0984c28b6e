#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/request.h"

namespace met::api {
namespace {

TEST(Messages, MalformedOnesAreRefusedWithTheirPlace) {
  for (const char* bad :
       {"null",
        "\"hello\"",
        "[]",
        "[123]",
        "[{}]",
        R"([{"role":123,"content":"x"}])",
        R"([{"role":"wizard","content":"x"}])",
        R"([{"content":"x"}])",
        R"([{"role":"user","content":123}])",
        R"([{"role":"user","content":{"text":"x"}}])",
        R"([{"role":"user","content":["x"]}])",
        R"([{"role":"user","content":[{"type":"smell"}]}])",
        R"([{"role":"user","content":[{"type":"text"}]}])",
        R"([{"role":"user","content":[{"type":"text","text":5}]}])",
        R"([{"role":"user","content":[{"type":"image_url"}]}])",
        R"([{"role":"user","content":null}])",
        R"([{"role":"user"}])",
        R"([{"role":"user","content":[]}])",
        R"([{"role":"tool","content":"x","tool_call_id":null}])",
        R"([{"role":"assistant","tool_calls":{}}])",
        R"([{"role":"assistant","tool_calls":[{"function":{}}]}])",
        R"([{"role":"tool","content":"x"}])",
        R"([{"role":"function","name":"f","content":"x"}])",
        R"([{"role":"assistant","audio":{"id":"a"}}])",
        R"([{"role":"assistant","function_call":{"arguments":"{}"}}])",
        R"([{"role":"assistant","tool_calls":[{"id":"1","type":"custom","custom":{"name":"f"}}]}])",
        R"([{"role":"user","content":"x","name":5}])"}) {
    const auto r = read_messages(*json::parse(bad));
    ASSERT_FALSE(r) << bad;
    EXPECT_EQ(r.error().field, "messages");
    EXPECT_THAT(r.error().message, testing::StartsWith("messages"));
  }
}

TEST(Messages, AreNormalizedForTemplates) {
  const auto r = read_messages(*json::parse(
      R"([{"role":"developer","content":"Be brief."},
          {"role":"user","name":"anna","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},
          {"role":"tool","tool_call_id":"1","content":"2"},
          {"role":"assistant","tool_calls":[]}])"));
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(
      json::write(json::Value(*r)),
      R"([{"role":"system","content":"Be brief."},{"role":"user","name":"anna","content":"a\nb"},)"
      R"({"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"x":1}}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"2"},{"role":"assistant","content":""}])");
}

TEST(Messages, OlderFormsAndRefusalsBecomeWhatTemplatesRead) {
  const auto r = read_messages(*json::parse(
      R"([{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"x\":1}"}},
          {"role":"function","name":"f","content":"2"},
          {"role":"assistant","content":null,"refusal":"No.","audio":null},
          {"role":"assistant","content":"Yes.","refusal":null,"function_call":null}])"));
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(
      json::Value(*r),
      *json::parse(
          R"([{"role":"assistant","content":"","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":{"x":1}}}]},
              {"role":"tool","name":"f","content":"2","tool_call_id":"call_0"},
              {"role":"assistant","content":"No."},{"role":"assistant","content":"Yes."}])"))
      << json::write(json::Value(*r));
}

TEST(Messages, ArgumentsThatAreNoObjectStayText) {
  const auto r = read_messages(*json::parse(
      R"([{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{broken"}},
          {"id":"2","function":{"name":"f","arguments":""}}]}])"));
  ASSERT_TRUE(r) << r.error().message;
  const json::Array& calls = r->front().find("tool_calls")->as_array();
  EXPECT_EQ(calls[0].find("function")->find("arguments")->as_string(), "{broken");
  EXPECT_TRUE(calls[1].find("function")->find("arguments")->is_object());
}

}  // namespace
}  // namespace met::api
