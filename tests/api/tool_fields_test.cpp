// Tools, tool choice and thinking: what is refused by name, what lands where, what the template and the parser are
// told.
#include "api/tool_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat_format.h"
#include "api/error.h"

namespace met::api {
namespace {

using text::ReasoningFormat;
using text::ReasoningStart;
using text::ToolFormat;
using Mode = ToolChoice::Mode;

constexpr std::string_view kTool =
    R"({"type":"function","function":{"name":"f","parameters":{"type":"object"}}})";

Result<GenerationRequest> chat(const std::string& members) {
  ParseContext context;
  context.models = {"tiny"};
  context.vocabulary = 1000;
  const auto body = json::parse(R"({"messages":[{"role":"user","content":"x"}])" + members + "}");
  EXPECT_TRUE(body) << members;
  return parse_chat(*body, context);
}

std::string with_tools(const std::string& members) {
  return ",\"tools\":[" + std::string(kTool) + R"(,{"type":"function","function":{"name":"g"}}])" + members;
}

struct BadCase {
  const char* field;
  std::string members;
};

TEST(ToolFields, ABadValueIsRefusedByName) {
  const auto tool = [](const std::string& function) {
    return R"(,"tools":[{"type":"function","function":)" + function + "}]";
  };
  const auto schema = [&](const std::string& text) {
    return tool(R"({"name":"f","parameters":)" + text + "}");
  };
  const BadCase cases[] = {
      {"tools", R"(,"tools":"hammer")"},
      {"tools", ",\"tools\":" + std::string(kTool)},
      {"tools", R"(,"tools":[5])"},
      {"tools", R"(,"tools":[{"function":{"name":"f"}}])"},
      {"tools", R"(,"tools":[{"type":"function"}])"},
      {"tools", R"(,"tools":[{"type":"web_search","function":{"name":"f"}}])"},
      {"tools", tool(R"({"parameters":{"type":"object"}})")},
      {"tools", tool(R"({"name":5})")},
      {"tools", tool(R"({"name":""})")},
      {"tools", tool(R"({"name":"get weather"})")},
      {"tools", tool(R"({"name":"f","description":5})")},
      {"tools", tool(R"({"name":"f","strict":"very"})")},
      {"tools", schema(R"("x")")},
      {"tools", schema(R"({"type":"objekt"})")},
      {"tools", schema(R"({"type":"object","properties":{"a":{"type":"strnig"}}})")},
      {"tools", schema(R"({"type":"object","properties":{"a":{"anyOf":[{"type":7}]}}})")},
      {"tools", schema(R"({"type":"object","properties":{"a":{"$ref":"#/$defs/nope"}}})")},
      {"tools", ",\"tools\":[" + std::string(kTool) + "," + std::string(kTool) + "]"},
      {"functions", R"(,"functions":{"name":"f"})"},
      {"functions", R"(,"functions":[{"name":"a b"}])"},
      {"tool_choice", R"(,"tool_choice":"required")"},
      {"tool_choice", R"(,"tools":[],"tool_choice":"required")"},
      {"tool_choice", R"(,"tool_choice":{"type":"function","function":{"name":"f"}})"},
      {"tool_choice", with_tools(R"(,"tool_choice":{"type":"function","function":{"name":"nope"}})")},
      {"tool_choice", with_tools(R"(,"tool_choice":"sometimes")")},
      {"tool_choice", with_tools(R"(,"tool_choice":5)")},
      {"tool_choice", with_tools(R"(,"tool_choice":{})")},
      {"tool_choice", with_tools(R"(,"tool_choice":{"type":"function"})")},
      {"tool_choice",
       with_tools(R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}})")},
      {"function_call", with_tools(R"(,"function_call":5)")},
      {"thinking", R"(,"thinking":"much")"},
      {"thinking", R"(,"thinking":{"type":"deep"})"},
      {"thinking", R"(,"thinking":{"type":"enabled","budget_tokens":-1})"},
      {"enable_thinking", R"(,"enable_thinking":"yes")"},
      {"thinking_token_budget", R"(,"thinking_token_budget":1.5)"},
      {"preserve_thinking", R"(,"preserve_thinking":1)"},
      {"include_reasoning", R"(,"include_reasoning":1)"},
      {"parallel_tool_calls", R"(,"parallel_tool_calls":1)"},
  };
  for (const BadCase& c : cases) {
    const auto r = chat(c.members);
    ASSERT_FALSE(r) << c.members;
    EXPECT_EQ(r.error().field, c.field) << c.members << ": " << r.error().message;
    EXPECT_THAT(r.error().message, testing::HasSubstr(c.field)) << c.members;
    EXPECT_EQ(ApiError(r.error()).status, 400);
  }
}

TEST(ToolFields, ValuesLandWhereTheyBelong) {
  auto r = chat(
      with_tools(R"(,"tool_choice":{"type":"function","function":{"name":"g"}},"parallel_tool_calls":false,
      "thinking":{"type":"enabled","budget_tokens":2048})"));
  ASSERT_TRUE(r) << r.error().message;
  ASSERT_EQ(r->tools.size(), 2U);
  EXPECT_EQ(r->tools[0].name, "f");
  EXPECT_TRUE(r->tools[0].parameters.is_object());
  EXPECT_TRUE(r->tools[1].parameters.is_null());
  EXPECT_EQ(json::write(r->tools[0].definition), kTool);
  EXPECT_EQ(r->tool_choice.mode, Mode::kRequired);
  EXPECT_EQ(r->tool_choice.only, std::vector<std::string>{"g"});
  EXPECT_EQ(r->tool_choice.parallel, false);
  EXPECT_EQ(r->thinking.enabled, true);
  EXPECT_EQ(r->thinking.budget_tokens, 2048);
  r = chat(with_tools(R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[
      {"type":"function","function":{"name":"f"}}]}})"));
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->tool_choice.mode, Mode::kRequired);
  EXPECT_EQ(r->tool_choice.only, std::vector<std::string>{"f"});
  r = chat(R"(,"functions":[{"name":"h"}],"function_call":{"name":"h"})");
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->tools[0].name, "h");
  EXPECT_EQ(r->tool_choice.only, std::vector<std::string>{"h"});
}

ModelText model_with(AnswerHabits habits) {
  auto tokenizer = text::Tokenizer::from_json(
      R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,)"
      R"("decoder":null,"model":{"type":"WordLevel","vocab":{"a":0,"u":1},"unk_token":"u"}})");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return {.names = {"tiny"}, .tokenizer = std::move(*tokenizer), .habits = habits};
}

