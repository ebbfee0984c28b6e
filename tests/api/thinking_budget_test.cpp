// The closing marker is forced when the budget of reasoning is used up, and at no other time.
#include "api/thinking_budget.h"

#include <gtest/gtest.h>

#include <array>

namespace met::api {
namespace {

using text::ReasoningFormat;
using text::ReasoningStart;

constexpr std::string_view kVocabulary =
    R"("model":{"type":"WordLevel","vocab":{"a":0,"u":1,"<think>":2,"</think>":3,"<":4,"think>":5,"</":6},"unk_token":"u"})";

const text::Tokenizer& tokenizer() {
  static const auto kTokenizer = text::Tokenizer::from_json(
      R"({"version":"1.0","added_tokens":[{"id":2,"content":"<think>","special":false},)"
      R"({"id":3,"content":"</think>","special":false}],"normalizer":null,"pre_tokenizer":null,)"
      R"("post_processor":null,"decoder":null,)" +
      std::string(kVocabulary) + "}");
  EXPECT_TRUE(kTokenizer) << kTokenizer.error().message;
  return *kTokenizer;
}

/// The ids that a model gives which would say `wants`, but follows masks of a single id.
std::string run(std::int64_t budget, ReasoningStart start, const std::vector<int>& wants) {
  const auto constraint =
      thinking_budget_constraint(budget, ReasoningFormat::kThink, start, tokenizer(), nullptr);
  const auto state = constraint->begin();
  std::string out;
  for (const int want : wants) {
    std::array<std::uint32_t, 1> allowed = {0};
    const bool bound = state->fill(allowed);
    const int id = bound ? std::countr_zero(allowed[0]) : want;
    EXPECT_TRUE(state->accept(id));
    out += std::to_string(id);
  }
  return out;
}

struct Case {
  const char* name;
  std::int64_t budget;
  ReasoningStart start;
  std::vector<int> wants;
  std::string want;
};

TEST(ThinkingBudget, ForcesTheClosingMarkerOnce) {
  const Case cases[] = {
      {"open_in_prompt", 2, ReasoningStart::kOpen, {0, 0, 0, 0, 0}, "00300"},
      {"zero", 0, ReasoningStart::kOpen, {0, 0}, "30"},
      {"closes_itself", 3, ReasoningStart::kOpen, {0, 3, 0, 0, 0, 0}, "030000"},
      {"opens_itself", 2, ReasoningStart::kAbsent, {2, 0, 0, 0, 0}, "20030"},
      {"no_block", 1, ReasoningStart::kAbsent, {0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, "0000002000"},
      // A model may spell markers by other ids than the tokenizer would.
      {"opens_in_pieces", 2, ReasoningStart::kAbsent, {4, 5, 0, 0, 0, 0}, "450030"},
      {"closes_in_pieces", 4, ReasoningStart::kOpen, {0, 6, 5, 0, 0, 0, 0}, "0650000"},
  };
  for (const Case& c : cases) EXPECT_EQ(run(c.budget, c.start, c.wants), c.want) << c.name;
}

// In harmony the thought is a message, which its end closes.
TEST(ThinkingBudget, EndsTheThoughtOfHarmony) {
  const auto tokenizer = text::Tokenizer::from_json(
      R"({"version":"1.0","added_tokens":[{"id":0,"content":"<|channel|>","special":true},)"
      R"({"id":1,"content":"<|message|>","special":true},{"id":2,"content":"<|end|>","special":true}],)"
      R"("normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,)"
      R"("model":{"type":"WordLevel","vocab":{"analysis":3,"final":4,"a":5,"u":6},"unk_token":"u"}})");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto constraint =
      thinking_budget_constraint(2, ReasoningFormat::kHarmony, ReasoningStart::kAbsent, *tokenizer, nullptr);
  ASSERT_NE(constraint, nullptr);
  const auto answer = [&](const std::vector<int>& wants) {
    const auto state = constraint->begin();
    std::string out;
    for (const int want : wants) {
      std::array<std::uint32_t, 1> allowed = {0};
      const int id = state->fill(allowed) ? std::countr_zero(allowed[0]) : want;
      EXPECT_TRUE(state->accept(id));
      out += std::to_string(id);
    }
    return out;
  };
  EXPECT_EQ(answer({0, 3, 1, 5, 5, 5, 5}), "0315525");
  EXPECT_EQ(answer({0, 4, 1, 5, 5, 5, 5}), "0415555");
}

TEST(ThinkingBudget, GoesOnAfterARewindAsBefore) {
  const auto constraint =
      thinking_budget_constraint(2, ReasoningFormat::kThink, ReasoningStart::kOpen, tokenizer(), nullptr);
  const auto state = constraint->begin();
  std::array<std::uint32_t, 1> allowed = {0};
  for (const int id : {0, 0, 3, 0}) EXPECT_TRUE(state->accept(id));
  EXPECT_FALSE(state->fill(allowed));
  state->rewind(2);
  ASSERT_TRUE(state->fill(allowed));
  EXPECT_EQ(allowed[0], 1U << 3U);
  EXPECT_FALSE(state->accept(0));
  state->rewind(1);
  EXPECT_TRUE(state->accept(3));
}

}  // namespace
}  // namespace met::api
