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

}  // namespace
}  // namespace met::text
