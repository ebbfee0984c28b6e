// Masks inside strings of bounded length against what the automaton takes, token by token.
#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "core/json.h"
#include "grammar/string_masks.h"
#include "tests/grammar/byte_vocabulary.h"

namespace met::grammar {
namespace {

/// The bytes, the end, a special token, and tokens that cross what a mask must tell apart.
Vocabulary wide_vocabulary() {
  Vocabulary out = test::byte_vocabulary();
  for (const char* token : {"ab",
                            "abc",
                            "abcdefgh",
                            "é",
                            "aé",
                            "日",
                            "日本語",
                            "\xE6\x97",
                            "\xA5",
                            "a\xE6",
                            "\xA5\"",
                            "\xED\x9F",
                            "\xED\xA0",
                            "\xF0\x9F",
                            "\x98\x80",
                            "\xF4\x90",
                            "\xC0\x80",
                            "\xE0\x80",
                            "\"}",
                            "\",",
                            "\": ",
                            "\":\"",
                            "a\"}",
                            "ab\"]",
                            "abc\",\"",
                            "\"]}",
                            "\"\"",
                            ", \"",
                            "{\"",
                            "\" }",
                            "[\"",
                            "\\n",
                            "\\u",
                            "\\u00",
                            "0041",
                            "41\"",
                            "\\ud83d",
                            "\\ude00",
                            "\\uD83D\\uDE00",
                            "\\\\",
                            "\\\"",
                            "\\\"}",
                            "a\\",
                            "\\/b",
                            "\\u12",
                            "\\ud8",
                            "d\\ud",
                            "\n",
                            "a\nb",
                            "\"\n}",
                            "\\x",
                            "c0e",
                            "true",
                            "null",
                            "12",
                            "-",
                            "\"a\":",
                            "\"a\":\"b",
                            "x\",\"b\":\"y",
                            "ccccccccccccccccccccccc"})
    out.tokens.emplace_back(token);
  out.width = out.tokens.size() + 5;
  return out;
}

struct Walk {
  const Vocabulary* vocabulary;
  std::mt19937 random;

  std::vector<std::uint32_t> mask_of(sampling::ConstraintState& state) const {
    std::vector<std::uint32_t> mask((vocabulary->width + 31) / 32);
    if (!state.fill(mask)) std::ranges::fill(mask, ~0U);
    return mask;
  }