constexpr AnswerHabits kHermes = {
    .tools = ToolFormat::kHermes, .reasoning = ReasoningFormat::kThink, .takes_tools = true};

// Known fault 7: `none` hides the tools, a restricted choice shows its own.
TEST(ChatFormat, TheTemplateSeesTheToolsThatMayBeCalled) {
  const ModelText model = model_with(kHermes);
  const auto shown = [&](const std::string& members) {
    const auto options = render_options(*chat(with_tools(members)), model);
    EXPECT_TRUE(options) << options.error().message;
    std::string names;
    for (const json::Value& tool : options->tools) names += tool.find("function")->find("name")->as_string();
    return names;
  };
  EXPECT_EQ(shown(""), "fg");
  EXPECT_EQ(shown(R"(,"tool_choice":"none")"), "");
  EXPECT_EQ(shown(R"(,"tool_choice":"required")"), "fg");
  EXPECT_EQ(shown(R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"), "fg");
  EXPECT_EQ(
      shown(
          R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]})"),
      "g");
  EXPECT_EQ(answer_format(*chat(with_tools(R"(,"tool_choice":"none")")), model, "").tools, nullptr);
  EXPECT_EQ(answer_format(*chat(with_tools(R"(,"parallel_tool_calls":false)")), model, "").calls_max, 1);
}

TEST(ChatFormat, AModelWithoutToolsRefusesThem) {
  for (const AnswerHabits habits :
       {AnswerHabits{.tools = ToolFormat::kHermes}, AnswerHabits{.takes_tools = true}}) {
    const auto options = render_options(*chat(with_tools("")), model_with(habits));
    ASSERT_FALSE(options);
    EXPECT_EQ(options.error().field, "tools");
    EXPECT_TRUE(render_options(*chat(with_tools(R"(,"tool_choice":"none")")), model_with(habits)));
  }
}

