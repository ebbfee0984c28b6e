// JSON Schema, word by word: texts that a grammar must offer and texts that it must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/json.h"
#include "tests/grammar/byte_vocabulary.h"

namespace met::grammar {
namespace {

Result<std::shared_ptr<const sampling::Constraint>> compile(Compiler& compiler, const std::string& schema) {
  return compiler.compile(
      {.kind = Kind::kJsonSchema, .value = json::parse(schema).value(), .field = "response_format"});
}

struct Case {
  const char* schema;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

const Case kCases[] = {
    // strings
    {R"({"type":"string","minLength":2,"maxLength":3})",
     {R"("ab")", R"("é🙂x")", R"("a\n")", R"("\u00e9\ud83d\ude42")"},
     {R"("a")", R"("abcd")", "\"a\tb\"", "\"a\nb\"", R"("\ud83d\ude4")", R"("\ude42ab")"}},
    {R"({"pattern":"^[^0-9]{2}$"})",
     {R"("ab")", R"("\"\\")", R"("a\n")"},
     {R"("a1")", R"("a"")", R"("a\q")"}},
    {R"({"type":"string","pattern":"^x"})", {R"("x")", R"("xyz")"}, {R"("yx")", R"("")"}},
    {R"({"type":"string","pattern":"x$"})", {R"("x")", R"("yx")"}, {R"("xy")"}},
    {R"({"type":"string","pattern":"^a|b$"})", {R"("az")", R"("zb")"}, {R"("zaz")"}},
    {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":4})",
     {R"("ab")", R"("abcd")"},
     {R"("a")", R"("abcde")"}},
    {R"({"type":"string","pattern":"^ab[0-9]*$","maxLength":4})", {R"("ab")", R"("ab12")"}, {R"("ab123")"}},
    {R"({"type":"string","pattern":"^\\w{3}-\\d{2}$","maxLength":10})", {R"("abc-12")"}, {R"("ab-12")"}},
    {R"({"type":"string","format":"date"})",
     {R"("2024-02-29")", R"("2023-12-31")", R"("2000-02-29")"},
     {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("0000-01-01")", R"("2023-13-01")"}},
    {R"({"type":"string","format":"date-time"})",
     {R"("2024-01-02T03:04:05Z")", R"("2024-01-02T03:04:05.5+01:00")"},
     {R"("2024-01-02T25:04:05Z")"}},
    {R"({"type":"string","format":"ipv4"})",
     {R"("127.0.0.1")", R"("255.255.255.255")"},
     {R"("256.1.1.1")", R"("01.1.1.1")", R"("1.1.1")"}},
    {R"({"type":"string","format":"ipv6"})",
     {R"("::1")", R"("2001:db8::ff")", R"("1:2:3:4:5:6:7:8")", R"("1::")", R"("::")"},
     {R"("1:2:3:4:5:6:7:8:9")", R"("1::2::3")", R"(":1")"}},
    {R"({"type":"string","format":"uuid"})",
     {R"("123e4567-e89b-12d3-a456-426614174000")"},
     {R"("123e4567")"}},
    {R"({"type":"string","format":"int32"})", {R"("anything")"}, {"1"}},
    // numbers
    {R"({"type":"integer","minimum":-12,"maximum":105})",
     {"-12", "-9", "-1", "0", "9", "10", "99", "100", "105"},
     {"-13", "-100", "106", "200", "-0", "05", "1.0"}},
    {R"({"type":"integer","exclusiveMinimum":9,"maximum":1234})",
     {"10", "999", "1000", "1234"},
     {"9", "1235", "0", "-10"}},
    {R"({"type":"integer","minimum":7})", {"7", "10", "123456"}, {"6", "0", "-7"}},
    {R"({"type":"integer","maximum":-3})", {"-3", "-10"}, {"-2", "3", "0"}},
    {R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4"}},
    {R"({"type":"number","minimum":0.5,"exclusiveMaximum":2})",
     {"0.5", "0.50", "1", "1.999", "0.75"},
     {"0.4", "0.49", "2", "2.0", "0", "-1"}},
    {R"({"type":"number","minimum":-1.25,"maximum":0})",
     {"-1.25", "-1", "-0.5", "0", "0.0"},
     {"-1.26", "0.1", "-2", "-0"}},
    {R"({"type":"number","exclusiveMinimum":0})", {"0.1", "5", "12.5"}, {"0", "0.0", "-1"}},
    {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "700"}, {"8", "1", "-13", "07"}},
    {R"({"type":"integer","multipleOf":5,"minimum":3,"maximum":22})", {"5", "20"}, {"0", "25", "7"}},
    {R"({"type":"number","multipleOf":3,"minimum":0})", {"0", "9"}, {"-3", "4"}},
    // arrays
    {R"({"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":3})",
     {"[true,false]", "[true, true ,true]"},
     {"[true]", "[]", "[true,true,true,true]", "[true,]"}},
    {R"({"prefixItems":[{"const":1},{"const":2}],"items":false})",
     {"[]", "[1]", "[1,2]"},
     {"[1,2,3]", "[2]"}},
    {R"({"prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":1,"maxItems":3})",
     {"[1]", "[1,2,3]"},
     {"[]", "[1,2,3,3]", "[1,3]"}},
    {R"({"type":"array","items":[{"const":1}],"additionalItems":{"const":2}})", {"[1,2,2]"}, {"[2]"}},
    {R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
    {R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
    {R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[]", "[1]"}, {"[1,1]"}},
    // objects
    {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]})",
     {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({ "a" : 1 , "b" : 2 , "c" : 3 })"},
     {"{}", R"({"a":1})", R"({"b":2,})", R"({,"b":2})", R"({"b":2,"x":1})", R"({"b":2,"b":2})"}},
    {R"({"properties":{"ab":{"const":1}},"additionalProperties":{"const":2}})",
     {R"({"ab":1})", R"({"a":2})", R"({"abc":2,"x":2})", R"({"ab":1,"":2})"},
     {R"({"ab":2})", R"({"ab":1,"ab":2})", R"({"x":1})"}},
    {R"({"type":"object","patternProperties":{"^s_":{"type":"string"},"^i_":{"type":"integer"}},"additionalProperties":false})",
     {R"({"s_a":"x","i_b":2})", "{}"},
     {R"({"s_a":1})", R"({"x":1})"}},
    {R"({"type":"object","propertyNames":{"pattern":"^[a-z]{2}$"},"additionalProperties":{"const":1}})",
     {R"({"ab":1})"},
     {R"({"abc":1})", R"({"ab":2})"}},
    {R"({"type":"object","propertyNames":{"enum":["a","b"]},"maxProperties":1})",
     {R"({"a":1})", "{}"},
     {R"({"c":1})", R"({"a":1,"b":1})"}},
    {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2,"additionalProperties":false})",
     {R"({"a":1,"b":2})", R"({"a":1,"c":2})", R"({"b":1,"c":2})"},
     {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
    {R"({"type":"object","additionalProperties":{"const":1},"minProperties":1,"maxProperties":2})",
     {R"({"x":1})", R"({"x":1,"y":1})"},
     {"{}", R"({"x":1,"y":1,"z":1})"}},
    // Free keys may repeat, and equal ones are one member: they give one of the least.
    {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":{"const":3},"minProperties":2})",
     {R"({"a":1,"b":2})", R"({"a":1,"x":3})", R"({"b":2,"x":3,"y":3})", R"({"a":1,"b":2,"x":3})"},
     {"{}", R"({"a":1})", R"({"x":3})", R"({"x":3,"x":3})"}},
    {R"({"type":"object","required":["a"],"properties":{"a":{"const":1}},"additionalProperties":{"const":3},"minProperties":2})",
     {R"({"a":1,"x":3})", R"({"a":1,"x":3,"y":3})"},
     {R"({"a":1})", R"({"x":3,"y":3})"}},
    {R"({"type":"object","required":["v"],"additionalProperties":{"const":1}})",
     {R"({"v":1})", R"({"v":1,"w":1})"},
     {"{}", R"({"w":1})"}},
    {R"({"type":"object","properties":{"a":false,"b":{"const":1}}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
    {R"({"type":"object","properties":{"a\"b":{"const":1}},"required":["a\"b"]})",
     {R"({"a\"b":1})"},
     {R"({"a"b":1})"}},
    {R"({"type":"object","unevaluatedProperties":false,"properties":{"a":{}}})",
     {R"({"a":1})"},
     {R"({"b":1})"}},
    // values
    {R"({"type":"string","enum":["a",1,null]})", {R"("a")"}, {"1", "null"}},
    {R"({"enum":[1,5,9],"minimum":4})", {"5", "9"}, {"1"}},
    {R"({"enum":["ab","abc"],"maxLength":2})", {R"("ab")"}, {R"("abc")"}},
    {R"({"const":{"a":[1,{"b":null}]}})", {R"({"a":[1,{"b":null}]})"}, {"{}"}},
    // combinations
    {R"({"allOf":[{"type":"integer","minimum":3},{"maximum":5}]})", {"3", "5"}, {"2", "6"}},
    {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"const":1},"a":{"minimum":5}},"required":["b"]}]})",
     {R"({"a":7,"b":1})"},
     {R"({"a":4,"b":1})", R"({"a":7})", R"({"b":1})"}},
    {R"({"allOf":[{"type":"object","properties":{"a":{"const":1}},"additionalProperties":false},{"properties":{"b":{}}}]})",
     {R"({"a":1})", "{}"},
     {R"({"b":1})"}},
    {R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]},{"maximum":2}]})", {"2"}, {"1", "3"}},
    {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false,"anyOf":[{"required":["a"]},{"required":["b"]}]})",
     {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
     {"{}"}},
    {R"({"anyOf":[{"type":"string","maxLength":1},{"type":"null"}]})", {R"("a")", "null"}, {R"("ab")", "1"}},
    {R"({"oneOf":[{"type":"integer","maximum":3},{"type":"integer","minimum":4},{"type":"string"}]})",
     {"3", "4", R"("x")"},
     {"null"}},
    {R"({"oneOf":[{"properties":{"t":{"const":"a"}},"required":["t"],"type":"object"},{"properties":{"t":{"const":"b"},"x":{"const":1}},"required":["t"],"type":"object"}]})",
     {R"({"t":"a"})", R"({"t":"b","x":1})"},
     {R"({"t":"c"})", R"({"t":"a","x":1})"}},
    {R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{}},"required":["b"],"additionalProperties":false}]})",
     {R"({"a":1})", R"({"b":1})"},
     {"{}", R"({"a":1,"b":1})"}},
    {R"({"type":["integer","null"]})", {"1", "null"}, {R"("1")"}},
    // references
    {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b~1c"},"b/c":{"const":1}}})", {"1"}, {"2"}},
    {R"({"$ref":"#/$defs/a","maximum":5,"$defs":{"a":{"type":"integer","minimum":4}}})",
     {"4", "5"},
     {"3", "6"}},
    {R"({"$ref":"#here","$defs":{"a":{"$anchor":"here","const":1}}})", {"1"}, {"2"}},
    {R"({"$id":"http://x/y","$ref":"http://x/y#/$defs/a","$defs":{"a":{"const":1}}})", {"1"}, {"2"}},
    {R"({"type":"object","properties":{"v":{"const":1},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"],"additionalProperties":false})",
     {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":1,"next":null}})"},
     {R"({"v":1})", R"({"v":1,"next":1})"}},
    {R"({"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false})",
     {"{}", R"({"a":{"a":{}}})"},
     {R"({"a":1})"}},
    // blanks
    {R"({"type":"object","properties":{"a":{"const":1}},"required":["a"]})",
     {"{\n  \"a\": 1\n}", R"({"a":1})"},
     {R"( {"a":1})", R"({"a":1} )", "{" + std::string(17, ' ') + R"("a":1})"}},
    {"true", {"1", "[{}]", R"({"a":[]})"}, {"", "tru", " 1"}},
};

