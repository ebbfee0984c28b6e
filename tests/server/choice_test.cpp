// A choice gives the same answer however the engine's ids arrive; heads and targets are read one way only.
#include "server/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/head.h"
#include "tests/server/tiny_text.h"

namespace met::testing {
namespace {

using scheduler::Event;
using scheduler::FinishReason;

struct Whole {
  std::string text;
  std::vector<api::TokenId> ids;
  std::string entry_texts;
  std::string finish;
  friend bool operator==(const Whole&, const Whole&) = default;
};

void add(Whole& whole, const std::vector<api::AnswerPart>& parts) {
  for (const api::AnswerPart& part : parts) {
    whole.text += part.text;
    whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
    for (const api::TokenEntry& entry : part.entries) whole.entry_texts += entry.token.text;
    if (part.finish) whole.finish += std::string(part.finish->reason) + json::write(part.finish->stop_reason);
  }
}

/// Feeds `ids` in two events, cut at `cut`, or one by one for a negative cut.
Whole run(const api::GenerationRequest& request, const std::vector<api::TokenId>& ids, std::ptrdiff_t cut) {
  static const auto kModel = tiny_text();
  auto choice = server::Choice::create(0, request, *kModel, {.eos_ids = kModel->eos_ids});
  EXPECT_TRUE(choice) << choice.error().message;
  Whole whole;
  const auto push = [&](std::span<const api::TokenId> some) {
    Event event{.kind = Event::Kind::kTokens, .ids = {some.begin(), some.end()}};
    event.logprobs.assign(some.size(), scheduler::PositionLogprobs{.chosen = -1});
    if (!choice->ended()) add(whole, choice->push(event));
  };
  const std::span<const api::TokenId> all(ids);
  if (cut < 0) {
    for (std::size_t i = 0; i < ids.size(); ++i) push(all.subspan(i, 1));
  } else {
    push(all.first(static_cast<std::size_t>(cut)));
    push(all.subspan(static_cast<std::size_t>(cut)));
  }
  if (!choice->ended()) add(whole, choice->finish(FinishReason::kEos));
  return whole;
}

TEST(Choice, GivesTheSameAtEverySplit) {
  std::vector<api::TokenId> ids = tiny_ids("Grüße an 🙂: stop here, not there");
  ids.push_back(kImEnd);
  for (const std::vector<std::string>& stops :
       {std::vector<std::string>{}, {"here"}, {"stop h\u00FC", "there!"}, {"🙂"}}) {
    api::GenerationRequest request;
    request.logprobs = 0;
    request.stop = stops;
    const Whole want = run(request, ids, -1);
    for (std::ptrdiff_t cut = 0; cut <= std::ssize(ids); ++cut)
      EXPECT_EQ(run(request, ids, cut), want) << cut;
    EXPECT_EQ(want.text.find("\xEF\xBF\xBD"), std::string::npos);
    EXPECT_TRUE(want.entry_texts.starts_with(want.text));
    if (stops.empty()) {
      EXPECT_EQ(want.text, "Grüße an 🙂: stop here, not there");
      EXPECT_EQ(want.ids, ids) << "every id once, the end token included";
      EXPECT_EQ(want.finish, "stopnull");
    }
  }
}

TEST(Choice, AStopTokenIsNamedAndShownOnlyWhenAskedFor) {
  api::GenerationRequest request;
  request.stop_token_ids = {'c'};
  const std::vector<api::TokenId> ids = tiny_ids("abc");
  request.stop_token_ids = {ids.back()};
  static const auto kModel = tiny_text();
  for (const bool shown : {false, true}) {
    request.include_stop_str_in_output = shown;
    auto choice = server::Choice::create(0, request, *kModel, {.eos_ids = kModel->eos_ids});
    Whole whole;
    add(whole, choice->push({.kind = Event::Kind::kTokens, .ids = ids}));
    add(whole, choice->finish(FinishReason::kStopToken));
    EXPECT_EQ(whole.text, shown ? "abc" : "ab");
    EXPECT_EQ(whole.ids, ids);
    EXPECT_EQ(whole.finish, "stop" + std::to_string(ids.back()));
    EXPECT_EQ(choice->completion_tokens(), 3);
  }
}

TEST(Head, Targets) {
  struct Case {
    const char* target;
    const char* path;  ///< nullptr: refused
  };
  for (const auto& [target, path] :
       {Case{"/a?b=c", "/a"}, Case{"http://h/a", "/a"}, Case{"HTTP://h:1/a?x", "/a"}, Case{"http://h", "/"},
        Case{"*", "*"}, Case{"", nullptr}, Case{"a", nullptr}, Case{"ftp://h/a", nullptr},
        Case{"http://h?x", nullptr}, Case{"/a b", nullptr}, Case{"/a\x7f", nullptr}}) {
    server::Head head;
    EXPECT_EQ(server::split_target(target, head), path != nullptr) << target;
    if (path != nullptr) {
      EXPECT_EQ(head.path, path);
    }
  }
}

TEST(Head, Segments) {
  EXPECT_EQ(server::decode_segment("org%2Fmodel"), "org/model");
  EXPECT_EQ(server::decode_segment("m%c3%a8"), "m\u00E8");
  for (const char* bad : {"%", "%4", "%zz", "%00", "a%"})
    EXPECT_EQ(server::decode_segment(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace met::testing
