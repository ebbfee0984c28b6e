#include "text/machine/machine.h"

#include "core/utf8.h"
#include "tests/text/corpus.h"

namespace met::text {
namespace {

const Tokenizer& tokenizer() {
  static const auto kTokenizer = Tokenizer::from_json(
      test::read_file(test::source_dir() / "tests/text/data/tokenizers/vocab/syn_llama3.tokenizer.json"));
  return *kTokenizer;
}

struct Answer {
  std::string text;
  std::size_t covered = 0;
  bool stopped = false;
  std::size_t stop_position = 0;
};

// Feeds ids in steps of `step` and checks what every stream must hold: adjoining ranges, valid UTF-8.
Answer run(std::span<const TokenId> ids, const MachineOptions& options, std::size_t step) {
  auto machine = Machine::create(tokenizer(), options);
  Answer answer;
  const auto take = [&](const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      EXPECT_TRUE(utf8::valid(piece.text));
      EXPECT_EQ(piece.tokens_begin, answer.covered);
      EXPECT_GE(piece.tokens_end, piece.tokens_begin);
      answer.covered = piece.tokens_end;
      answer.text += piece.text;
    }
  };
  for (std::size_t at = 0; at < ids.size(); at += step)
    take(machine->push(ids.subspan(at, std::min(step, ids.size() - at))));
  take(machine->finish());
  answer.stopped = machine->stopped();
  answer.stop_position = machine->stop_position();
  return answer;
}

TEST(Machine, StreamedPiecesAddUpToTheAnswerForEveryStep) {
  const std::string text = "The quick 🙂 brown 삼겹살 fox\njumps";
  const auto ids = tokenizer().encode(text);
  for (std::size_t step = 1; step <= ids.size(); ++step) {
    const Answer answer = run(ids, {}, step);
    EXPECT_EQ(answer.text, text);
    EXPECT_EQ(answer.covered, ids.size());
    EXPECT_FALSE(answer.stopped);
  }
}

TEST(Machine, StopCountsTheIdThatCompletesIt) {
  const std::string text = "The quick brown fox jumps";
  const auto ids = tokenizer().encode(text);
  std::size_t position = 0;  // the first prefix of ids whose text holds the stop
  while (tokenizer().decode({ids.data(), position}).find("own fox") == std::string::npos) ++position;
  for (std::size_t step = 1; step <= ids.size(); ++step) {
    const Answer answer = run(ids, {.stops = {"zzz", "own fox"}}, step);
    EXPECT_EQ(answer.text, "The quick br");
    EXPECT_TRUE(answer.stopped);
    EXPECT_EQ(answer.stop_position, position);
    EXPECT_EQ(answer.covered, position);
    EXPECT_EQ(run(ids, {.stops = {"own fox"}, .include_stop = true}, step).text, "The quick brown fox");
  }
}

TEST(Machine, SpecialTokensGiveNoTextUnlessAsked) {
  const std::vector<TokenId> ids = {*tokenizer().find("<|im_start|>"), *tokenizer().find("a")};
  EXPECT_EQ(run(ids, {}, 1).text, "a");
  EXPECT_EQ(run(ids, {.skip_special = false}, 1).text, "<|im_start|>a");
  const std::vector<TokenId> outside = {-1, 1 << 30};
  EXPECT_EQ(run(outside, {}, 1).covered, 2U);
}

TEST(Machine, HeldBytesComeAtTheEnd) {
  auto bytes = tokenizer().encode("🙂");
  if (bytes.size() < 2) GTEST_SKIP() << "the vocabulary has the character whole";
  bytes.pop_back();
  EXPECT_EQ(run(bytes, {}, 1).text, "\uFFFD");
  const auto prefix = tokenizer().encode("sto");
  EXPECT_EQ(run(prefix, {.stops = {"stop!"}}, 1).text, "sto");
}

TEST(Machine, RefusesAnEmptyStop) {
  const auto machine = Machine::create(tokenizer(), {.stops = {""}});
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().field, "stop");
}

AnswerFormat hermes_format(bool thinks) {
  AnswerFormat format;
  format.reasoning = thinks ? ReasoningFormat::kThink : ReasoningFormat::kNone;
  format.tool_format = ToolFormat::kHermes;
  format.tools = std::make_shared<const ToolSet>(std::vector<Tool>{{.name = "now"}, {.name = "run"}});
  return format;
}

constexpr std::string_view kNow = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

// Kinds in their order with their texts: "c:text r:text call:name(arguments)".
std::string shape(std::string_view text, const MachineOptions& options, std::size_t step,
                  bool* stopped = nullptr) {
  const auto ids = tokenizer().encode(text);
  auto machine = Machine::create(tokenizer(), options);
  std::string out;
  std::size_t covered = 0;
  Piece::Kind last = Piece::Kind::kCallEnd;
  const auto take = [&](const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      EXPECT_EQ(piece.tokens_begin, covered);
      covered = piece.tokens_end;
      const bool same = piece.kind == last;
      if (piece.kind == Piece::Kind::kContent && !piece.text.empty()) out += (same ? "" : " c:") + piece.text;
      if (piece.kind == Piece::Kind::kReasoning && !piece.text.empty())
        out += (same ? "" : " r:") + piece.text;
      if (piece.kind == Piece::Kind::kCallBegin) out += " call:" + piece.text + "(";
      if (piece.kind == Piece::Kind::kCallArguments) out += piece.text;
      if (piece.kind == Piece::Kind::kCallEnd) out += ")";
      if (!piece.text.empty()) last = piece.kind;
    }
  };
  const std::span<const TokenId> all(ids);
  for (std::size_t at = 0; at < ids.size(); at += step)
    take(machine->push(all.subspan(at, std::min(step, ids.size() - at))));
  take(machine->finish());
  if (stopped != nullptr) *stopped = machine->stopped();
  return out;
}

struct ShapeCase {
  const char* name;
  std::string text;
  std::vector<std::string> stops;
  bool thinks;
  int calls_max;
  std::string want;
  bool stopped;
};

// Stop strings hold for visible text: neither for reasoning nor inside a call.
TEST(Machine, ReadsReasoningThenCallsThenStopStrings) {
  const std::string now(kNow);
  const ShapeCase cases[] = {
      {"stop_in_reasoning", "<think>a END b</think>c END d", {"END"}, true, 0, " r:a END b c:c ", true},
      {"stop_in_call", now, {"}"}, false, 0, " call:now({})", false},
      {"stop_after_call", now + "X", {"X"}, false, 0, " call:now({})", true},
      {"stop_over_a_call", "ab" + now + "c", {"abc"}, false, 0, " c:ab call:now({}) c:c", false},
      {"markup_in_a_stop", "a < b", {"<"}, false, 0, " c:a ", true},
      {"one_call_at_most", now + "\n" + now + "more", {}, false, 1, " call:now({})", true},
      {"two_calls_at_most", now + now + now, {}, false, 2, " call:now({}) call:now({})", true},
      {"all_kinds",
       "<think>\nplan\n</think>\n\nI look. " + now,
       {},
       true,
       0,
       " r:plan c:I look.  call:now({})",
       false},
  };
  for (const ShapeCase& c : cases) {
    SCOPED_TRACE(c.name);
    MachineOptions options{.stops = c.stops, .format = hermes_format(c.thinks)};
    options.format.calls_max = c.calls_max;
    for (std::size_t step = 1; step < 8; ++step) {
      bool stopped = false;
      EXPECT_EQ(shape(c.text, options, step, &stopped), c.want) << step;
      EXPECT_EQ(stopped, c.stopped);
    }
  }
}

}  // namespace
}  // namespace met::text
