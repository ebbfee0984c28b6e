// Openings of refusals by table, and a filter that says the same however the parts are cut.
#include "api/refusal.h"

#include <gtest/gtest.h>

#include <string>

namespace met::api {
namespace {

TEST(Refusal, Openings) {
  for (const char* text :
       {"I'm sorry, but I can't help with that.", "I’m sorry, but I can’t assist with that request.",
        "I cannot fulfill your request.", "Sorry, I can't do that.", "I'm unable to assist with that.",
        "**I'm sorry, I can't do that**", "I apologize, but I cannot comply with that.",
        "  I won't be able to help you with this.", "I must decline.",
        "Unfortunately, I am not able to participate in this.", "I'm sorry,\nbut I will not help with it"})
    EXPECT_EQ(refusal_opening(text), Opening::kWhole) << text;
  for (const char* text :
       {"I can't help but notice that it rains.", "I cannot say which of the two is older.",
        "Sorry for the delay! Here is the list.", "I'm sorry to hear that you are ill.",
        "I can help with that.", "Sure, I can't wait!", "He said: I can't help with that.", "{\"a\": 1}",
        "The answer is 4.", "Unfortunately, it rained."})
    EXPECT_EQ(refusal_opening(text), Opening::kNone) << text;
  for (const char* text :
       {"", "I", "I'", "I\xE2", "I\xE2\x80", "I’m sor", "I'm sorry, but I c", "Sorry", "I can't help "})
    EXPECT_EQ(refusal_opening(text), Opening::kMaybe) << text;
}

struct Sum {
  std::string content;
  std::string refusal;
  std::vector<TokenId> ids;
  int finishes = 0;
  friend bool operator==(const Sum&, const Sum&) = default;
};

/// Cuts `text` before byte `cut`, one id a part; the last part ends.
Sum filtered(const std::string& text, std::size_t cut) {
  RefusalFilter filter;
  Sum sum;
  const auto push = [&](AnswerPart part) {
    for (const AnswerPart& out : filter.push({std::move(part)})) {
      (out.refusal ? sum.refusal : sum.content) += out.text;
      sum.ids.insert(sum.ids.end(), out.ids.begin(), out.ids.end());
      sum.finishes += out.finish ? 1 : 0;
    }
  };
  push({.text = text.substr(0, cut), .ids = {1}});
  push({.text = text.substr(cut), .ids = {2}, .finish = Finish{"stop", {}}});
  return sum;
}

TEST(Refusal, IsDecidedAlikeAtEveryCut) {
  struct Case {
    std::string text;
    bool refusal;
  };
  const std::string opening = "I'm sorry, but I can't help with that.";
  for (const auto& [text, refusal] :
       {Case{opening, true}, Case{"I'm sorry, but I can", false}, Case{"Sorry, here it is.", false},
        Case{opening + std::string(kRefusalBytes, '.'), false}, Case{"", false}}) {
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      const Sum sum = filtered(text, cut);
      EXPECT_EQ(sum.refusal, refusal ? text : "") << cut;
      EXPECT_EQ(sum.content, refusal ? "" : text) << cut;
      EXPECT_EQ(sum.ids, (std::vector<TokenId>{1, 2}));
      EXPECT_EQ(sum.finishes, 1);
    }
  }
}

TEST(Refusal, OtherTextIsNotHeldAndACallMakesContent) {
  using Kind = AnswerPart::Kind;
  RefusalFilter plain;
  EXPECT_EQ(plain.push({{.kind = Kind::kReasoning, .text = "I can't help with it"}}).size(), 1U);
  EXPECT_EQ(plain.push({{.text = "Here"}}).size(), 1U);
  RefusalFilter calls;
  EXPECT_TRUE(calls.push({{.text = "I can't help with that, but"}}).empty());
  const auto parts = calls.push({{.kind = Kind::kCallBegin, .text = "f"}});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_FALSE(parts[0].refusal);
  EXPECT_EQ(parts[1].kind, Kind::kCallBegin);
}

}  // namespace
}  // namespace met::api
