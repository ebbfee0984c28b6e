// Rules C2 and C3 on conversations made for them.
#include "api/compaction.h"

#include <gtest/gtest.h>

#include "core/concat.h"

namespace met::api {
namespace {

json::Value message(const std::string& role, std::string content) {
  return json::Object{{"role", role}, {"content", std::move(content)}};
}

/// "role:content" of each, long contents by their first bytes.
std::string outline(const json::Array& messages) {
  std::string out;
  for (const json::Value& m : messages)
    out += concat(out.empty() ? "" : " ", m.find("role")->as_string().substr(0, 1), ":",
                  m.find("content")->as_string().substr(0, 12));
  return out;
}

/// s, then user 1, assistant 2, user 3 … until `count` messages stand.
json::Array talk(int count) {
  json::Array out{message("system", "s")};
  for (int i = 1; i < count; ++i)
    out.push_back(message(i % 2 == 1 ? "user" : "assistant", std::to_string(i)));
  return out;
}

/// s, one question, then calls and their results.
json::Array agent(int calls) {
  json::Array out{message("system", "s"), message("user", "task")};
  for (int i = 0; i < calls; ++i) {
    json::Object call{{"role", "assistant"}, {"content", concat("c", i)}, {"tool_calls", json::Array{}}};
    out.emplace_back(std::move(call));
    out.push_back(message("tool", concat("r", i)));
  }
  return out;
}

std::string lines(int count) {
  std::string out = "line 0";
  for (int i = 1; i < count; ++i) out += concat("\nline ", i, std::string(60, '.'));
  return out;
}

TEST(Compaction, TheFillDecidesTheStage) {
  EXPECT_EQ(compaction_stage(0.70), CompactionStage::kEnds);
  EXPECT_EQ(compaction_stage(0.80), CompactionStage::kMarkers);
  EXPECT_EQ(compaction_stage(0.85), CompactionStage::kLastSix);
  EXPECT_EQ(compaction_stage(0.95), CompactionStage::kLastFour);
  EXPECT_EQ(compaction_stage(3), CompactionStage::kLastFour);
}

TEST(Compaction, LongMiddleTextsKeepTheirEnds) {
  json::Array messages = talk(10);
  for (const std::size_t i : {0, 2, 4}) messages[i].as_object().set("content", lines(20));
  messages[3].as_object().set("content", std::string(900, 'x'));  // long, but one line
  Cuts cuts;
  const json::Array out = compacted(messages, CompactionStage::kEnds, cuts);
  EXPECT_EQ(cuts.text(), "shortened=1");  // message 0 and the last six are no middle
  const std::string& text = out[2].find("content")->as_string();
  EXPECT_TRUE(text.starts_with("line 0\nline 1")) << text;
  EXPECT_NE(text.find("\n[14 lines left out]\nline 17"), std::string::npos) << text;
  EXPECT_EQ(out[0], messages[0]);
  EXPECT_EQ(out[3], messages[3]);
  EXPECT_EQ(out[4], messages[4]);
  Cuts again;
  EXPECT_EQ(compacted(messages, CompactionStage::kEnds, again), out);
}

TEST(Compaction, ThenMarkersOfWhatWasToldToTheModel) {
  json::Array messages = agent(6);
  for (const std::size_t i : {1, 2, 3, 13}) messages[i].as_object().set("content", std::string(300, 'x'));
  Cuts cuts;
  const json::Array out = compacted(messages, CompactionStage::kMarkers, cuts);
  EXPECT_EQ(cuts.text(), "markers=2");
  EXPECT_EQ(out[1].find("content")->as_string(), "[300 bytes left out]");
  EXPECT_EQ(out[2], messages[2]);  // the model's own words
  EXPECT_EQ(out[3].find("content")->as_string(), "[300 bytes left out]");
  EXPECT_EQ(out[13], messages[13]);
}

TEST(Compaction, ThenOnlyTheLastMessagesAndNoResultWithoutItsCall) {
  struct Case {
    json::Array messages;
    CompactionStage stage;
    const char* left;
    const char* cuts;
  };
  const Case kCases[] = {
      {talk(12), CompactionStage::kLastSix, "s:s u:5 a:6 u:7 a:8 u:9 a:10 u:11", "dropped=4"},
      {talk(12), CompactionStage::kLastFour, "s:s u:7 a:8 u:9 a:10 u:11", "dropped=6"},
      {agent(6), CompactionStage::kLastSix, "s:s u:task a:c3 t:r3 a:c4 t:r4 a:c5 t:r5", "dropped=6"},
      {agent(6), CompactionStage::kLastFour, "s:s u:task a:c4 t:r4 a:c5 t:r5", "dropped=8"},
      {talk(5), CompactionStage::kLastSix, "s:s u:1 a:2 u:3 a:4", ""},
  };
  for (const Case& c : kCases) {
    Cuts cuts;
    const std::string left = outline(compacted(c.messages, c.stage, cuts));
    EXPECT_EQ(left, c.left);
    EXPECT_EQ(cuts.text(), c.cuts);
  }
  json::Array cut_inside = agent(6);
  cut_inside.push_back(message("tool", "r5b"));
  Cuts cuts;
  EXPECT_EQ(outline(compacted(cut_inside, CompactionStage::kLastFour, cuts)),
            "s:s u:task a:c4 t:r4 a:c5 t:r5 t:r5b");
}

TEST(Compaction, ALongSystemPromptLosesItsMiddleLast) {
  json::Array messages = talk(9);
  std::string system(1999, 'a');
  system += "é" + std::string(3000, 'b');
  messages[0].as_object().set("content", system);
  Cuts cuts;
  const json::Array out = compacted(messages, CompactionStage::kLastFour, cuts);
  EXPECT_TRUE(cuts.system);
  const std::string& text = out[0].find("content")->as_string();
  EXPECT_EQ(text, std::string(1999, 'a') + "\n[2001 bytes left out]\n" + std::string(1000, 'b'));
}

}  // namespace
}  // namespace met::api