  /// Compares at every step of a random text.
  void run(const sampling::Constraint& constraint, const char* schema) {
    const auto state = constraint.begin();
    std::vector<std::int32_t> taken;
    std::string text;
    for (int step = 0; step < 16; ++step) {
      const auto mask = mask_of(*state);
      std::vector<std::int32_t> allowed;
      for (std::int32_t id = 0; id < static_cast<std::int32_t>(vocabulary->tokens.size()); ++id) {
        const bool says = test::has_bit(mask, id);
        const auto other = constraint.begin();
        for (const std::int32_t before : taken) ASSERT_TRUE(other->accept(before));
        const bool special = id == test::kSpecial;
        ASSERT_EQ(says, !special && other->accept(id))
            << schema << "\n  behind " << text << "\n  token " << id << " "
            << vocabulary->tokens[static_cast<std::size_t>(id)];
        if (says) allowed.push_back(id);
      }
      ASSERT_FALSE(allowed.empty()) << schema << "\n  behind " << text;
      const std::int32_t id = allowed[random() % allowed.size()];
      if (id == test::kEnd) return;
      ASSERT_TRUE(state->accept(id));
      taken.push_back(id);
      text += vocabulary->tokens[static_cast<std::size_t>(id)];
    }
  }
};

TEST(StringMasks, SayWhatTheAutomatonTakes) {
  const Vocabulary vocabulary = wide_vocabulary();
  Compiler compiler(wide_vocabulary);
  for (
      const char* schema : {
          R"({"type":"string","maxLength":4})",
          R"({"type":"string","minLength":2,"maxLength":3})",
          R"({"type":"string","minLength":9})",
          R"({"type":"string","maxLength":0})",
          R"({"type":"string","minLength":3,"maxLength":30})",
          R"({"type":"string","maxLength":200})",
          R"({"type":"array","items":{"type":"string","maxLength":5}})",
          R"({"type":"object","properties":{"a":{"type":"string","maxLength":5},"b":{"type":"string","minLength":1,"maxLength":2}}})",
          R"({"type":"object","additionalProperties":{"type":"string","maxLength":3},"propertyNames":{"maxLength":2}})",
          R"({"type":"object","properties":{"a":{"anyOf":[{"type":"string","maxLength":3},{"type":"null"}]}},"required":["a"]})",
          // Two strings that live at once: with another bound, with another end, beside a constant.
          R"({"anyOf":[{"type":"string","maxLength":2},{"type":"string","minLength":4,"maxLength":6}]})",
          R"({"anyOf":[{"type":"array","items":{"type":"string","maxLength":3}},{"type":"array","prefixItems":[{"type":"string","maxLength":3},{"const":1}],"minItems":2,"maxItems":2}]})",
          R"({"anyOf":[{"type":"string","maxLength":2},{"enum":["abcdefgh"]}]})",
          R"({"type":"object","properties":{"a":{"type":"string","maxLength":2}},"additionalProperties":{"type":"string"}})",
      }) {
    const auto compiled =
        compiler.compile({.kind = Kind::kJsonSchema, .value = json::parse(schema).value(), .field = "f"});
    ASSERT_TRUE(compiled) << schema << " " << compiled.error().message;
    for (unsigned seed = 0; seed < 3; ++seed) {
      Walk walk{&vocabulary, std::mt19937(seed)};
      walk.run(**compiled, schema);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(StringMasks, SayItInsideTagsAndAfterARewind) {
  const Vocabulary vocabulary = wide_vocabulary();
  Compiler compiler(wide_vocabulary);
  const auto tag =
      json::parse(R"({"format":{"type":"triggered_tags","triggers":["{"],"tags":[{"begin":"{","content":
      {"type":"json_schema","json_schema":{"type":"string","maxLength":3}},"end":"}"}],"at_least_one":true,"stop_after_first":true}})");
  const auto compiled = compiler.compile({.kind = Kind::kStructuralTag, .value = *tag, .field = "f"});
  ASSERT_TRUE(compiled) << compiled.error().message;
  for (unsigned seed = 0; seed < 5; ++seed) {
    Walk walk{&vocabulary, std::mt19937(seed)};
    walk.run(**compiled, "tag");
    if (testing::Test::HasFatalFailure()) return;
  }
  const auto schema = json::parse(R"({"type":"array","items":{"type":"string","maxLength":2}})");
  const auto list = compiler.compile({.kind = Kind::kJsonSchema, .value = *schema, .field = "f"});
  ASSERT_TRUE(list);
  const auto state = (*list)->begin();
  const auto feed = [&](std::string_view text) {
    for (const char c : text) ASSERT_TRUE(state->accept(static_cast<unsigned char>(c))) << text;
  };
  const Walk walk{&vocabulary, std::mt19937(0)};
  feed("[\"ab");
  const auto before = walk.mask_of(*state);
  EXPECT_FALSE(test::has_bit(before, 'c'));
  feed("\",\"");
  EXPECT_TRUE(test::has_bit(walk.mask_of(*state), 'c'));
  state->rewind(3);
  EXPECT_EQ(walk.mask_of(*state), before);
  state->rewind(1);
  EXPECT_TRUE(test::has_bit(walk.mask_of(*state), 'c'));
}

TEST(StringMasks, CostLittleInsideABoundedString) {
  // As many tokens as a model has.
  const auto words = [] {
    Vocabulary out = test::byte_vocabulary();
    std::mt19937 random(1);
    for (int i = 0; i < 30000; ++i) {
      std::string word(1 + random() % 9, ' ');
      for (char& c : word) c = static_cast<char>('a' + random() % 26);
      out.tokens.push_back(std::move(word));
    }
    out.width = out.tokens.size();
    return out;
  };
  Compiler compiler(words);
  const auto schema = json::parse(R"({"type":"string","maxLength":120})");
  const auto compiled = compiler.compile({.kind = Kind::kJsonSchema, .value = *schema, .field = "f"});
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto state = (*compiled)->begin();
  std::vector<std::uint32_t> mask(30300 / 32 + 1);
  ASSERT_TRUE(state->accept('"'));
  ASSERT_TRUE(state->fill(mask));
  const std::clock_t begin = std::clock();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(state->accept('a' + i % 26));
    ASSERT_TRUE(state->fill(mask));
  }
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 0.5) << "CPU seconds of 100 masks";
}

}  // namespace
}  // namespace met::grammar
