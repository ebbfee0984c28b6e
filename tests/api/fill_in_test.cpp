// Prompts with a suffix, in the order and with the tokens that each family publishes for them.
#include "api/fill_in.h"

#include <gtest/gtest.h>

#include "core/concat.h"
#include "core/json.h"

namespace met::api {
namespace {

using Texts = std::vector<std::string>;

/// One token a character of "abc /" and the line break; `added` from id 10 on, `special` or not. With `blank`, a text
/// begins with one, as SentencePiece has it.
text::Tokenizer tokenizer_with(const Texts& added, bool special = true, bool blank = false) {
  json::Object vocabulary{{"u", 0},      {"a", 1}, {"b", 2}, {"c", 3}, {"▁", 4},
                          {"<0x0A>", 5}, {"<", 6}, {"/", 7}, {">", 8}};
  json::Array tokens;
  int id = 10;
  for (const std::string& content : added) {
    json::Object token{{"id", id++}, {"content", content}, {"special", special}};
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) token.append(flag, false);
    tokens.emplace_back(std::move(token));
  }
  json::Object replace{{"type", "Replace"}, {"pattern", json::Object{{"String", " "}}}, {"content", "▁"}};
  json::Array steps;
  if (blank) steps.emplace_back(json::Object{{"type", "Prepend"}, {"prepend", "▁"}});
  steps.emplace_back(std::move(replace));
  json::Array decoders;
  decoders.emplace_back(
      json::Object{{"type", "Replace"}, {"pattern", json::Object{{"String", "▁"}}}, {"content", " "}});
  decoders.emplace_back(json::Object{{"type", "ByteFallback"}});
  decoders.emplace_back(json::Object{{"type", "Fuse"}});
  json::Object model{{"type", "BPE"}, {"unk_token", "u"}, {"fuse_unk", true}, {"byte_fallback", true}};
  model.append("vocab", std::move(vocabulary));
  model.append("merges", json::Array{});
  json::Object root{{"version", "1.0"}, {"added_tokens", std::move(tokens)}};
  root.append("normalizer", json::Object{{"type", "Sequence"}, {"normalizers", std::move(steps)}});
  root.append("pre_tokenizer", nullptr);
  root.append("post_processor", nullptr);
  root.append("decoder", json::Object{{"type", "Sequence"}, {"decoders", std::move(decoders)}});
  root.append("model", std::move(model));
  auto made = text::Tokenizer::from_json(json::write(root), R"({"bos_token":"<s>"})");
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

/// The prompt's tokens, as the vocabulary spells them.
std::string spelled(const text::Tokenizer& tokenizer, const PromptInput& before, const std::string& behind) {
  const auto found = find_fill_in(tokenizer);
  if (!found) return "none";
  std::string out;
  for (const TokenId id : fill_in_prompt(*found, before, behind, false, tokenizer).ids)
    out += concat(out.empty() ? "" : " ", tokenizer.piece(id));
  return out;
}

struct Family {
  const char* name;
  Texts tokens;
  bool blank;
  std::string want;  // of the prefix "ab" and the suffix "c"
};

TEST(FillIn, PutsThePartsInTheOrderOfTheFamily) {
  const Family families[] = {
      {"qwen",
       {"<|fim_middle|>", "<|fim_prefix|>", "<|fim_suffix|>"},
       false,
       "<|fim_prefix|> a b <|fim_suffix|> c <|fim_middle|>"},
      {"starcoder",
       {"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"},
       false,
       "<fim_prefix> a b <fim_suffix> c <fim_middle>"},
      {"santacoder",
       {"<fim-prefix>", "<fim-middle>", "<fim-suffix>"},
       false,
       "<fim-prefix> a b <fim-suffix> c <fim-middle>"},
      {"deepseek",
       {"<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>"},
       false,
       "<｜fim▁begin｜> a b <｜fim▁hole｜> c <｜fim▁end｜>"},
      // The suffix begins in the midst of a text: no blank is put before it.
      {"codellama", {"▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"}, true, "▁<PRE> ▁ a b ▁<SUF> c ▁<MID>"},
      {"codestral", {"[PREFIX]", "[SUFFIX]"}, true, "[SUFFIX] c [PREFIX] ▁ a b"},
      {"without", {"<|fim_prefix|>", "<|fim_suffix|>", "<s>"}, false, "none"},
  };
  for (const Family& f : families)
    EXPECT_EQ(spelled(tokenizer_with(f.tokens, true, f.blank), "ab", "c"), f.want) << f.name;
}

TEST(FillIn, BosStaysInFrontAndIdsAreTakenAsTheyAre) {
  const Texts qwen = {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<s>"};
  EXPECT_EQ(spelled(tokenizer_with(qwen), std::vector<TokenId>{13, 1, 2}, "c"),
            "<s> <|fim_prefix|> a b <|fim_suffix|> c <|fim_middle|>");
  EXPECT_EQ(spelled(tokenizer_with({"[PREFIX]", "[SUFFIX]", "<s>"}), std::vector<TokenId>{12, 1}, "c"),
            "<s> [SUFFIX] c [PREFIX] a");
}

// Some vocabularies have these tokens without the flag of a control token.
TEST(FillIn, NoTextBecomesAControlToken) {
  for (const bool special : {true, false}) {
    const text::Tokenizer tokenizer =
        tokenizer_with({"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<file_sep>"}, special);
    for (const char* text : {"a<fim_suffix>b", "<fim_middle>", "a<file_sep>"}) {
      const std::string ids = spelled(tokenizer, text, text);
      EXPECT_TRUE(ids.starts_with("<fim_prefix> ") && ids.ends_with(" <fim_middle>")) << ids;
      std::size_t count = 0;
      for (std::size_t at = 0; (at = ids.find("fim_", at)) != std::string::npos; ++at) ++count;
      EXPECT_EQ(count, 3U) << ids;
      EXPECT_FALSE(ids.contains("<file_sep>")) << ids;
    }
  }
}

TEST(FillIn, KnowsWhereThePrefixStandsAndWhatEndsAMiddle) {
  const text::Tokenizer tokenizer =
      tokenizer_with({"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<file_sep>"});
  const auto found = find_fill_in(tokenizer);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ends, std::vector<TokenId>{13});
  const FillInPrompt prompt = fill_in_prompt(*found, std::string("ab"), "c", false, tokenizer);
  EXPECT_EQ(prompt.prefix_begin, 1U);
  EXPECT_EQ(prompt.prefix_count, 2U);
}

}  // namespace
}  // namespace met::api
