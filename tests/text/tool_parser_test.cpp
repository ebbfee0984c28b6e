// Tool calls of every format: the corpus where it is there, a small set of our own, at every cut.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/text/answer_cases.h"
#include "tests/text/corpus.h"
#include "text/reasoning/reasoning.h"

namespace met::testing {
namespace {

using text::AnswerFormat;
using text::ReasoningFormat;
using text::ReasoningStart;
using text::ToolFormat;

/// Cases that hold reasoning say so by their expectation; the template of those models opens the block.
AnswerFormat format_of(const json::Value& record, const json::Value& tools) {
  AnswerFormat format;
  format.tool_format = *text::tool_format(record.find("format")->as_string());
  if (record.find("tools")->is_string()) format.tools = tool_set(tools);
  if (format.tool_format == ToolFormat::kHarmony) {
    format.reasoning = ReasoningFormat::kHarmony;
    format.harmony_header = "assistant";
  }
  if (record.find("expect")->find("reasoning") == nullptr || format.tool_format == ToolFormat::kHarmony)
    return format;
  const bool gemma = format.tool_format == ToolFormat::kGemma4;
  format.reasoning = gemma ? ReasoningFormat::kGemma4 : ReasoningFormat::kThink;
  format.start = gemma ? ReasoningStart::kAbsent : ReasoningStart::kOpen;
  return format;
}

void check_record(const json::Value& record, const json::Value& tools) {
  SCOPED_TRACE(record.find("id")->as_string());
  const Parsed parsed = parse_at_every_cut(format_of(record, tools), record.find("text")->as_string(),
                                           record.find("cut")->as_bool());
  const json::Value& expect = *record.find("expect");
  EXPECT_EQ(difference(expect, parsed), "") << record.find("text")->as_string();
  if (expect.find("leak_ok") != nullptr) return;
  for (const json::Value& markup : record.find("forbidden_in_content")->as_array())
    EXPECT_FALSE(parsed.content.contains(markup.as_string())) << parsed.content;
}

/// Records without the answers of another parser, which may hold numbers that JSON has not.
std::vector<json::Value> records(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<json::Value> out;
  for (std::string line; std::getline(in, line);) {
    if (const std::size_t other = line.find(R"(,"vllm":)"); other != std::string::npos)
      line = line.substr(0, other) + "}";
    auto record = json::parse(line);
    EXPECT_TRUE(record) << line;
    if (record) out.push_back(std::move(*record));
  }
  return out;
}

class ToolCorpus : public ::testing::TestWithParam<const char*> {};

TEST_P(ToolCorpus, IsReadAlikeAtEveryCut) {
  const auto folder = text::test::shared_corpora() / "tool_parsers";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the corpus of tool calls is not here";
  const json::Value tools = *json::parse(text::test::read_file(folder / "tools.json"));
  for (const json::Value& record : records(folder / (std::string(GetParam()) + ".jsonl")))
    check_record(record, tools);
}
INSTANTIATE_TEST_SUITE_P(Formats, ToolCorpus,
                         ::testing::Values("hermes", "qwen3_coder", "qwen3_xml", "gemma4", "mistral",
                                           "minimax_xml", "bare_json", "poolside_v1"),
                         [](const auto& format) { return std::string(format.param); });

/// Formats that the corpus has no cases for.
class ToolCases : public ::testing::TestWithParam<const char*> {};

TEST_P(ToolCases, AreReadAlikeAtEveryCut) {
  const auto folder = text::test::source_dir() / "tests/text/data/tool_parsers";
  const json::Value tools = *json::parse(text::test::read_file(folder / "tools.json"));
  const auto all = records(folder / (std::string(GetParam()) + ".jsonl"));
  EXPECT_GE(all.size(), 10U);
  for (const json::Value& record : all) check_record(record, tools);
}
INSTANTIATE_TEST_SUITE_P(Formats, ToolCases,
                         ::testing::Values("hermes", "glm47", "deepseek", "harmony", "llama3_json",
                                           "pythonic"),
                         [](const auto& format) { return std::string(format.param); });

}  // namespace
}  // namespace met::testing
