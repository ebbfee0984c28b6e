// Reasoning that a client without stored responses brings back: made, read, and never trusted.
#include "api/sealed.h"

#include <gtest/gtest.h>

#include "api/responses.h"

namespace met::api {
namespace {

ParseContext context() {
  ParseContext c;
  c.models = {"tiny"};
  c.vocabulary = 1000;
  return c;
}

TEST(Sealed, GivesBackWhatItWasGiven) {
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("ab"), std::string("abc"), std::string("Grüße, 🙂 世界"),
        std::string("\0\n\"", 3), std::string(1000, '~')}) {
    EXPECT_EQ(unsealed(sealed(text)), text);
    EXPECT_EQ(sealed(text).find_first_of("+/= \""), std::string::npos);
  }
}

TEST(Sealed, AnythingElseIsNotRead) {
  for (const std::string& content : {std::string(), std::string("gAAAAABo"), std::string("met1.*"),
                                     std::string("met1.YQ=="), std::string("met1.Y"), std::string("met1.YR"),
                                     sealed("\xFF"), sealed("\xED\xA0\x80"), sealed("a") + "AAA"})
    EXPECT_EQ(unsealed(content), std::nullopt) << content;
}

TEST(Sealed, AnItemThatComesBackHasItsReasoning) {
  const auto reasoning = [](const std::string& content) {
    const auto body = json::parse(
        R"({"input":[{"role":"user","content":"Hi."},{"type":"reasoning","id":"rs_1","summary":[],"content":null,)"
        R"("encrypted_content":)" +
        content + R"(},{"role":"assistant","content":"Yes."},{"role":"user","content":"And?"}]})");
    const auto request = parse_response(*body, context());
    if (!request) return request.error().field;
    std::vector<Item> items;
    for (const json::Value& item : request->input) items.push_back(std::make_shared<const json::Value>(item));
    const auto chat = lower_response(*request, items, context());
    EXPECT_TRUE(chat);
    const json::Value* text = chat->messages[1].find("reasoning_content");
    return text == nullptr ? std::string("none") : text->as_string();
  };
  EXPECT_EQ(reasoning("\"" + sealed("let me see") + "\""), "let me see");
  EXPECT_EQ(reasoning("\"gAAAAABoOfAnotherServer\""), "none");
  EXPECT_EQ(reasoning("null"), "none");
  EXPECT_EQ(reasoning("5"), "input");
}

TEST(Sealed, StandsInTheItemWhereItWasAskedFor) {
  for (const bool asked : {false, true}) {
    ResponseRequest request;
    request.seals_reasoning = asked;
    ResponseEncoder encoder({.id = "resp_0123456789abcdef"}, request, {});
    std::string out;
    encoder.begin({}, out);
    encoder.part({.kind = AnswerPart::Kind::kReasoning, .text = "let me see"}, {}, out);
    encoder.part({.text = "Yes.", .finish = Finish{"stop", {}}}, {}, out);
    encoder.end({}, out);
    const json::Value* content = encoder.output()[0].find("encrypted_content");
    ASSERT_EQ(content != nullptr, asked);
    if (asked) {
      EXPECT_EQ(unsealed(content->as_string()), "let me see");
    }
    EXPECT_EQ(encoder.output()[1].find("encrypted_content"), nullptr);
  }
}

}  // namespace
}  // namespace met::api
