#include "text/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <random>

#include "core/utf8.h"
#include "text/tokenizer/unicode.h"

namespace met::text {

namespace {

std::vector<std::string> matches(const Regex& regex, std::string_view text) {
  std::vector<ByteRange> found;
  regex.find_all(text, found);
  std::vector<std::string> out;
  for (const ByteRange& m : found) out.emplace_back(text.substr(m.begin, m.end - m.begin));
  return out;
}

// Characters that the patterns treat apart, and every kind of border case of Unicode.
char32_t random_point(std::mt19937& random) {
  static constexpr char32_t kOften[] = {' ',    ' ',    ' ',   '\n',   '\r',   '\t',   'a',     's',  't',
                                        'l',    'e',    'r',   'v',    'd',    'm',    'S',     'L',  'R',
                                        'E',    '\'',   '0',   '7',    '.',    '!',    0xA0,    0x85, 0x180E,
                                        0x3000, 0x2028, 0x17F, 0x301,  0x661,  0x4E2D, 0x1F642, 0xB2, 0x2163,
                                        0x0B,   0x0C,   0x1C,  0x200B, 0x212A, 0xE9,   0x5F};
  if (random() % 8 != 0) return kOften[random() % std::size(kOften)];
  while (true) {
    const char32_t c = random() % 2 == 0 ? random() % 0x3000 : random() % 0x110000;
    if (c < 0xD800 || c > 0xDFFF) return c;
  }
}

class ScannerTest : public testing::TestWithParam<std::string_view> {};

TEST_P(ScannerTest, EqualsPcre2OnRandomText) {
  const auto regex = Regex::compile(GetParam());
  ASSERT_TRUE(regex);
  ASSERT_TRUE(regex->has_scanner());
  std::mt19937 random(5);
  for (int round = 0; round < 60'000; ++round) {
    std::string text;
    // Now and then more matches than are found at once.
    for (std::size_t n = random() % (round % 64 == 0 ? 400 : 24); n > 0; --n)
      utf8::append(random_point(random), text);
    std::vector<ByteRange> mine;
    std::vector<ByteRange> theirs;
    regex->find_all(text, mine);
    regex->find_all_by_pcre2(text, theirs);
    ASSERT_EQ(mine, theirs) << text;
  }
}

TEST_P(ScannerTest, EqualsPcre2AroundEveryCodePoint) {
  const auto regex = Regex::compile(GetParam());
  std::string text;
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    text.clear();
    text += "a";
    utf8::append(c, text);
    utf8::append(c, text);
    text += "x 1";
    utf8::append(c, text);
    std::vector<ByteRange> mine;
    std::vector<ByteRange> theirs;
    regex->find_all(text, mine);
    regex->find_all_by_pcre2(text, theirs);
    ASSERT_EQ(mine, theirs) << std::hex << static_cast<std::uint32_t>(c);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScannerTest,
                         testing::Values(kNumberPattern, kGpt2Pattern, kLlama3Pattern, kQwen2Pattern));

TEST(Regex, ClassesAreThoseOfTheReference) {
  const auto blanks = Regex::compile(R"(\s+)");
  // U+180E is no blank; U+0085 and U+2028 are.
  EXPECT_EQ(matches(*blanks, "a\u180Eb\u0085c\u2028d").size(), 2U);
  const auto words = Regex::compile(R"([\w-]+|[^\w\s]+)");
  EXPECT_EQ(matches(*words, "e\u0301-x_1 \u24D0! ?"),
            (std::vector<std::string>{"e\u0301-x_1", "\u24D0", "!", "?"}));
  EXPECT_EQ(matches(*Regex::compile(R"(\h+)"), "xbeef g").at(0), "beef");
}

TEST(Regex, IntersectionsOfSets) {
  const auto latin = Regex::compile(R"([\p{L}&&[^\p{Han}]]+)");
  ASSERT_TRUE(latin) << latin.error().message;
  EXPECT_EQ(matches(*latin, "ab\u4E2D\u6587cd1"), (std::vector<std::string>{"ab", "cd"}));
  const auto vowels = Regex::compile("[a-z&&[aeiou]]");
  EXPECT_EQ(matches(*vowels, "hello"), (std::vector<std::string>{"e", "o"}));
  const auto united = Regex::compile("[[ab]c]+");
  ASSERT_TRUE(united);
  EXPECT_EQ(matches(*united, "xabcx"), (std::vector<std::string>{"abc"}));
  EXPECT_EQ(matches(*Regex::compile(R"([\[\]&]+)"), "a[&]b"), (std::vector<std::string>{"[&]"}));
}

TEST(Regex, HostilePatternsEndInAnError) {
  EXPECT_FALSE(Regex::compile("("));
  EXPECT_FALSE(Regex::compile(R"(\C)"));
  EXPECT_FALSE(Regex::compile(std::string(1 << 20, 'a')));
  const auto slow = Regex::compile("(a|aa)+$|b");
  ASSERT_TRUE(slow);
  matches(*slow, std::string(64, 'a') + "c");  // PCRE2's limits end it
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalize("e\u0301", NormalForm::kNfc), "\u00E9");
  EXPECT_EQ(normalize("\u00E9", NormalForm::kNfd), "e\u0301");
  EXPECT_EQ(normalize("\uFB01\uFF21", NormalForm::kNfkc), "fiA");
  std::string lower;
  append_lower(0x130, lower);
  append_lower(U'Σ', lower);
  EXPECT_EQ(lower, "i\u0307σ");
}

}  // namespace
}  // namespace met::text
