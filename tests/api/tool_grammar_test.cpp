// Calls as structural tags: what they accept is what the format's own parser reads as those calls.
#include "api/tool_grammar.h"

#include <gtest/gtest.h>

namespace met::api {
namespace {

using text::ToolFormat;
using Mode = ToolChoice::Mode;

std::vector<text::Tool> tools() {
  return {
      {.name = "f", .parameters = *json::parse(R"({"type":"object","properties":{"a":{"type":"integer"}}})")},
      {.name = "g"}};
}

std::string forced(ToolFormat format, const ToolChoice& choice) {
  const auto tag = forced_calls({.format = format}, tools(), choice);
  return tag ? json::write(*tag) : "";
}

TEST(ToolGrammar, HoldsTheChoice) {
  const std::string all = forced(ToolFormat::kHermes, {.mode = Mode::kRequired, .parallel = true});
  EXPECT_EQ(
      all,
      R"({"type":"structural_tag","format":{"type":"tags_with_separator","tags":[)"
      R"({"type":"tag","begin":"<tool_call>\n{\"name\": \"f\", \"arguments\": ","content":{"type":"json_schema",)"
      R"("json_schema":{"type":"object","properties":{"a":{"type":"integer"}}},)"
      R"("called":"the parameters of \"f\""},"end":"}\n</tool_call>"},)"
      R"({"type":"tag","begin":"<tool_call>\n{\"name\": \"g\", \"arguments\": ","content":{"type":"json_schema",)"
      R"("json_schema":{"type":"object","properties":{},"additionalProperties":false},)"
      R"("called":"the parameters of \"g\""},"end":"}\n</tool_call>"}],)"
      R"("separator":"\n","at_least_one":true,"stop_after_first":false}})");
  const std::string one =
      forced(ToolFormat::kHermes, {.mode = Mode::kRequired, .only = {"g"}, .parallel = false});
  EXPECT_FALSE(one.contains("\\\"f\\\""));
  EXPECT_TRUE(one.contains(R"("stop_after_first":true)"));
  EXPECT_TRUE(forced(ToolFormat::kHermes, {.mode = Mode::kRequired, .only = {"g"}, .named = true})
                  .contains(R"("stop_after_first":true)"));
}

TEST(ToolGrammar, KnowsTheFormatsThatItCanHold) {
  for (const ToolFormat format :
       {ToolFormat::kHermes, ToolFormat::kQwen3Coder, ToolFormat::kQwen3Xml, ToolFormat::kMistral,
        ToolFormat::kMinimaxXml, ToolFormat::kBareJson, ToolFormat::kPoolsideV1, ToolFormat::kGlm47,
        ToolFormat::kDeepseek, ToolFormat::kHarmony, ToolFormat::kLlama3Json, ToolFormat::kGemma4,
        ToolFormat::kPythonic})
    EXPECT_TRUE(forced(format, {.mode = Mode::kRequired}).contains("f")) << text::name(format);
  EXPECT_EQ(forced(ToolFormat::kNone, {.mode = Mode::kRequired}), "");
}

TEST(ToolGrammar, FreeCallsBeginWithTheFormatsMarker) {
  const auto tag = free_calls({.format = ToolFormat::kDeepseek, .deepseek_tags = true}, tools(), {});
  ASSERT_TRUE(tag);
  const json::Value& format = *tag->find("format");
  EXPECT_EQ(*format.find("type"), json::Value("triggered_tags"));
  EXPECT_EQ(json::write(*format.find("triggers")), R"(["<｜DSML｜function_calls>"])");
  EXPECT_FALSE(free_calls({.format = ToolFormat::kNone}, tools(), {}));
}

}  // namespace
}  // namespace met::api
