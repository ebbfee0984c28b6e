#include "text/stop/stop_matcher.h"

#include <algorithm>
#include <random>

#include "tests/text/corpus.h"

namespace met::text {
namespace {

using test::from_hex;
using test::string_of;

std::vector<std::string> strings_of(const json::Value& list) {
  std::vector<std::string> out;
  for (const json::Value& v : list.as_array()) out.push_back(v.as_string());
  return out;
}

StopMatcher matcher_of(const json::Value& record) {
  return *StopMatcher::create(strings_of(*record.find("stops")), record.find("include_stop")->as_bool());
}

// The total for one way to cut the stream.
std::string run(StopMatcher matcher, const std::vector<std::string>& pieces,
                std::optional<std::size_t>& stop) {
  std::string out;
  for (const std::string& piece : pieces) matcher.push(piece, out);
  matcher.flush(out);
  stop = matcher.stop_index();
  return out;
}

TEST(StopMatcher, CountsOnlyWhatEndsWhileArmed) {
  struct Case {
    const char* before;  ///< pushed while not armed
    const char* after;
    const char* text;
    bool stops;
  };
  for (const auto& [before, after, text, stops] :
       {Case{"a stop b", " and stop c", "a stop b and ", true}, Case{"a st", "op b", "a ", true},
        Case{"a stop", " b", "a stop b", false}, Case{"stopstop", "", "stopstop", false},
        Case{"stopst", "op", "stop", true}}) {
    StopMatcher matcher = *StopMatcher::create(std::vector<std::string>{"stop"});
    std::string out;
    matcher.arm(false);
    matcher.push(before, out);
    matcher.arm(true);
    matcher.push(after, out);
    if (!matcher.stopped()) matcher.flush(out);
    EXPECT_EQ(out, text) << before << "|" << after;
    EXPECT_EQ(matcher.stopped(), stops) << before << "|" << after;
  }
}

TEST(StopMatcher, AgreesWithTheCorpusAfterEachPieceAndAtEverySplit) {
  for (const json::Value& record :
       test::read_records(test::source_dir() / "tests/text/data/stops/cases.jsonl")) {
    SCOPED_TRACE(string_of(record, "id"));
    if (record.find("expect_error") != nullptr) {
      const json::Array& list = record.find("stops")->as_array();
      const bool all_strings = std::ranges::all_of(list, &json::Value::is_string);
      EXPECT_FALSE(all_strings && StopMatcher::create(strings_of(*record.find("stops"))));
      continue;
    }
    const json::Value& expect = *record.find("expect");
    const std::vector<std::string> stops = strings_of(*record.find("stops"));
    std::string whole;
    std::vector<std::string> pieces;
    for (const std::string& hex : strings_of(*record.find("pieces_hex"))) {
      pieces.push_back(from_hex(hex));
      whole += pieces.back();
    }
    StopMatcher matcher = matcher_of(record);
    const auto emitted = strings_of(*expect.find("emit_after_piece_hex"));
    for (std::size_t i = 0; i < emitted.size(); ++i) {
      std::string out;
      matcher.push(pieces[i], out);
      EXPECT_EQ(out, from_hex(emitted[i])) << "piece " << i;
      EXPECT_EQ(matcher.stopped(), string_of(expect, "finish") == "stop" && i + 1 == emitted.size());
    }
    std::string rest;
    matcher.flush(rest);
    EXPECT_EQ(rest, from_hex(string_of(expect, "flush_hex")));

    const std::string text = from_hex(string_of(expect, "text_hex"));
    for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
      std::optional<std::size_t> stop;
      EXPECT_EQ(run(matcher_of(record), {whole.substr(0, cut), whole.substr(cut)}, stop), text)
          << "cut at " << cut;
      EXPECT_EQ(stop.has_value(), !expect.find("stop_reason")->is_null());
      if (stop) {
        EXPECT_EQ(stops[*stop], string_of(expect, "stop_reason"));
      }
    }
    std::vector<std::string> bytes;
    for (const char c : whole) bytes.emplace_back(1, c);
    std::optional<std::size_t> stop;
    EXPECT_EQ(run(matcher_of(record), bytes, stop), text);
  }
}

// Oracle: the definition, by looking at every end and every stop.
TEST(StopMatcher, EqualsTheDefinitionOnRandomStreams) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](std::size_t longest) {
      std::string s(1 + random() % longest, 'a');
      for (char& c : s) c = static_cast<char>('a' + random() % 2);
      return s;
    };
    std::vector<std::string> stops(1 + random() % 4);
    for (std::string& s : stops) s = word(5);
    const std::string text = word(24);
    std::string expect = text;
    std::string found;
    for (std::size_t end = 1; end <= text.size() && found.empty(); ++end) {
      for (const std::string& s : stops)
        if (s.size() > found.size() && text.substr(0, end).ends_with(s)) found = s;
      if (!found.empty()) expect = text.substr(0, end - found.size());
    }
    std::optional<std::size_t> stop;
    const std::size_t cut = random() % (text.size() + 1);
    ASSERT_EQ(run(*StopMatcher::create(stops), {text.substr(0, cut), text.substr(cut)}, stop), expect)
        << text;
    ASSERT_EQ(stop.has_value(), !found.empty());
    if (stop) {
      ASSERT_EQ(stops[*stop], found);
    }
  }
}

TEST(StopMatcher, RefusesWhatItCannotServe) {
  const auto field = [](std::vector<std::string> stops) {
    const auto matcher = StopMatcher::create(stops);
    return matcher ? std::string() : matcher.error().field;
  };
  EXPECT_EQ(field({""}), "stop");
  EXPECT_EQ(field(std::vector<std::string>(StopMatcher::kStopsMax + 1, "a")), "stop");
  EXPECT_EQ(field({std::string(StopMatcher::kStopBytesMax + 1, 'a')}), "stop");
  EXPECT_EQ(field({std::string(StopMatcher::kStopBytesMax, 'a')}), "");
}

}  // namespace
}  // namespace met::text
