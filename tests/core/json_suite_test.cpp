// RFC 8259 by table: what must parse and to what, what must not, and what the RFC leaves to us.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/json.h"

namespace met::json {
namespace {

using namespace std::string_view_literals;

struct Accepted {
  std::string_view text;
  std::string_view written;  ///< our compact form
};
constexpr Accepted kAccepted[] = {
    // Whitespace is these four characters, anywhere between tokens.
    {" \t\r\n1 \t\r\n"sv, "1"},
    {"[ ]"sv, "[]"},
    {"\n{\t}\r"sv, "{}"},
    {"{ \"a\" : [ 1 , 2 ] }"sv, R"({"a":[1,2]})"},
    // Any value may stand alone.
    {"null"sv, "null"},
    {"true"sv, "true"},
    {"false"sv, "false"},
    {"\"\""sv, "\"\""},
    {"-0"sv, "0"},
    {"-0.0"sv, "-0.0"},
    {"-0e309"sv, "-0.0"},
    // Numbers.
    {"0"sv, "0"},
    {"-1"sv, "-1"},
    {"10"sv, "10"},
    {"123456789012345678"sv, "123456789012345678"},
    {"-9223372036854775808"sv, "-9223372036854775808"},
    {"0.5"sv, "0.5"},
    {"-0.5"sv, "-0.5"},
    {"1e2"sv, "100"},
    {"1E+2"sv, "100"},
    {"1e-2"sv, "0.01"},
    {"1.5e1"sv, "15"},
    {"0e1"sv, "0"},
    {"0e+00"sv, "0"},
    {"1e0000000000000000000001"sv, "10"},
    {"1.7976931348623157e308"sv, "1.7976931348623157e+308"},
    {"4.9e-324"sv, "5e-324"},
    {"1e-999999"sv, "0"},
    // Strings: the short escapes, \u in both cases, pairs of surrogates, raw UTF-8 of each length, DEL.
    {R"("\"\\\/\b\f\n\r\t")"sv, R"("\"\\/\b\f\n\r\t")"},
    {R"("\u0041\u00e9\u00E9")"sv, R"("Aéé")"},
    {R"("\ud834\udd1e")"sv, R"("𝄞")"},
    {R"("\uDBFF\uDFFF")"sv, "\"\xF4\x8F\xBF\xBF\""},
    {R"("\u0000")"sv, R"("\u0000")"},
    {R"("\uFFFE\uFFFF")"sv, "\"\xEF\xBF\xBE\xEF\xBF\xBF\""},
    {"\"\xC2\x80\xE0\xA0\x80\xF0\x90\x80\x80\""sv, "\"\xC2\x80\xE0\xA0\x80\xF0\x90\x80\x80\""},
    {"\"\x7F\""sv, "\"\x7F\""},
    {R"("\\u0041")"sv, R"("\\u0041")"},
    // Containers.
    {"[[[]]]"sv, "[[[]]]"},
    {"[null,1,\"x\",{}]"sv, R"([null,1,"x",{}])"},
    {R"({"":0})"sv, R"({"":0})"},
    {R"({"a":{"a":{"a":1}}})"sv, R"({"a":{"a":{"a":1}}})"},
    {R"({"\u0061":1,"b":2})"sv, R"({"a":1,"b":2})"},
    {R"({"a":1,"\u0061":2})"sv, R"({"a":2})"},  // equal after unescaping: the last value, the first place
    {R"({"min":-1.0e+28,"max":1.0e+28})"sv, R"({"min":-1e+28,"max":1e+28})"},
};

TEST(JsonSuite, AcceptsAndWritesBack) {
  for (const Accepted& a : kAccepted) {
    const auto value = parse(a.text);
    ASSERT_TRUE(value) << a.text << ": " << value.error().message;
    const std::string written = write(*value);
    EXPECT_EQ(written, a.written) << a.text;
    EXPECT_EQ(write(*parse(written)), written) << a.text;
  }
}

constexpr std::string_view kRefused[] = {
    // Nothing, or more than one value.
    ""sv,
    " "sv,
    "1 2"sv,
    "[] []"sv,
    "{}}"sv,
    "[]]"sv,
    "\"a\"b"sv,
    "null,"sv,
    "1]"sv,
    "\0"sv,
    "1\0"sv,
    // Words.
    "nul"sv,
    "nulll"sv,
    "Null"sv,
    "TRUE"sv,
    "tru"sv,
    "fals"sv,
    "undefined"sv,
    "NaN"sv,
    "nan"sv,
    "Infinity"sv,
    "-Infinity"sv,
    // Numbers.
    "+1"sv,
    "-"sv,
    "--1"sv,
    "01"sv,
    "-01"sv,
    "1."sv,
    ".5"sv,
    "-.5"sv,
    "1.e1"sv,
    "1e"sv,
    "1e+"sv,
    "1ee1"sv,
    "1e1.5"sv,
    "0x10"sv,
    "1_000"sv,
    "1a"sv,
    "1 000"sv,
    "\xEF\xBC\x91"sv,
    "1e309"sv,
    "-1e999"sv,
    // Strings.
    "\""sv,
    "\"a"sv,
    "'a'"sv,
    "\"\\\""sv,
    "\"\\a\""sv,
    "\"\\x41\""sv,
    "\"\\u\""sv,
    "\"\\u00\""sv,
    "\"\\u00g0\""sv,
    "\"\\U0041\""sv,
    "\"\t\""sv,
    "\"\n\""sv,
    "\"\x1F\""sv,
    "\"\0\""sv,
    // Surrogates that stand alone or in the wrong order.
    "\"\\ud800\""sv,
    "\"\\udc00\""sv,
    "\"\\ud800\\ud800\""sv,
    "\"\\ud800x\""sv,
    "\"\\udc00\\ud800\""sv,
    "\"\\ud800\\u0041\""sv,
    // Bytes that are no UTF-8: stray continuation, overlong, surrogate, past U+10FFFF, cut short.
    "\"\x80\""sv,
    "\"\xC0\x80\""sv,
    "\"\xC1\xBF\""sv,
    "\"\xE0\x80\x80\""sv,
    "\"\xED\xA0\x80\""sv,
    "\"\xF4\x90\x80\x80\""sv,
    "\"\xF5\x80\x80\x80\""sv,
    "\"\xC2\""sv,
    "\"\xE2\x82\""sv,
    "\"\xF0\x9F\x98\""sv,
    "\"\xFF\""sv,
    "\xFF"sv,
    // A byte-order mark is no whitespace; nor are these.
    "\xEF\xBB\xBF{}"sv,
    "\f1"sv,
    "\v1"sv,
    "\xC2\xA0"
    "1"sv,
    // Arrays.
    "["sv,
    "]"sv,
    "[1"sv,
    "[1,"sv,
    "[1,]"sv,
    "[,1]"sv,
    "[1,,2]"sv,
    "[1 2]"sv,
    "[1:2]"sv,
    "[1}"sv,
    "[\"a\""sv,
    "[,]"sv,
    // Objects.
    "{"sv,
    "}"sv,
    "{\"a\""sv,
    "{\"a\":"sv,
    "{\"a\":1"sv,
    "{\"a\":1,"sv,
    "{\"a\":1,}"sv,
    "{,\"a\":1}"sv,
    "{\"a\" 1}"sv,
    "{\"a\"::1}"sv,
    "{a:1}"sv,
    "{1:1}"sv,
    "{null:1}"sv,
    "{'a':1}"sv,
    "{\"a\":1]"sv,
    "{\"a\":1 \"b\":2}"sv,
    "{\"a\",1}"sv,
    "{[]:1}"sv,
    // Comments.
    "//x\n1"sv,
    "1//x"sv,
    "/**/1"sv,
    "[1/**/]"sv,
    "#x\n1"sv,
};

TEST(JsonSuite, RefusesWithAPlaceInTheText) {
  for (const std::string_view text : kRefused) {
    const auto value = parse(text);
    ASSERT_FALSE(value) << "accepted: " << text << " as " << write(*value);
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(value.error().message.starts_with("JSON error at byte ")) << value.error().message;
  }
}

TEST(JsonSuite, EveryPrefixOfADocumentIsRefused) {
  constexpr std::string_view kDocument =
      R"({"a":[1,-2.5e3,"x\u00e9\ud83d\ude42é",true,null,{"b":{}}],"c":"d"})";
  ASSERT_TRUE(parse(kDocument));
  for (std::size_t size = 0; size < kDocument.size(); ++size) {
    const std::string part(kDocument.substr(0, size));
    EXPECT_FALSE(parse(part)) << part;
  }
}

TEST(JsonSuite, DepthAndCountAreBoundedExactly) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse(nested(32), {.depth_max = 32}));
  EXPECT_FALSE(parse(nested(33), {.depth_max = 32}));
  EXPECT_FALSE(parse(std::string(1'000'000, '[')));
  EXPECT_FALSE(parse(std::string(1'000'000, '{')));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse(objects));
  EXPECT_TRUE(parse("[1,2,3]", {.values_max = 4}));  // the array counts too
  EXPECT_FALSE(parse("[1,2,3,4]", {.values_max = 4}));
}

TEST(JsonSuite, IntegersKeepEveryDigitAndLargerOnesBecomeDoubles) {
  EXPECT_EQ(parse("9007199254740993")->as_int(), 9007199254740993);
  EXPECT_EQ(parse("-9223372036854775809")->as_number(), -9223372036854775809.0);
  EXPECT_EQ(parse("18446744073709551615")->as_number(), 18446744073709551615.0);
  EXPECT_TRUE(parse("1.0")->is_double());
  EXPECT_TRUE(parse("1e0")->is_double());
  EXPECT_FALSE(parse(std::string(400, '9')));
}

}  // namespace
}  // namespace met::json
