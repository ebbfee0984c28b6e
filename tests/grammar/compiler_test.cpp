// The other notations, limits, and how a state follows its sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "core/json.h"
#include "tests/grammar/byte_vocabulary.h"

namespace met::grammar {
namespace {

using Compiled = Result<std::shared_ptr<const sampling::Constraint>>;

Compiled compile(Compiler& compiler, Kind kind, json::Value value, const Start& start = {}) {
  return compiler.compile({.kind = kind, .value = std::move(value), .field = "f"}, start);
}

struct Case {
  const char* text;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

TEST(GrammarCompiler, RegularExpressions) {
  const Case kCases[] = {
      {"[0-9]{3}", {"123"}, {"12", "1234"}},
      {"^a$|^b$", {"a", "b"}, {"ab"}},
      {"a.c", {"abc", "aéc"}, {"a\nc"}},
      {"(cat|dog) (runs|sleeps)", {"cat runs"}, {"cat  runs"}},
      {"\\[\\d+(,\\d+)*\\]", {"[1,22]"}, {"[]"}},
      {"[^a-c]+", {"xyz\n"}, {"xa", ""}},
      {"a{,2}b", {"b", "aab"}, {"aaab"}},
      {"a{2,}?b", {"aab", "aaaab"}, {"ab"}},
      {"(?P<x>a)(?:b)(?<y>c)?", {"ab", "abc"}, {"a"}},
      {"\\u00e9\\x41\\t", {"éA\t"}, {"e"}},
      {"[\\]\\-\\\\]+", {"]-\\"}, {"x"}},
      {"x{y}", {"x{y}"}, {"xy"}},
      {"a$b|c", {"c"}, {"ab", "a$b"}},
      {"", {""}, {"a"}},
      {"\\S\\s\\W", {"a -"}, {"a  a"}},
  };
  Compiler compiler(test::byte_vocabulary);
  for (const Case& c : kCases) {
    const Compiled compiled = compile(compiler, Kind::kRegex, c.text);
    ASSERT_TRUE(compiled) << c.text << ": " << compiled.error().message;
    for (const std::string& text : c.good)
      EXPECT_TRUE(test::accepts(**compiled, text)) << c.text << "  " << text;
    for (const std::string& text : c.bad)
      EXPECT_FALSE(test::accepts(**compiled, text)) << c.text << "  " << text;
  }
  for (const char* bad :
       {"(a",     "a)",  "*a",    "a**",         "a{3,1}",  "[a",          "[]",      "[z-a]",
        "\\",     "\\q", "\\!",   "a(?!b)",      "(?<=a)b", "(a)\\1",      "\\bword", "(?i)a",
        "\\p{L}", "a*+", "(?>a)", "[[:alpha:]]", "a$b",     "[\\d-x-\\w]("})
    EXPECT_FALSE(compile(compiler, Kind::kRegex, bad)) << bad;
}

TEST(GrammarCompiler, ChoicesAndEbnf) {
  Compiler compiler(test::byte_vocabulary);
  const Compiled choice = compile(compiler, Kind::kChoice, json::Array{"a", "ab", "größer \"x\"\n"});
  ASSERT_TRUE(choice) << choice.error().message;
  for (const char* good : {"a", "ab", "größer \"x\"\n"}) EXPECT_TRUE(test::accepts(**choice, good)) << good;
  for (const char* bad : {"", "abc", "b"}) EXPECT_FALSE(test::accepts(**choice, bad)) << bad;
  for (const char* control : {"a\nb", "\nFace", "x\tabc",
                              "\x7F"
                              "0",
                              "\x01"
                              "f0"}) {  // hexadecimal digits follow
    const Compiled lines = compile(compiler, Kind::kChoice, json::Array{control});
    ASSERT_TRUE(lines) << lines.error().message;
    EXPECT_TRUE(test::accepts(**lines, control)) << control;
  }
  EXPECT_FALSE(compile(compiler, Kind::kChoice, json::Array{}));
  EXPECT_FALSE(compile(compiler, Kind::kChoice, json::Array{1}));

  const Compiled ebnf = compile(compiler, Kind::kEbnf,
                                "root ::= num \" \" unit\nnum ::= [0-9] [0-9]?\nunit ::= \"kg\" | \"m\"");
  ASSERT_TRUE(ebnf) << ebnf.error().message;
  EXPECT_TRUE(test::accepts(**ebnf, "42 kg"));
  EXPECT_FALSE(test::accepts(**ebnf, "42 g"));
  for (const char* bad : {"root ::= (", "other ::= \"x\"", "root ::= missing", "", "root ::= \"a",
                          "root[temperature=5] ::= \"a\"", "root ::= b\nb[max_tokens=1] ::= [a-z]+",
                          "root ::= [a] b\nb [capture]\t::= \"c\""})
    EXPECT_FALSE(compile(compiler, Kind::kEbnf, bad)) << bad;
  for (const char* good :
       {"root ::= [a]\nb ::= \"c\"", "root ::= \"b[x] ::= \" [\\]a]", "# r[x] ::= y\nroot ::= \"a\""})
    EXPECT_TRUE(compile(compiler, Kind::kEbnf, good)) << good;
}

TEST(GrammarCompiler, StructuralTags) {
  Compiler compiler(test::byte_vocabulary);
  const auto tag = [](const char* format) {
    return json::parse(std::string(R"({"type":"structural_tag","format":)") + format + "}").value();
  };
  const Compiled calls =
      compile(compiler, Kind::kStructuralTag, tag(R"({"type":"triggered_tags","triggers":["<f="],"tags":[
      {"begin":"<f=a>","content":{"type":"json_schema","json_schema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}},"end":"</f>"}]})"));
  ASSERT_TRUE(calls) << calls.error().message;
  for (const char* good :
       {"", "plain text", R"(hello <f=a>{"x":1}</f> bye)", R"(<f=a>{"x":1}</f><f=a>{"x":2}</f>)"})
    EXPECT_TRUE(test::accepts(**calls, good)) << good;
  for (const char* bad : {"<f=b>", R"(<f=a>{"x":"y"}</f>)", R"(<f=a>{"x":1})"})
    EXPECT_FALSE(test::accepts(**calls, bad)) << bad;

  const Compiled forced = compile(
      compiler, Kind::kStructuralTag,
      tag(R"({"type":"tag","begin":"<t>","content":{"type":"regex","pattern":"[0-9]+"},"end":"</t>"})"));
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_TRUE(test::accepts(**forced, "<t>12</t>"));
  EXPECT_FALSE(test::accepts(**forced, "12"));

  const Compiled older = compile(
      compiler, Kind::kStructuralTag,
      json::parse(R"({"structures":[{"begin":"<a>","schema":{"const":1},"end":"</a>"}],"triggers":["<a>"]})")
          .value());
  ASSERT_TRUE(older) << older.error().message;
  EXPECT_TRUE(test::accepts(**older, "x<a>1</a>"));
  EXPECT_FALSE(test::accepts(**older, "x<a>2</a>"));

  const std::pair<const char*, const char*> kBad[] = {
      {R"({"type":"nope"})", "/format/type"},
      {R"({"type":"tag","begin":"<a>","content":{"type":"json_schema","json_schema":{"not":{}}},"end":"x"})",
       "/format/content/json_schema/not"},
      {R"_({"type":"sequence","elements":[{"type":"regex","pattern":"(?=a)"}]})_",
       "/format/elements/0/pattern"},
      {R"({"type":"tag","begin":"<a>"})", "content"},
  };
  for (const auto& [format, named] : kBad) {
    const Compiled bad = compile(compiler, Kind::kStructuralTag, tag(format));
    ASSERT_FALSE(bad) << format;
    EXPECT_THAT(bad.error().message, testing::HasSubstr(named));
  }
}

TEST(GrammarCompiler, ASpecialTokenIsTextOnlyWhereATagNamesIt) {
  Compiler compiler(test::byte_vocabulary);
  const Compiled free_text = compile(compiler, Kind::kRegex, "[^0-9]*");
  const auto plain = (*free_text)->begin();
  EXPECT_FALSE(test::has_bit(test::mask_of(*plain), test::kSpecial));
  EXPECT_TRUE(test::has_bit(test::mask_of(*plain), 'a'));
  EXPECT_FALSE(test::has_bit(test::mask_of(*plain), 280)) << "an id behind the vocabulary";

  const Compiled tag = compile(
      compiler, Kind::kStructuralTag,
      json::parse(
          R"({"format":{"type":"tag","begin":"<|x|>","content":{"type":"regex","pattern":"[0-9]"},"end":"!"}})")
          .value());
  ASSERT_TRUE(tag) << tag.error().message;
  const auto state = (*tag)->begin();
  EXPECT_TRUE(test::has_bit(test::mask_of(*state), test::kSpecial));
  ASSERT_TRUE(state->accept(test::kSpecial));
  EXPECT_TRUE(test::feed(*state, "7!"));
  EXPECT_TRUE(test::has_bit(test::mask_of(*state), test::kEnd));
}

/// `one` that many times, with its number for each #.
std::string listed(std::string out, int times, const std::string& one, const char* end) {
  for (int i = 0; i < times; ++i) {
    if (i > 0) out += ',';
    for (const char c : one) out += c == '#' ? std::to_string(i) : std::string(1, c);
  }
  return out + end;
}

TEST(GrammarCompiler, LargeSchemasOfUsualKindsCompile) {
  Compiler compiler(test::byte_vocabulary);
  const auto held = [&](const std::string& schema, const char* good, const char* bad) {
    const Compiled compiled = compile(compiler, Kind::kJsonSchema, json::parse(schema).value());
    ASSERT_TRUE(compiled) << schema.substr(0, 60) << ": " << compiled.error().message;
    EXPECT_TRUE(test::accepts(**compiled, good)) << good;
    EXPECT_FALSE(test::accepts(**compiled, bad)) << bad;
  };
  held(listed(R"({"type":"object","properties":{)", 400, R"("k#":{"type":"boolean"})", "}}"),
       R"({"k0": true, "k7": false, "k399": true})", R"({"k7": false, "k0": true})");
  held(listed(R"({"oneOf":[)", 200, R"({"type":"object","properties":{"t":{"const":#}},"required":["t"]})",
              "]}"),
       R"({"t": 199})", R"({"t": 200})");
  held(listed(R"({"enum":[)", 2000, "\"v#\"", "]}"), R"("v1999")", R"("v2000")");
}

TEST(GrammarCompiler, CostlyNotationsEndInTheirBudget) {
  Compiler compiler(test::byte_vocabulary);
  std::string deep = R"({"type":"integer"})";
  for (int i = 0; i < 50; ++i)
    deep = R"({"type":"object","properties":{"a":)" + deep + R"(},"required":["a"]})";
  std::string wide = R"({"type":"object","additionalProperties":false,"properties":{"k":{})";
  for (int i = 0; i < 3000; ++i) wide += ",\"k" + std::to_string(i) + "\":{\"type\":\"boolean\"}";
  wide += "}}";
  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{"e":{})";
  for (int i = 0; i < 3000; ++i)
    chain +=
        ",\"d" + std::to_string(i) + R"(":{"allOf":[{"$ref":"#/$defs/d)" + std::to_string(i + 1) + R"("}]})";
  chain += R"(,"d3000":{"type":"null"}}})";
  const std::string kSchemas[] = {
      R"({"type":"string","maxLength":1000000000})",
      R"({"type":"string","pattern":"^((a{0,1000}){0,1000}){0,1000}$"})",
      R"({"type":"array","items":{"type":"array","items":{},"maxItems":100000},"maxItems":100000})",
      R"({"type":"object","minProperties":100000})",
      R"({"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"anyOf":[{"minimum":1},{"minimum":2}]},{"anyOf":[{"minimum":3},{"minimum":4}]},{"anyOf":[{"maximum":1},{"maximum":2}]}]}}})",
      deep,
      wide,
      chain,
      listed(R"({"enum":[)", 10'000, "\"value number #\"", "]}"),
      listed(R"({"allOf":[)", 2000, R"({"properties":{"a#":{"type":"integer"}}})", "]}"),
      listed(R"({"patternProperties":{)", 2000, R"("^k#x":{"type":"boolean"})", "}}"),
      listed(R"({"additionalProperties":true,"properties":{)", 2000, R"("key#":{"type":"boolean"})", "}}"),
      listed(R"({"oneOf":[)", 1000, R"({"type":"object","required":["a#"]})", "]}")};
  for (const std::string& schema : kSchemas) {
    const auto parsed = json::parse(schema).value();
    const std::clock_t begin = std::clock();  // of the processor: others may run
    const auto compiled = compile(compiler, Kind::kJsonSchema, parsed);
    const double s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("%-60.60s %s %.3f s\n", schema.c_str(),
                compiled ? "compiled" : compiled.error().message.c_str(), s);
    EXPECT_LT(s, 10) << schema.substr(0, 80);  // of budgets of one second, under ThreadSanitizer
  }
  std::string nested;
  for (int i = 0; i < 50'000; ++i) nested += '(';
  EXPECT_FALSE(compile(compiler, Kind::kRegex, nested));
  EXPECT_FALSE(compile(compiler, Kind::kEbnf, "root ::= " + nested));
  EXPECT_FALSE(compile(compiler, Kind::kEbnf, "root ::= " + std::string(2U << 20, 'a')));
}

TEST(GrammarCompiler, TooManyValuesAreRefusedByPlaceAndBound) {
  for (const int count : {72'000, 80'000, 200'000}) {
    json::Array values;
    for (int i = 0; i < count; ++i) values.emplace_back(i);
    json::Object listed{{"enum", std::move(values)}};
    json::Object schema{{"type", "object"}};
    schema.append("properties", json::Object{{"a", std::move(listed)}});
    Limits limits;
    limits.spec_bytes = std::size_t{8} << 20U;
    Compiler compiler(test::byte_vocabulary, limits);
    const Compiled refused = compile(compiler, Kind::kJsonSchema, json::Value(std::move(schema)));
    ASSERT_FALSE(refused) << count;
    const std::string& said = refused.error().message;
    EXPECT_TRUE(said.contains("/properties/a") || said.contains("bytes") || said.contains(" ms ")) << said;
    std::printf("%d values: %s\n", count, said.c_str());
  }
}

TEST(GrammarState, EndIdsAreAllowedExactlyWhereTheTextMayEnd) {
  Compiler compiler(test::byte_vocabulary);
  const auto compiled =
      compiler.compile({.kind = Kind::kRegex, .value = "ab?", .field = "f"}, {}, {'!', 9999, -5});
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto state = (*compiled)->begin();
  EXPECT_FALSE(test::has_bit(test::mask_of(*state), test::kEnd));
  EXPECT_FALSE(test::has_bit(test::mask_of(*state), '!'));
  ASSERT_TRUE(test::feed(*state, "a"));
  EXPECT_TRUE(test::has_bit(test::mask_of(*state), test::kEnd));
  EXPECT_TRUE(test::has_bit(test::mask_of(*state), '!'));
  EXPECT_TRUE(test::has_bit(test::mask_of(*state), 'b'));
  ASSERT_TRUE(test::feed(*state, "b"));
  EXPECT_FALSE(test::has_bit(test::mask_of(*state), 'b'));
  ASSERT_TRUE(state->accept(test::kEnd));
  EXPECT_TRUE(test::has_bit(test::mask_of(*state), test::kEnd)) << "only the end repeats";
  EXPECT_FALSE(test::has_bit(test::mask_of(*state), 'a'));
  EXPECT_FALSE(state->accept('a'));
}

// A stop token that is text would leave the answer incomplete.
TEST(GrammarState, AStopTokenThatSpellsTextWaitsForTheEnd) {
  Compiler compiler(test::byte_vocabulary);
  const auto begin = [&](Kind kind, json::Value value, const Start& start = {}) {
    const auto compiled =
        compiler.compile({.kind = kind, .value = std::move(value), .field = "f"}, start, {'x', '{'});
    EXPECT_TRUE(compiled) << compiled.error().message;
    return (*compiled)->begin();
  };
  const auto plain = begin(Kind::kRegex, "a[bx]c");
  ASSERT_TRUE(test::feed(*plain, "a"));
  EXPECT_TRUE(test::has_bit(test::mask_of(*plain), 'b'));
  EXPECT_FALSE(test::has_bit(test::mask_of(*plain), 'x'));
  ASSERT_TRUE(test::feed(*plain, "bc"));
  EXPECT_TRUE(test::has_bit(test::mask_of(*plain), 'x'));
  const auto text = begin(Kind::kJsonSchema, json::parse(R"({"type":"string","maxLength":9})").value());
  ASSERT_TRUE(test::feed(*text, "\"a"));
  EXPECT_TRUE(test::has_bit(test::mask_of(*text), 'b'));
  EXPECT_FALSE(test::has_bit(test::mask_of(*text), 'x'));
  const auto thought =
      begin(Kind::kRegex, "[{<]a", {.when = Start::When::kAfterThought, .open = "<t>", .close = "</t>"});
  EXPECT_TRUE(test::has_bit(test::mask_of(*thought), '<'));
  EXPECT_FALSE(test::has_bit(test::mask_of(*thought), '{'));
  ASSERT_TRUE(test::feed(*thought, "<t>"));
  EXPECT_TRUE(test::has_bit(test::mask_of(*thought), 'a'));
  EXPECT_FALSE(test::has_bit(test::mask_of(*thought), 'x'));
}

TEST(GrammarState, RewindsOverEverything) {
  Compiler compiler(test::byte_vocabulary);
  const Start start{.when = Start::When::kAfterClose, .open = "<t>", .close = "</t>"};
  const Compiled compiled = compile(compiler, Kind::kRegex, "[0-9]{4}", start);
  const std::string text = "thinking <b> </t>1234";
  for (std::size_t keep = 0; keep <= text.size(); ++keep) {
    const auto state = (*compiled)->begin();
    ASSERT_TRUE(test::feed(*state, text));
    ASSERT_TRUE(state->accept(test::kEnd));
    state->rewind(static_cast<std::int64_t>(text.size() + 1 - keep));
    EXPECT_TRUE(test::feed(*state, text.substr(keep))) << keep;
    EXPECT_TRUE(test::has_bit(test::mask_of(*state), test::kEnd));
  }
}

TEST(GrammarState, BeginsBehindAThought) {
  Compiler compiler(test::byte_vocabulary);
  const auto when = [&](Start::When w) {
    return compile(compiler, Kind::kRegex, "[0-9]+", {.when = w, .open = "<think>", .close = "</think>"});
  };
  const Compiled inside = when(Start::When::kAfterClose);
  EXPECT_TRUE(test::accepts(**inside, "anything < </thin </think>42"));
  EXPECT_FALSE(test::accepts(**inside, "x</think>y"));
  EXPECT_FALSE(test::accepts(**inside, "x")) << "the answer must follow";
  const Compiled either = when(Start::When::kAfterThought);
  EXPECT_TRUE(test::accepts(**either, "42"));
  EXPECT_TRUE(test::accepts(**either, "<think>hm</think>42"));
  EXPECT_FALSE(test::accepts(**either, "<x>"));
  EXPECT_FALSE(test::accepts(**either, "<think>hm</think>x"));
  EXPECT_FALSE(test::accepts(**either, "<thi42"));
  EXPECT_FALSE(test::accepts(**either, "<think>hm"));
}

TEST(GrammarCompiler, EqualRequestsThatComeTogetherCompileOnce) {
  Compiler compiler(test::byte_vocabulary);
  std::vector<std::thread> threads;
  std::vector<int> good(8);
  for (std::size_t i = 0; i < good.size(); ++i)
    threads.emplace_back([&, i] {
      const Compiled compiled =
          compile(compiler, Kind::kJsonSchema, json::parse(R"({"type":"object"})").value());
      good[i] = compiled && test::accepts(**compiled, R"({"a":1})") ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, testing::Each(1));
}

TEST(GrammarCompiler, AMaskOverItsBoundIsToldFromOneThatIsEmpty) {
  Limits limits;
  limits.mask_bytes = 0;
  const auto constraint =
      Compiler(test::byte_vocabulary, limits)
          .compile({.kind = Kind::kJsonSchema, .value = *json::parse(R"({"type":"object"})"), .field = "f"});
  ASSERT_TRUE(constraint) << constraint.error().message;
  const auto state = (*constraint)->begin();
  EXPECT_FALSE(state->over_bound());
  const bool fed = test::feed(*state, R"({"a": [[[[[1, 2], 3]]]], "b": {"c": {"d": "e"}}})");
  EXPECT_FALSE(fed);
  EXPECT_TRUE(state->over_bound());

  const auto plain =
      Compiler(test::byte_vocabulary).compile({.kind = Kind::kRegex, .value = "a", .field = "f"});
  const auto other = (*plain)->begin();
  EXPECT_FALSE(other->accept('b'));
  EXPECT_FALSE(other->over_bound());
}

}  // namespace
}  // namespace met::grammar
