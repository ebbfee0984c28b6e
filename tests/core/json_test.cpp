#include "core/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace met::json {
namespace {

TEST(JsonParse, KeepsOrderAndKinds) {
  const auto v = parse(R"({"b":1,"a":[true,null,-2.5e3,"x\u00e9\ud83d\ude42"],"b":2})");
  ASSERT_TRUE(v) << v.error().message;
  EXPECT_EQ(write(*v), R"({"b":2,"a":[true,null,-2500,"xé🙂"]})");
}

TEST(JsonParse, IntegersAndDoublesKeepTheirValues) {
  EXPECT_EQ(parse("9223372036854775807")->as_int(), INT64_MAX);
  EXPECT_TRUE(parse("9223372036854775808")->is_double());
  EXPECT_EQ(parse("0.1")->as_number(), 0.1);
  EXPECT_EQ(parse("1e-400")->as_number(), 0.0);
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double d = std::bit_cast<double>(random());
    if (!std::isfinite(d)) continue;
    ASSERT_EQ(parse(write(Value(d)))->as_number(), d);
  }
}

TEST(JsonParse, RefusesWithoutCrashing) {
  for (const char* bad : {"", "{", "[1,]", "{\"a\":}", "nul", "1 2", "\"\x01\"", "\"\xff\"", "\"\\ud800\"",
                          "1e999", "01", "[1]]", "\xef\xbb\xbf{}", "{\"a\" 1}", "-", "'a'", "NaN"}) {
    const auto v = parse(bad);
    EXPECT_FALSE(v) << bad;
  }
  EXPECT_FALSE(parse(std::string(200000, '[')));
  EXPECT_FALSE(parse(std::string(129, '[') + std::string(129, ']')));
  EXPECT_TRUE(parse(std::string(127, '[') + std::string(127, ']')));
  EXPECT_FALSE(parse("[1,2,3]", {.depth_max = 8, .values_max = 3}));
}

TEST(JsonParse, ManyMembersStayQuickAndLastWins) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  text += "\"k5\":-5,\"k99999\":-1}";
  const auto v = parse(text);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->as_object().size(), 100000U);
  EXPECT_EQ(v->find("k5")->as_int(), -5);
  EXPECT_EQ(v->find("k99999")->as_int(), -1);
}

TEST(JsonParse, EqualKeysAreRefusedWhereAskedFor) {
  const ParseLimits unique{.unique_keys = true};
  EXPECT_TRUE(parse(R"({"a":{"b":1},"c":{"b":2}})", unique));
  EXPECT_NE(
      parse(R"({"a":1,"b":{"x":1,"x":2}})", unique).error().message.find("\"x\" stands in one object twice"),
      std::string::npos);
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_TRUE(parse(many + "\"last\":0}", unique));
  EXPECT_FALSE(parse(many + "\"k3\":0}", unique));
  EXPECT_FALSE(parse(many + "\"k77\":0}", unique));
}

TEST(JsonWrite, EscapesAsJsonAsks) {
  std::string out;
  write_string("a\"\\\n\x01\xff€", out);
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\u0001\xef\xbf\xbd€\"");
  EXPECT_EQ(write(Value(std::nan(""))), "null");
}

TEST(JsonWritePython, LooksLikeJsonDumps) {
  const auto v = parse(R"({"b":[1,2.0,1e16,1e-5,[],{}],"a":"é🙂"})");
  ASSERT_TRUE(v);
  EXPECT_EQ(write_python(*v), R"({"b": [1, 2.0, 1e+16, 1e-05, [], {}], "a": "é🙂"})");
  EXPECT_EQ(write_python(*v, {.ensure_ascii = true, .sort_keys = true}),
            R"({"a": "\u00e9\ud83d\ude42", "b": [1, 2.0, 1e+16, 1e-05, [], {}]})");
  EXPECT_EQ(write_python(*parse("{\"a\":[1,{\"b\":2}]}"), {.indent = 2}),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ]\n}");
}

}  // namespace
}  // namespace met::json