TEST(GrammarSchema, OffersWhatHoldsAndNothingElse) {
  Compiler compiler(test::byte_vocabulary);
  for (const Case& c : kCases) {
    const auto compiled = compile(compiler, c.schema);
    ASSERT_TRUE(compiled) << c.schema << ": " << compiled.error().message;
    for (const std::string& text : c.good)
      EXPECT_TRUE(test::accepts(**compiled, text)) << c.schema << "  " << text;
    for (const std::string& text : c.bad)
      EXPECT_FALSE(test::accepts(**compiled, text)) << c.schema << "  " << text;
  }
}

/// Schema, and what the error must name.
const std::pair<const char*, const char*> kRefused[] = {
    {R"({"not":{"type":"string"}})", "/not"},
    {R"({"if":{},"then":{}})", "/if"},
    {R"({"properties":{"a":{"contains":{}}}})", "/properties/a/contains"},
    {R"({"items":{"uniqueItems":true}})", "/items/uniqueItems"},
    {R"({"dependentRequired":{"a":["b"]}})", "/dependentRequired"},
    {R"({"dependentSchemas":{}})", "/dependentSchemas"},
    {R"({"unevaluatedItems":false})", "/unevaluatedItems"},
    {R"({"unevaluatedProperties":false,"anyOf":[{}]})", "/unevaluatedProperties"},
    {R"({"$dynamicRef":"#a"})", "/$dynamicRef"},
    {R"({"$ref":"http://127.0.0.1/x"})", "/$ref"},
    {R"({"$ref":"#/$defs/none"})", "/$ref"},
    {R"({"$ref":"#"})", "without end"},
    {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "without end"},
    {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})", "without end"},
    {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "no text can match"},
    {R"({"type":"integer","minimum":5,"maximum":1})", "no text can match"},
    {R"({"allOf":[{"type":"string"},{"type":"integer"}]})", "no text can match"},
    {R"({"type":"object","required":["a"],"properties":{},"additionalProperties":false})",
     "no text can match"},
    {"false", "no text can match"},
    {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "branches 0 and 1"},
    {R"({"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]})", "branches 0 and 1"},
    {R"({"oneOf":[{"enum":[1,2]},{"type":"integer","minimum":2}]})", "branches 0 and 1"},
    {R"({"allOf":[{"pattern":"^a"},{"pattern":"b$"}]})", "pattern"},
    {R"({"pattern":"^(a|bb)*$","maxLength":3,"type":"string"})", "/pattern"},
    {R"({"pattern":"(?=a)b"})", "lookahead"},
    {R"({"pattern":"^hello\\!$"})", "/pattern"},
    {R"({"pattern":"a("})", "/pattern"},
    {R"({"patternProperties":{"a":{"type":"string"},"b":{"type":"null"}}})", "/patternProperties"},
    {R"({"type":"number","multipleOf":0.1})", "/multipleOf"},
    {R"({"type":"integer","multipleOf":7,"minimum":3})", "/multipleOf"},
    {R"({"format":"idn-email"})", "/format"},
    {R"({"type":"objekt"})", "/type"},
    {R"({"type":[]})", "/type"},
    {R"({"enum":[]})", "/enum"},
    {R"({"properties":[]})", "/properties"},
    {R"({"properties":{"a/b":5}})", "/properties/a~1b"},
    {R"({"required":"a"})", "/required"},
    {R"({"minItems":-1})", "/minItems"},
    {R"({"minLength":1.5})", "/minLength"},
    {R"({"anyOf":[]})", "/anyOf"},
    {R"({"type":"object","minProperties":2})", "/minProperties"},
    {R"({"type":"object","properties":{"a":{}},"additionalProperties":{},"minProperties":3})",
     "/minProperties"},
    {R"({"properties":{"x":{"patternProperties":{"^k":{}},"minProperties":2}}})",
     "/properties/x/minProperties"},
    {"3", "object or a boolean"},
};

TEST(GrammarSchema, RefusesByPlaceWhatIsNotEnforced) {
  Compiler compiler(test::byte_vocabulary);
  for (const auto& [schema, named] : kRefused) {
    const auto compiled = compile(compiler, schema);
    ASSERT_FALSE(compiled) << schema;
    EXPECT_THAT(compiled.error().message, testing::HasSubstr(named)) << schema;
    EXPECT_EQ(compiled.error().field, "response_format");
    EXPECT_TRUE(compiled.error().code == ErrorCode::kInvalidArgument ||
                compiled.error().code == ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace met::grammar
