// An answer that runs in circles ends: the detector against a search of the whole tail, and the wire of each route.
#include "server/repetition.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/server/served.h"

namespace met::testing {
namespace {

/// The rule read off its definition: some pattern of an allowed size stands `min_count` times at the end.
bool ends_in_repetition(const std::vector<api::TokenId>& ids, const api::RepetitionRule& rule) {
  for (int size = rule.min_pattern; size <= rule.max_pattern; ++size) {
    const int span = size * rule.min_count;
    if (span > std::ssize(ids)) continue;
    bool same = true;
    for (int i = 0; i < span - size; ++i) {
      const std::size_t at = ids.size() - 1 - static_cast<std::size_t>(i);
      same &= ids[at] == ids[at - static_cast<std::size_t>(size)];
    }
    if (same) return true;
  }
  return false;
}

TEST(Repetition, FindsWhatASearchOfTheWholeTailFinds) {
  std::mt19937 random(7);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    const api::RepetitionRule rule{.min_pattern = 1 + static_cast<int>(random() % 3),
                                   .max_pattern = 3 + static_cast<int>(random() % 4),
                                   .min_count = 2 + static_cast<int>(random() % 3)};
    server::RepetitionDetector detector(rule);
    std::vector<api::TokenId> ids;
    for (int i = 0; i < 80; ++i) {
      // mostly an id from a little further back, so that patterns come about and break
      const std::size_t back = 1 + random() % 6;
      ids.push_back(back <= ids.size() && random() % 8 != 0 ? ids[ids.size() - back]
                                                            : static_cast<api::TokenId>(random() % 3));
      const bool want = ends_in_repetition(ids, rule);
      ASSERT_EQ(detector.push(ids.back()), want) << "round " << round << ", id " << i;
      found += want ? 1 : 0;
    }
  }
  EXPECT_GT(found, 1000);
}

TEST(Repetition, ARuleThatIsOffFindsNothing) {
  server::RepetitionDetector detector(api::RepetitionRule{});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(detector.push(5));
}

constexpr std::string_view kRule =
    R"(,"repetition_detection":{"max_pattern_size":4,"min_pattern_size":2,"min_count":3},"max_tokens":100)";

/// Ids of one letter each that go round in "xyz" behind a head.
FakeOptions circling() {
  FakeOptions options;
  options.script = [](const scheduler::Request&, int, std::int64_t position) {
    static const auto kIds = tiny_ids("abcxyz");
    return kIds[static_cast<std::size_t>(position < 3 ? position : 3 + (position % 3))];
  };
  return options;
}

TEST(Repetition, EndsChatAndCompletionsAsTheyNameIt) {
  Served met(circling());
  for (const bool chat : {true, false}) {
    const auto ask = [&](const std::string& more) {
      const std::string members = std::string(kRule) + more;
      return met
          .ask(chat ? post("/v1/chat/completions", chat_body(members))
                    : post("/v1/completions", completion_body(members)))
          .body;
    };
    const json::Value plain = parsed(ask(""));
    const json::Value& text =
        chat ? at(plain, "choices", 0, "message", "content") : at(plain, "choices", 0, "text");
    EXPECT_EQ(text, json::Value("abcxyzxyzxyz"));
    EXPECT_EQ(at(plain, "choices", 0, "finish_reason"), json::Value("repetition"));
    EXPECT_EQ(at(plain, "choices", 0, "stop_reason"), json::Value("repetition_detected"));
    EXPECT_EQ(at(plain, "usage", "completion_tokens"), json::Value(12));
    const auto chunks = chunks_of(ask(R"(,"stream":true)"));
    EXPECT_EQ(at(chunks.back(), "choices", 0, "finish_reason"), json::Value("repetition"));
    EXPECT_EQ(at(chunks.back(), "choices", 0, "stop_reason"), json::Value("repetition_detected"));
  }
  EXPECT_TRUE(met.eventually([&] { return met.engine.running() == 0; })) << "the engine goes on";
}

TEST(Repetition, OtherEndsOfTheSameTokenGoFirst) {
  Served met(circling());
  struct Case {
    const char* members;
    const char* text;
    const char* reason;
  };
  for (const auto& [members, text, reason] :
       {Case{R"(,"max_tokens":12)", "abcxyzxyzxyz", "length"}, Case{R"(,"stop":"zxyz")", "abcxy", "stop"},
        Case{R"(,"min_tokens":14)", "abcxyzxyzxyzxy", "repetition"},
        Case{R"(,"stop":"zxyzxyzQ")", "abcxyzxyzxyz", "repetition"}}) {
    const json::Value v =
        parsed(met.ask(post("/v1/chat/completions", chat_body(std::string(kRule) + members))).body);
    EXPECT_EQ(at(v, "choices", 0, "message", "content"), json::Value(text)) << members;
    EXPECT_EQ(at(v, "choices", 0, "finish_reason"), json::Value(reason)) << members;
  }
}

TEST(Repetition, ResponsesAreIncompleteAndMessagesCut) {
  Served met(circling());
  const std::string rule = R"(,"repetition_detection":{"max_pattern_size":4,"min_count":3}})";
  const json::Value response = parsed(met.ask(post("/v1/responses", R"({"input":"Hi.")" + rule)).body);
  EXPECT_EQ(at(response, "status"), json::Value("incomplete"));
  EXPECT_EQ(at(response, "incomplete_details", "reason"), json::Value("repetition"));
  EXPECT_EQ(at(response, "output", 0, "status"), json::Value("incomplete"));
  const json::Value message = parsed(
      met.ask(post("/v1/messages", R"({"max_tokens":90,"messages":[{"role":"user","content":"Hi."}])" + rule))
          .body);
  EXPECT_EQ(at(message, "stop_reason"), json::Value("max_tokens"));
  EXPECT_EQ(at(message, "content", 0, "text"), json::Value("abcxyzxyzxyz"));
}

}  // namespace
}  // namespace met::testing
