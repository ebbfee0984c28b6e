// Which grammar an answer is held to, by its tools, their choice and the form that was asked for.
#include "api/constraint.h"

#include <gtest/gtest.h>

#include "tests/grammar/byte_vocabulary.h"

namespace met::api {
namespace {

using text::ToolFormat;

ModelText model_with(ToolFormat format) {
  auto tokenizer = text::Tokenizer::from_json(
      R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,)"
      R"("decoder":null,"model":{"type":"WordLevel","vocab":{"a":0,"u":1},"unk_token":"u"}})");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return {.names = {"tiny"},
          .tokenizer = std::move(*tokenizer),
          .habits = {.tools = format, .takes_tools = true}};
}

GenerationRequest chat(const std::string& members) {
  ParseContext context;
  context.models = {"tiny"};
  const auto body = json::parse(R"({"messages":[{"role":"user","content":"x"}])" + members + "}");
  EXPECT_TRUE(body) << members;
  auto request = parse_chat(*body, context);
  EXPECT_TRUE(request) << request.error().message;
  return std::move(*request);
}

/// "none", or the type of the outermost format.
std::string grammar_of(const std::string& members, ToolFormat format = ToolFormat::kHermes) {
  const auto spec = output_grammar(chat(members), model_with(format));
  if (!spec) return spec.error().field;
  if (!*spec) return "none";
  if ((*spec)->kind != grammar::Kind::kStructuralTag) return (*spec)->field;
  return (*spec)->value.find("format")->find("type")->as_string();
}

const std::string kTool = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
const std::string kStrict = R"(,"tools":[{"type":"function","function":{"name":"f","strict":true}}])";
const std::string kForm = R"(,"response_format":{"type":"json_object"})";

// Known faults 7 and 32: a choice that forces a call is held to it.
TEST(Constraint, FollowsToolsChoiceAndForm) {
  EXPECT_EQ(grammar_of(""), "none");
  EXPECT_EQ(grammar_of(kForm), "response_format");
  EXPECT_EQ(grammar_of(kTool), "none");
  EXPECT_EQ(grammar_of(kTool + R"(,"tool_choice":"required")"), "tags_with_separator");
  EXPECT_EQ(grammar_of(kTool + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})"),
            "tags_with_separator");
  EXPECT_EQ(grammar_of(kTool + kForm + R"(,"tool_choice":"required")"), "tags_with_separator");
  EXPECT_EQ(grammar_of(kTool + kForm + R"(,"tool_choice":"none")"), "response_format");
  EXPECT_EQ(grammar_of(kTool + kForm), "or");
  EXPECT_EQ(
      grammar_of(kTool + R"(,"response_format":{"type":"structural_tag","structures":[],"triggers":[]})"),
      "response_format")
      << "calls would be out of reach";
  EXPECT_EQ(grammar_of(kStrict), "triggered_tags");
  EXPECT_EQ(grammar_of(kStrict, ToolFormat::kLlama3Json), "or");
  EXPECT_EQ(grammar_of(kTool + R"(,"tool_choice":"required")", ToolFormat::kPythonic), "sequence");
  EXPECT_EQ(grammar_of(kTool + R"(,"tool_choice":"required")", ToolFormat::kNone), "tool_choice");
}

// Compiled as one with the calls, the form is refused by its own name.
TEST(Constraint, ErrorsNameTheFieldThatIsToBlame) {
  const auto grammars = std::make_shared<grammar::Compiler>(grammar::test::byte_vocabulary);
  const auto field_of = [&](const std::string& members) {
    ModelText model = model_with(ToolFormat::kHermes);
    model.grammars = grammars;
    const auto constraint = output_constraint(chat(members), model, {});
    EXPECT_FALSE(constraint) << members;
    EXPECT_TRUE(constraint || constraint.error().message.contains("uniqueItems")) << members;
    return constraint ? "" : constraint.error().field;
  };
  const std::string bad = R"({"type":"array","uniqueItems":true})";
  const std::string form =
      R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":)" + bad + "}}";
  const std::string tool =
      R"(,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":)" +
      bad + "}}}}]";
  EXPECT_EQ(field_of(form), "response_format");
  EXPECT_EQ(field_of(kTool + form), "response_format");
  EXPECT_EQ(field_of(tool), "tools");
  EXPECT_EQ(field_of(tool + kForm), "tools");
}

}  // namespace
}  // namespace met::api
