// Reasoning apart from the answer: the corpus where it is there, every kind of fault, at every cut.
#include <gtest/gtest.h>

#include "tests/text/answer_cases.h"
#include "tests/text/corpus.h"
#include "text/reasoning/harmony.h"
#include "text/reasoning/reasoning.h"

namespace met::testing {
namespace {

using text::AnswerFormat;
using text::ReasoningFormat;
using text::ReasoningStart;
using text::ToolFormat;

ToolFormat tools_of(ReasoningFormat format) {
  if (format == ReasoningFormat::kGemma4) return ToolFormat::kGemma4;
  if (format == ReasoningFormat::kHarmony) return ToolFormat::kHarmony;
  return ToolFormat::kHermes;
}

TEST(ReasoningCorpus, IsReadAlikeAtEveryCut) {
  const auto folder = text::test::shared_corpora();
  if (!std::filesystem::exists(folder / "reasoning")) GTEST_SKIP() << "the corpus of reasoning is not here";
  const json::Value tools = *json::parse(text::test::read_file(folder / "tool_parsers/tools.json"));
  for (const json::Value& record : text::test::read_records(folder / "reasoning/cases.jsonl")) {
    SCOPED_TRACE(text::test::string_of(record, "id"));
    AnswerFormat format;
    format.reasoning = *text::reasoning_format(text::test::string_of(record, "parser"));
    const std::string& prompt = text::test::string_of(record, "prompt_tail");
    format.start = text::reasoning_start(format.reasoning, prompt);
    if (format.reasoning == ReasoningFormat::kHarmony) format.harmony_header = text::harmony_header(prompt);
    format.tool_format = tools_of(format.reasoning);
    if (record.find("tools")->is_string()) format.tools = tool_set(tools);
    const std::string& text = text::test::string_of(record, "text");
    const bool cut = record.find("cut")->as_bool();
    const std::string& form = text::test::string_of(record, "tag_form");
    json::Value expect = *record.find("expect");
    for (const char* key : {"content_any_of", "reasoning_any_of"})
      if (const json::Value* any = record.find(key); any != nullptr) expect.as_object().set(key, *any);
    if (form != "text") {
      EXPECT_EQ(difference(expect, parse_tokens(format, text, form == "special", cut)), "") << text;
    }
    if (form != "mixed") {
      EXPECT_EQ(difference(expect, parse_at_every_cut(format, text, cut)), "") << text;
    }
  }
}

TEST(Reasoning, AChannelThatClosesInItsFirstLineIsReadAlikeAtEveryCut) {
  const struct {
    const char* text;
    Parsed expect;
  } kCases[] = {
      {"<|channel><channel|>\n", {.content = "\n"}},
      {"<|channel><channel|>\nHi", {.content = "\nHi"}},
      {"<|channel>thought<channel|>Hi\n", {.content = "Hi\n"}},
      {"<|channel>thought one<channel|>two\nthree ", {.content = "two\nthree ", .reasoning = " one"}},
      {"<|channel> thought\none\n<channel|>two", {.content = "two", .reasoning = "one"}},
      {"a<|channel>thought\nb<channel|>c\n", {.content = "ac\n", .reasoning = "b"}},
      {"<|channel>final\nb", {.content = "b"}},
  };
  AnswerFormat format;
  format.reasoning = ReasoningFormat::kGemma4;
  for (const auto& c : kCases)
    EXPECT_EQ(parse_at_every_cut(format, c.text, /*cut=*/false), c.expect) << c.text;
}

}  // namespace
}  // namespace met::testing