// The server's switch beats the request, the request beats the server's variables.
TEST(ChatFormat, TheSwitchOfReasoningReachesTheTemplate) {
  const auto variables = [&](const std::string& members, bool disabled) {
    AnswerHabits habits = kHermes;
    habits.disable_thinking = disabled;
    return json::write(json::Value(render_options(*chat(members), model_with(habits))->variables));
  };
  EXPECT_EQ(variables("", false), "{}");
  EXPECT_EQ(variables(R"(,"enable_thinking":true)", false), R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(variables(R"(,"reasoning_effort":"none")", false),
            R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(variables(R"(,"reasoning_effort":"low")", false),
            R"({"reasoning_effort":"low","enable_thinking":true,"thinking":true})")
      << "who asks for an effort asks for reasoning, whatever --default-chat-template-kwargs say";
  EXPECT_EQ(variables(R"(,"thinking_token_budget":9)", false), R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(variables(R"(,"enable_thinking":true)", true), R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(variables(R"(,"chat_template_kwargs":{"enable_thinking":true})", true),
            R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(variables(R"(,"chat_template_kwargs":{"enable_thinking":false})", false),
            R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(variables(R"(,"thinking":{"type":"disabled"},"preserve_thinking":true)", false),
            R"({"preserve_thinking":true,"enable_thinking":false,"thinking":false})");
}

// Known faults 10 and 17: the state comes from the rendered prompt, not from the model's name.
TEST(ChatFormat, ThePromptsEndSaysWhereTheAnswerBegins) {
  const ModelText model = model_with(kHermes);
  const auto start = [&](const std::string& members, std::string_view prompt) {
    return answer_format(*chat(members), model, prompt).start;
  };
  EXPECT_EQ(start("", "<|im_start|>assistant\n"), ReasoningStart::kAbsent);
  EXPECT_EQ(start("", "<|im_start|>assistant\n<think>\n"), ReasoningStart::kOpen);
  EXPECT_EQ(start("", "<|im_start|>assistant\n<think>\n\n</think>\n\n"), ReasoningStart::kClosed);
  EXPECT_EQ(start("", "<think>a</think>b<|im_end|>\n<|im_start|>assistant\n"), ReasoningStart::kAbsent);
}

TEST(ChatFormat, AnUnfinishedMessageGoesOnWhereItStopped) {
  const ModelText model = model_with(kHermes);
  const auto start = [&](const std::string& content) {
    ParseContext context;
    context.models = {"tiny"};
    const auto body = json::parse(
        R"({"continue_final_message":true,"messages":[{"role":"assistant","content":")" + content + "\"}]}");
    return answer_format(*parse_chat(*body, context), model, content).start;
  };
  EXPECT_EQ(start("<think>a"), ReasoningStart::kOpen);
  EXPECT_EQ(start("<think>a</think>b"), ReasoningStart::kAbsent);
  EXPECT_EQ(start("b"), ReasoningStart::kAbsent);
}

TEST(ChatFormat, TheBudgetComesFromRequestEffortAndServer) {
  const auto budget = [&](const std::string& members, bool takes_effort, std::optional<std::int64_t> bound) {
    AnswerHabits habits = kHermes;
    habits.takes_effort = takes_effort;
    habits.budget_max = bound;
    return thinking_budget(*chat(members), model_with(habits));
  };
  EXPECT_EQ(budget("", false, {}), std::nullopt);
  EXPECT_EQ(budget("", false, 100), 100);
  EXPECT_EQ(budget(R"(,"thinking_token_budget":500)", false, {}), 500);
  EXPECT_EQ(budget(R"(,"thinking_token_budget":500)", false, 100), 100);
  EXPECT_EQ(budget(R"(,"thinking_token_budget":500,"max_tokens":100)", false, {}), 90);
  EXPECT_EQ(budget(R"(,"reasoning_effort":"minimal")", false, {}), 64);
  EXPECT_EQ(budget(R"(,"reasoning_effort":"xhigh")", false, {}), 1024);
  EXPECT_EQ(budget(R"(,"reasoning_effort":"xhigh")", true, {}), std::nullopt);
}

// A template may know no switch: what is switched off does not come all the same.
TEST(ChatFormat, NoReasoningIsABudgetOfNone) {
  const auto budget = [&](const std::string& members, bool disabled) {
    AnswerHabits habits = kHermes;
    habits.disable_thinking = disabled;
    return thinking_budget(*chat(members), model_with(habits));
  };
  for (const char* off : {R"(,"reasoning_effort":"none")", R"(,"thinking":{"type":"disabled"})",
                          R"(,"chat_template_kwargs":{"enable_thinking":false})",
                          R"(,"chat_template_kwargs":{"thinking":false})",
                          R"(,"reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":false})",
                          R"(,"enable_thinking":false)", R"(,"thinking_token_budget":0)"})
    EXPECT_EQ(budget(off, false), 0) << off;
  EXPECT_EQ(budget("", true), 0);
  EXPECT_EQ(budget(R"(,"thinking_token_budget":500,"chat_template_kwargs":{"thinking":true})", true), 0);
  EXPECT_EQ(budget(R"(,"enable_thinking":false,"chat_template_kwargs":{"thinking":true})", false),
            std::nullopt)
      << "the template's own variable goes first";
}

// --default-chat-template-kwargs and MODEL.toml reach a template without the switch too, unless a request says more.
TEST(ChatFormat, TheServersSwitchIsABudgetOfNone) {
  AnswerHabits habits = kHermes;
  habits.default_thinking = false;
  const auto budget = [&](const std::string& members) {
    return thinking_budget(*chat(members), model_with(habits));
  };
  EXPECT_EQ(budget(""), 0);
  EXPECT_EQ(budget(R"(,"chat_template_kwargs":{"x":1})"), 0);
  EXPECT_EQ(budget(R"(,"enable_thinking":true)"), std::nullopt);
  EXPECT_EQ(budget(R"(,"chat_template_kwargs":{"enable_thinking":true})"), std::nullopt);
  EXPECT_EQ(budget(R"(,"thinking_token_budget":50)"), 50);
}

}  // namespace
}  // namespace met::api
