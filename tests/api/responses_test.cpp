// Responses' bodies and items become chats; the object and its events tell the same.
#include "api/responses.h"

#include <gtest/gtest.h>

#include "tests/api/encoding.h"

namespace met::testing {
namespace {

api::ParseContext context() {
  api::ParseContext out;
  out.models = {"m"};
  out.vocabulary = 100;
  return out;
}

Result<api::ResponseRequest> parse(const std::string& members) {
  const auto body = json::parse(R"({"model":"m",)" + members + "}");
  EXPECT_TRUE(body) << members;
  return api::parse_response(*body, context());
}

std::vector<api::Item> items_of(const json::Array& items) {
  std::vector<api::Item> out;
  for (const json::Value& item : items) out.push_back(std::make_shared<const json::Value>(item));
  return out;
}

Result<api::GenerationRequest> lower(const std::string& members) {
  auto request = parse(members);
  if (!request) return std::unexpected(request.error());
  return api::lower_response(*request, items_of(request->input), context());
}

TEST(ResponseRequest, ItemsBecomeMessages) {
  struct Case {
    const char* members;
    const char* messages;
  };
  for (
      const auto& [members, messages] : {
          Case{R"("input":"a")", R"([{"role":"user","content":"a"}])"},
          {R"("instructions":"i","input":[{"role":"developer","content":"d"},
                {"role":"user","content":[{"type":"input_text","text":"a"}]}])",
           R"([{"role":"system","content":"i"},{"role":"system","content":"d"},{"role":"user","content":"a"}])"},
          {R"("input":[{"role":"user","content":"a"},
                {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
                {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me look."}]},
                {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}"},
                {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
                {"type":"function_call_output","call_id":"c1","output":"1"},
                {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]}])",
           R"([{"role":"user","content":"a"},
                {"role":"assistant","reasoning_content":"hm","content":"Let me look.","tool_calls":[
                  {"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}},
                  {"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},
                {"role":"tool","tool_call_id":"c1","content":"1"},
                {"role":"tool","tool_call_id":"c2","content":"2"}])"},
      }) {
    const auto request = lower(members);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(json::Value(request->messages), *json::parse(messages)) << json::write(request->messages);
  }
}

TEST(ResponseRequest, FieldsLandInTheInternalRequest) {
  const auto request = lower(R"("input":"a","max_output_tokens":7,"temperature":0.5,
      "include":["message.output_text.logprobs"],"top_logprobs":2,"reasoning":{"effort":"low"},"n":3,"frobnicate":1,
      "min_p":0.2,"store":true)");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->max_tokens, 7);
  EXPECT_EQ(request->logprobs, 2);
  EXPECT_EQ(request->reasoning_effort, "low");
  EXPECT_EQ(request->sampling.min_p, 0.2);
  EXPECT_EQ(request->n, 1);
  EXPECT_FALSE(request->store) << "the response is stored, not a chat completion";
  EXPECT_EQ(request->ignored, (std::vector<std::string>{"frobnicate", "n"}));
}

TEST(ResponseRequest, TheAnswersFormKeepsItsName) {
  const auto request = lower(R"("input":"a","text":{"format":{"type":"json_object"}})");
  ASSERT_TRUE(request && request->grammar);
  EXPECT_EQ(request->grammar->field, "text");
}

TEST(ResponseRequest, ErrorsNameItsFields) {
  struct Case {
    const char* members;
    const char* field;
    const char* says;
  };
  for (const auto& [members, field, says] : {
           Case{R"("store":true)", "input", "missing"},
           {R"("input":[])", "input", "input must not be empty"},
           {R"("input":[{"type":"no_such_item"}])", "input", "input[0] has the type \"no_such_item\""},
           {R"("input":[{"role":"user","content":[{"type":"input_image","image_url":"http://x"}]}])", "input",
            "input[0].content[0] has the type \"input_image\""},
           {R"("input":[{"type":"function_call_output","call_id":"c","output":"1"}])", "input",
            "nowhere before"},
           {R"("input":"a","max_output_tokens":0)", "max_output_tokens", "max_output_tokens must be"},
           {R"("input":"a","reasoning":{"effort":"huge"})", "reasoning", "must be one of"},
           {R"("input":"a","text":{"format":{"type":"xml"}})", "text", "text.format.type"},
           {R"("input":"a","tools":[{"type":"local_shell"}])", "tools", "local_shell"},
           {R"("input":"a","tools":[{"type":"namespace","name":"s"}])", "tools", "tools[0].tools must be"},
           {R"("input":"a","tools":[{"type":"namespace","name":"s","tools":[{"type":"web_search"}]}])",
            "tools", "tools[0].tools[0]"},
           {R"("input":"a","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"})",
            "tool_choice", "tool_choice must be"},
           {R"("input":"a","tools":[{"type":"web_search"}],"tool_choice":"required")", "tool_choice",
            "no tools"},
           {R"("input":"a","include":["everything"])", "include", "everything"},
           {R"("input":"a","background":true,"store":false)", "background", "needs store"},
           {R"("input":"a","metadata":{"a":1})", "metadata", "strings"},
           {R"("input":"a","previous_response_id":"r","conversation":"c")", "previous_response_id", "both"},
           {R"("input":"a","prompt":{"id":"p"})", "prompt", "not supported"},
       }) {
    const auto request = lower(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.error().field, field) << members;
    EXPECT_NE(request.error().message.find(says), std::string::npos) << request.error().message;
  }
}

TEST(ResponseRequest, HostedToolsAreLeftOutAndNamed) {
  const auto request = lower(R"("input":"a","tools":[{"type":"function","name":"f"},{"type":"web_search"},)"
                             R"({"type":"image_generation","output_format":"png"}])");
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->tools.size(), 1U);
  EXPECT_EQ(request->ignored, (std::vector<std::string>{"tools[1].web_search", "tools[2].image_generation"}));
}

TEST(ResponseRequest, FunctionsOfANamespaceAreKnownByBothNames) {
  const std::string tools =
      R"("tools":[{"type":"namespace","name":"crm","description":"d","tools":[{"type":"function","name":"find"}]},)"
      R"({"type":"function","name":"find"}])";
  const auto request = lower(
      R"("input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c","namespace":"crm","name":"find","arguments":"{}"},)"
      R"({"type":"function_call_output","call_id":"c","output":"b"}],)" +
      tools);
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->tools.size(), 2U);
  EXPECT_EQ(request->tools[0].name, "crm__find");
  EXPECT_EQ(request->tools[1].name, "find");
  EXPECT_EQ(*request->messages[1].find("tool_calls")->as_array()[0].find("function")->find("name"),
            json::Value("crm__find"));
  const auto own = parse(R"("input":"a",)" + tools);
  api::ResponseEncoder encoder(kHead, *own, {});
  std::string out;
  using Kind = api::AnswerPart::Kind;
  for (const char* name : {"crm__find", "find"}) {
    encoder.part({.kind = Kind::kCallBegin, .text = name}, {}, out);
    encoder.part({.kind = Kind::kCallEnd, .text = {}}, {}, out);
  }
  EXPECT_EQ(*encoder.output()[0].find("name"), json::Value("find"));
  EXPECT_EQ(*encoder.output()[0].find("namespace"), json::Value("crm"));
  EXPECT_EQ(*encoder.output()[1].find("name"), json::Value("find"));
  EXPECT_EQ(encoder.output()[1].find("namespace"), nullptr);
}

struct Told {
  json::Value plain;
  std::vector<json::Value> events;
};

Told tell(const std::vector<api::AnswerPart>& parts, bool background = false) {
  api::ResponseRequest request;
  request.background = background;
  api::GenerationRequest generation;
  api::ResponseEncoder collect(kHead, request, generation);
  generation.stream = true;
  api::ResponseEncoder stream(kHead, request, generation);
  Told out{*json::parse(written(collect, parts)), events_of(written(stream, parts))};
  EXPECT_EQ(*out.events.back().find("response"), out.plain) << "a stream ends with the plain object";
  for (std::size_t i = 0; i < out.events.size(); ++i)
    EXPECT_EQ(*out.events[i].find("sequence_number"), json::Value(i));
  return out;
}

TEST(ResponseAnswer, ItemsInOrderInBothForms) {
  const Told told = tell(thinking_text_and_two_calls());
  EXPECT_EQ(*told.plain.find("status"), json::Value("completed"));
  EXPECT_EQ(*told.plain.find("output"), *json::parse(R"([
      {"id":"rs_0123456789abcdef0x0","type":"reasoning","status":"completed","summary":[],
       "content":[{"type":"reasoning_text","text":"let me see"}]},
      {"id":"msg_0123456789abcdef0x1","type":"message","status":"completed","role":"assistant",
       "content":[{"type":"output_text","text":"Looking.","annotations":[],"logprobs":[]}]},
      {"id":"fc_0123456789abcdef0x2","type":"function_call","status":"completed","call_id":"call_0123456789abcdef0x2",
       "name":"weather","arguments":"{\"city\":\"Rome\"}"},
      {"id":"fc_0123456789abcdef0x3","type":"function_call","status":"completed","call_id":"call_0123456789abcdef0x3",
       "name":"time","arguments":""}])"))
      << json::write(*told.plain.find("output"));
  std::vector<std::string> types;
  for (const json::Value& event : told.events) {
    std::string type = event.find("type")->as_string().substr(sizeof "response." - 1);
    if (types.empty() || types.back() != type) types.push_back(std::move(type));
  }
  EXPECT_EQ(types, (std::vector<std::string>{"created",
                                             "in_progress",
                                             "output_item.added",
                                             "content_part.added",
                                             "reasoning_text.delta",
                                             "reasoning_text.done",
                                             "content_part.done",
                                             "output_item.done",
                                             "output_item.added",
                                             "content_part.added",
                                             "output_text.delta",
                                             "output_text.done",
                                             "content_part.done",
                                             "output_item.done",
                                             "output_item.added",
                                             "function_call_arguments.delta",
                                             "function_call_arguments.done",
                                             "output_item.done",
                                             "output_item.added",
                                             "function_call_arguments.done",
                                             "output_item.done",
                                             "completed"}));
  // Each item's events carry its place in the final output, and its id.
  const json::Array& output = told.plain.find("output")->as_array();
  for (const json::Value& event : told.events) {
    const json::Value* index = event.find("output_index");
    if (index == nullptr) continue;
    const json::Value& item = output[static_cast<std::size_t>(index->as_int())];
    const json::Value* id =
        event.find("item_id") != nullptr ? event.find("item_id") : event.find("item")->find("id");
    EXPECT_EQ(*id, *item.find("id"));
    if (*event.find("type") == json::Value("response.output_item.done")) {
      EXPECT_EQ(*event.find("item"), item);
    }
  }
}

TEST(ResponseAnswer, Endings) {
  struct Case {
    api::Finish finish;
    const char* status;
  };
  for (const auto& [finish, status] : {Case{{"stop", {}}, "completed"},
                                       {{"length", {}}, "incomplete"},
                                       {{"timeout", {}}, "failed"},
                                       {{"repetition", {}}, "incomplete"}}) {
    const Told told = tell({{.text = "a", .finish = finish}});
    EXPECT_EQ(*told.plain.find("status"), json::Value(status));
    EXPECT_EQ(*told.events.back().find("type"), json::Value(std::string("response.") + status));
  }
  const Told empty = tell({{.finish = api::Finish{"stop", {}}}});
  EXPECT_EQ(*empty.plain.find("output")->as_array()[0].find("content")->as_array()[0].find("text"),
            json::Value(""));
  const Told queued = tell({{.text = "a", .finish = api::Finish{"stop", {}}}}, /*background=*/true);
  EXPECT_EQ(*queued.events[0].find("response")->find("status"), json::Value("queued"));
  EXPECT_EQ(*queued.events[1].find("type"), json::Value("response.queued"));
  EXPECT_EQ(*queued.events[2].find("type"), json::Value("response.in_progress"));
}

TEST(ResponseAnswer, FailureAndCancel) {
  api::GenerationRequest generation;
  generation.stream = true;
  api::ResponseEncoder failed(kHead, {}, generation);
  std::string out;
  failed.begin({}, out);
  failed.part({.text = "half"}, {}, out);
  api::ApiError error;
  error.message = "the device failed";
  failed.fail(error, out);
  const auto events = events_of(out);
  EXPECT_EQ(*events.back().find("type"), json::Value("response.failed"));
  EXPECT_EQ(*events.back().find("response")->find("error")->find("message"),
            json::Value("the device failed"));
  EXPECT_EQ(failed.output().size(), 1U);

  api::ResponseEncoder cancelled(kHead, {}, generation);
  cancelled.begin({}, out);
  cancelled.part({.text = "half"}, {}, out);
  cancelled.cancel();
  EXPECT_EQ(*cancelled.object().find("status"), json::Value("cancelled"));
  EXPECT_EQ(cancelled.output().size(), 1U);
}

}  // namespace
}  // namespace met::testing
