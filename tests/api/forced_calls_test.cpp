// Texts under the grammar of a forced choice: what it accepts is what the format's own parser reads as those calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "api/tool_grammar.h"
#include "tests/grammar/byte_vocabulary.h"
#include "text/machine/answer_parser.h"
#include "text/tokenizer/stream_decoder.h"

namespace met::api {
namespace {

using grammar::test::accepts;
using text::ToolFormat;
using Compiled = Result<std::shared_ptr<const sampling::Constraint>>;

Compiled compile(const CallSpelling& spelling, const std::vector<text::Tool>& tools,
                 const ToolChoice& choice) {
  grammar::Compiler compiler(grammar::test::byte_vocabulary);
  const auto tag = forced_calls(spelling, tools, choice);
  if (!tag) return unsupported("tools", "no grammar");
  return compiler.compile({.kind = grammar::Kind::kStructuralTag, .value = *tag, .field = "tools"});
}

std::vector<text::Tool> one_tool(const std::string& schema) {
  return {{.name = "f", .parameters = json::parse(schema).value()}};
}

/// "f{"a": 1} g{}", as the format's parser reads the text.
std::string calls_in(ToolFormat format, const std::vector<text::Tool>& tools, const std::string& text) {
  text::AnswerFormat answer{.tool_format = format, .tools = std::make_shared<text::ToolSet>(tools)};
  if (format == ToolFormat::kHarmony) {
    answer.reasoning = text::ReasoningFormat::kHarmony;
    answer.harmony_header = "<|start|>assistant";
  }
  text::AnswerParser parser(answer);
  parser.text(text);
  parser.finish(/*cut=*/false);
  std::string out;
  for (const text::Piece& piece : parser.take()) {
    if (piece.kind == text::Piece::Kind::kCallBegin) out += (out.empty() ? "" : " ") + piece.text;
    if (piece.kind == text::Piece::Kind::kCallArguments) out += piece.text;
    if (piece.kind == text::Piece::Kind::kCallEnd && !piece.complete) out += "(cut)";
  }
  return out;
}

struct FormatCase {
  CallSpelling spelling;
  std::string first;   ///< f with a = 1
  std::string second;  ///< g without arguments, behind it
  std::string last;
};

const FormatCase kFormats[] = {
    {{.format = ToolFormat::kHermes},
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
     "\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
     ""},
    {{.format = ToolFormat::kQwen3Coder},
     "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
     "\n<tool_call>\n<function=g>\n\n</function>\n</tool_call>",
     ""},
    {{.format = ToolFormat::kMinimaxXml},
     "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter "
     "name=\"a\">1</parameter>\n</invoke>\n</minimax:tool_call>",
     "\n<minimax:tool_call>\n<invoke name=\"g\">\n\n</invoke>\n</minimax:tool_call>",
     ""},
    {{.format = ToolFormat::kGlm47},
     "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
     "\n<tool_call>g\n\n</tool_call>",
     ""},
    {{.format = ToolFormat::kMistral}, "[TOOL_CALLS]f[ARGS]{\"a\": 1}", "[TOOL_CALLS]g[ARGS]{}", ""},
    {{.format = ToolFormat::kMistral, .mistral_arguments = false},
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
     ", {\"name\": \"g\", \"arguments\": {}}",
     "]"},
    {{.format = ToolFormat::kDeepseek},
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>",
     "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
     "<｜tool▁calls▁end｜>"},
    {{.format = ToolFormat::kDeepseek, .deepseek_tags = true},
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"false\">1"
     "</｜DSML｜parameter>\n</｜DSML｜invoke>",
     "\n<｜DSML｜invoke name=\"g\">\n\n</｜DSML｜invoke>",
     "\n</｜DSML｜function_calls>"},
    {{.format = ToolFormat::kLlama3Json},
     "{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
     "; {\"name\": \"g\", \"parameters\": {}}",
     ""},
    {{.format = ToolFormat::kHarmony},
     "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}",
     "<|end|><|start|>assistant<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}",
     ""},
    {{.format = ToolFormat::kGemma4},
     "<|tool_call>call:f{a:1}<tool_call|>",
     "<|tool_call>call:g{}<tool_call|>",
     ""},
    {{.format = ToolFormat::kPythonic}, "[f(a=1)", ", g()", "]"},
    {{.format = ToolFormat::kPythonic, .python_markers = {"<|tool_call_start|>", "<|tool_call_end|>"}},
     "<|tool_call_start|>[f(a=1)",
     ", g()",
     "]<|tool_call_end|>"},
};

// Where a tool stands among the formats that calls are held by is nothing a client knows.
TEST(ForcedCalls, ARefusedSchemaIsCalledByItsTool) {
  const std::vector<text::Tool> tools = {
      {.name = "f"},
      {.name = "bad",
       .parameters =
           *json::parse(R"({"type":"object","properties":{"x":{"type":"array","uniqueItems":true}}})")}};
  for (const FormatCase& c : kFormats) {
    const Compiled refused = compile(c.spelling, tools, {.mode = ToolChoice::Mode::kRequired});
    ASSERT_FALSE(refused) << text::name(c.spelling.format);
    EXPECT_TRUE(refused.error().message.starts_with(
        "tools: the parameters of \"bad\", at /properties/x/uniqueItems: "))
        << text::name(c.spelling.format);
  }
}

TEST(ForcedCalls, OneOrSeveralInEveryFormat) {
  using Mode = ToolChoice::Mode;
  const std::vector<text::Tool> tools = {
      {.name = "f",
       .parameters =
           *json::parse(R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})")},
      {.name = "g"}};
  for (const FormatCase& c : kFormats) {
    const ToolFormat format = c.spelling.format;
    const std::string one = c.first + c.last;
    const std::string two = c.first + c.second + c.last;
    const Compiled several = compile(c.spelling, tools, {.mode = Mode::kRequired, .parallel = true});
    ASSERT_TRUE(several) << text::name(format) << ": " << several.error().message;
    EXPECT_TRUE(accepts(**several, one)) << one;
    EXPECT_TRUE(accepts(**several, two)) << two;
    EXPECT_TRUE(accepts(**several, c.first + c.second + c.second + c.last)) << two;
    EXPECT_FALSE(accepts(**several, "")) << text::name(format);
    EXPECT_EQ(calls_in(format, tools, one), "f{\"a\": 1}") << one;
    EXPECT_EQ(calls_in(format, tools, two), "f{\"a\": 1} g{}") << two;

    for (const std::optional<bool> parallel : {std::optional<bool>(), std::optional(false)}) {
      const Compiled single = compile(c.spelling, tools, {.mode = Mode::kRequired, .parallel = parallel});
      ASSERT_TRUE(single);
      EXPECT_TRUE(accepts(**single, one)) << one;
      EXPECT_FALSE(accepts(**single, two)) << two;
    }

    const Compiled named =
        compile(c.spelling, tools, {.mode = Mode::kRequired, .only = {"f"}, .named = true});
    ASSERT_TRUE(named);
    EXPECT_TRUE(accepts(**named, one)) << one;
    EXPECT_FALSE(accepts(**named, two)) << two;
  }
}

// Formats whose calls can only begin the content: a strict tool's are held there, other text is free.
TEST(ForcedCalls, StrictCallsWithoutAMarkerBeginTheContent) {
  grammar::Compiler compiler(grammar::test::byte_vocabulary);
  const std::vector<text::Tool> tools = one_tool(R"({"properties":{"a":{"type":"integer"}}})");
  for (const auto& [format, good, bad] :
       {std::tuple{ToolFormat::kPythonic, "[f(a=1)]", "[f(a='x')]"},
        std::tuple{ToolFormat::kLlama3Json, R"({"name": "f", "parameters": {"a": 1}})",
                   R"({"name": "f", "parameters": {"a": "x"}})"}}) {
    const auto tag = free_calls({.format = format}, tools, {});
    ASSERT_TRUE(tag);
    const Compiled held =
        compiler.compile({.kind = grammar::Kind::kStructuralTag, .value = *tag, .field = "tools"});
    ASSERT_TRUE(held) << held.error().message;
    for (const char* text : {"", "Hello [f(a='x')] {", good}) EXPECT_TRUE(accepts(**held, text)) << text;
    EXPECT_FALSE(accepts(**held, bad)) << bad;
    EXPECT_FALSE(accepts(**held, std::string(" ") + bad)) << bad;
  }
}

struct Written {
  const char* text;  ///< behind "f"
  const char* json;  ///< what is read; empty: the grammar refuses it
};
struct ValueCase {
  const char* schema;
  std::vector<Written> gemma4;
  std::vector<Written> python;
};

const ValueCase kValues[] = {
    {R"({"type":"object","properties":{"s":{"type":"string"}},"required":["s"]})",
     {{R"({s:<|"|>a "b" \ {}, <|x|> <|"| < <|"|>})", R"({"s": "a \"b\" \\ {}, <|x|> <|\"| < "})"},
      {R"({s:<|"|><<|"|>})", R"({"s": "<"})"},
      {R"({s:<|"|><|"|<|"|>})", R"({"s": "<|\"|"})"},
      {R"({<|"|>s<|"|>:<|"|>x<|"|>})", ""},
      {R"({s:x})", ""},
      {R"({s:"x"})", ""},
      {R"({})", ""},
      {R"({s:<|"|>a<|"|>b<|"|>})", ""}},
     {{R"((s="it's \"x\" \\ \n\u00e9"))", R"({"s": "it's \"x\" \\ \né"})"},
      {R"((s='a "b" \''))", R"({"s": "a \"b\" '"})"},
      {R"((s='a'b'))", ""},
      {R"((s="\ud800"))", ""},
      {R"((s=x))", ""},
      {R"(())", ""}}},
    {R"({"type":"object","properties":{"n":{"type":"integer","minimum":3,"maximum":12},"b":{"type":"boolean"},"z":{"type":["null","number"]}}})",
     {{"{n:12,b:true,z:null}", R"({"n": 12, "b": true, "z": null})"},
      {"{z:-1.5}", R"({"z": -1.5})"},
      {"{}", "{}"},
      {"{n:13}", ""},
      {"{b:True}", ""},
      {"{c:1}", ""}},
     {{"(n=12, b=True, z=None)", R"({"n": 12, "b": true, "z": null})"},
      {"(n=3,b=False)", R"({"n": 3, "b": false})"},
      {"()", "{}"},
      {"(n=2)", ""},
      {"(b=true)", ""},
      {"(n=3,)", ""}}},
    {R"({"type":"object","properties":{"o":{"type":"object","properties":{"a-b":{"type":"integer"},"c d":{"enum":["x",2,[1,{"k":null}]]}},"required":["a-b"]},
      "l":{"type":"array","items":{"type":"string","maxLength":2},"minItems":1,"maxItems":2}},"required":["o"]})",
     {{R"({o:{a-b:1,<|"|>c d<|"|>:<|"|>x<|"|>},l:[<|"|>ab<|"|>,<|"|><|"|>]})",
       R"({"o": {"a-b": 1, "c d": "x"}, "l": ["ab", ""]})"},
      {R"({o:{a-b:1,<|"|>c d<|"|>:[1,{k:null}]}})", R"({"o": {"a-b": 1, "c d": [1, {"k": null}]}})"},
      {R"({o:{a-b:1},l:[<|"|>abc<|"|>]})", ""},
      {R"({o:{a-b:1},l:[]})", ""},
      {R"({o:{a-b:1,<|"|>c d<|"|>:3}})", ""}},
     {{R"((o={"a-b": 1, 'c d': 'x'}, l=["ab", '']))", R"({"o": {"a-b": 1, "c d": "x"}, "l": ["ab", ""]})"},
      {R"((o={"a-b": 1, "c d": [1, {"k": None}]}))", R"({"o": {"a-b": 1, "c d": [1, {"k": null}]}})"},
      {R"((o={"a-b": 1}, l=["abc"]))", ""},
      {R"((o={}))", ""}}},
    {R"({"type":"object","properties":{"p":{"type":"string","pattern":"^[^x]{2}<$"}},"additionalProperties":{"type":"object"}})",
     {{R"({p:<|"|>a"<<|"|>,q:{r:{},<|"|>s t<|"|>:[1,true,null,<|"|>u<|"|>]}})",
       R"({"p": "a\"<", "q": {"r": {}, "s t": [1, true, null, "u"]}})"},
      {R"({p:<|"|>xx<<|"|>})", ""},
      {R"({q:1})", ""},
      {R"({:{}})", ""}},
     {{R"((p="a\"<", q={"r": {}, 's t': [1, True, None, 'u']}))",
       R"({"p": "a\"<", "q": {"r": {}, "s t": [1, true, null, "u"]}})"},
      {R"((q=1))", ""},
      {R"((p={}))", ""}}},
    {R"({"anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"$ref":"#/$defs/t"}},"required":["b"]}],"$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}}})",
     {{"{a:1}", R"({"a": 1})"}, {"{b:[[],[[]]]}", R"({"b": [[], [[]]]})"}, {"{}", ""}, {"1", ""}},
     {{"(a=1)", R"({"a": 1})"}, {"(b=[[], [[]]])", R"({"b": [[], [[]]]})"}, {"()", ""}}},
};

TEST(ForcedCalls, ArgumentsInTheModelsOwnNotationFitTheSchema) {
  for (const ValueCase& c : kValues) {
    const std::vector<text::Tool> tools = one_tool(c.schema);
    for (const bool gemma4 : {true, false}) {
      const ToolFormat format = gemma4 ? ToolFormat::kGemma4 : ToolFormat::kPythonic;
      const Compiled compiled = compile({.format = format}, tools, {});
      ASSERT_TRUE(compiled) << c.schema << ": " << compiled.error().message;
      for (const Written& w : gemma4 ? c.gemma4 : c.python) {
        const std::string text = gemma4 ? std::string("<|tool_call>call:f") + w.text + "<tool_call|>"
                                        : std::string("[f") + w.text + "]";
        const bool good = w.json[0] != '\0';
        EXPECT_EQ(accepts(**compiled, text), good) << c.schema << "  " << text;
        if (!good) continue;
        const auto read = json::parse(calls_in(format, tools, text).substr(1));
        ASSERT_TRUE(read) << text << "  " << calls_in(format, tools, text);
        EXPECT_EQ(*read, *json::parse(w.json)) << text;
      }
    }
  }
}

/// Formats that write each parameter as a tag.
struct TagFormat {
  CallSpelling spelling;
  std::string before;  ///< of a call's parameters
  std::string after;
  std::string open;      ///< up to the name
  std::string name_end;  ///< up to the value; {} is whether the value is a text
  std::string close;
  std::string edge;  ///< of a value, which is no part of it
  std::string next;  ///< what a parser takes for the next parameter inside of a value; empty: nothing
};

const TagFormat kTagFormats[] = {
    {{.format = ToolFormat::kQwen3Coder},
     "<tool_call>\n<function=f>\n",
     "\n</function>\n</tool_call>",
     "<parameter=",
     ">",
     "</parameter>",
     "\n",
     "<parameter="},
    {{.format = ToolFormat::kMinimaxXml},
     "<minimax:tool_call>\n<invoke name=\"f\">\n",
     "\n</invoke>\n</minimax:tool_call>",
     "<parameter name=\"",
     "\">",
     "</parameter>",
     "",
     "<parameter "},
    {{.format = ToolFormat::kGlm47},
     "<tool_call>f\n",
     "\n</tool_call>",
     "<arg_key>",
     "</arg_key>\n<arg_value>",
     "</arg_value>",
     "",
     ""},
    {{.format = ToolFormat::kDeepseek, .deepseek_tags = true},
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n",
     "\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "<｜DSML｜parameter name=\"",
     "\" string=\"{}\">",
     "</｜DSML｜parameter>",
     "",
     "<｜DSML｜parameter "},
};

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// With the format's own markers where {close}, {next} and, as inside of JSON, {escaped_close}, {escaped_next} stand.
std::string with_markers(const TagFormat& f, std::string text) {
  for (const auto& [name, marker] : {std::pair{"close}", &f.close}, std::pair{"next}", &f.next}}) {
    text = replaced(std::move(text), std::string("{") + name, *marker);
    text = replaced(std::move(text), std::string("{escaped_") + name, replaced(*marker, "<", R"(\u003c)"));
  }
  return text;
}

/// The value in its tag.
std::string tagged(const TagFormat& f, const std::string& name, const std::string& value, bool is_text) {
  return f.open + name + replaced(f.name_end, "{}", is_text ? "true" : "false") + f.edge +
         with_markers(f, value) + f.edge + f.close;
}

struct TagValue {
  const char* text;
  const char* json;  ///< what is read, as one value; empty: the grammar refuses it
  bool is_text = true;
};
struct TagCase {
  const char* schema;  ///< of the parameter `s`
  std::vector<TagValue> values;
};

const TagCase kTagCases[] = {
    {R"({"type":"string"})",
     {{"", R"("")"},
      {"a <b> </c> </function> <tool_call> </arg_key>", R"("a <b> </c> </function> <tool_call> </arg_key>")"},
      {"< << </ <p </para <parameter", R"("< << </ <p </para <parameter")"},
      {" \n x \n\n y ", R"(" \n x \n\n y ")"},
      {"x{next}b>\ny", ""},
      {"x{close}y", ""},
      {"<{close}", ""},
      {"<</{close}", ""}}},
    {R"({"type":"string","maxLength":3})",
     {{"abc", R"("abc")"}, {" é ", R"(" é ")"}, {"", R"("")"}, {" abc", ""}, {"abc ", ""}, {"abc\n", ""}}},
    {R"({"type":"string","minLength":2})",
     {{"ab", R"("ab")"}, {"a", ""}, {" a", R"(" a")"}, {"a{close}", ""}, {"a{next}b>", ""}}},
    {R"({"type":"string","minLength":20,"maxLength":40})",
     {{"{close}{close}", ""}, {"{next}12345678901234567890", ""}}},
    {R"({"type":"string","pattern":"^[a-c]+$"})",
     {{"abc", R"("abc")"}, {" abc", ""}, {"abc\n", ""}, {"", ""}}},
    {R"({"type":"string","pattern":"^a.*$"})", {{"a b", R"("a b")"}, {"a{close}", ""}, {"a{next}b>", ""}}},
    {R"({"type":"string","format":"date"})", {{"2026-01-31", R"("2026-01-31")"}, {" 2026-01-31", ""}}},
    {R"({"enum":["x","y z"]})", {{"x", R"("x")"}, {"y z", R"("y z")"}, {" x", ""}, {"x ", ""}, {"z", ""}}},
    {R"({"const":" x "})", {{" x ", R"(" x ")"}, {"x", ""}}},
    {R"({"type":["string","null"],"maxLength":2})",
     {{"ab", R"("ab")"}, {"null", "null", false}, {"abc", ""}, {"nul", ""}}},
    {R"({"type":"integer","maximum":20})",
     {{"12", "12", false}, {" 7\n", "7", false}, {"21", "", false}, {"x", "", false}}},
    {R"({"type":"boolean"})", {{"true", "true", false}, {"yes", "", false}}},
    {R"({"minimum":3})", {{"4", "4", false}, {"2", "", false}}},
    {R"({"properties":{"a":{"type":"string"}}})",
     {{R"({"a": "b"})", R"({"a": "b"})", false}, {R"({"c": 1})", "", false}}},
    {R"({"items":{"type":"integer"}})", {{"[1, 2]", "[1, 2]", false}, {R"(["a"])", "", false}}},
    {R"({"type":"array","items":{"type":"string"}})",
     {{R"(["b>", "/b", "parameter>"])", R"(["b>", "/b", "parameter>"])", false},
      {R"(["\u003c/parameter>"])", R"(["</parameter>"])", false},
      {R"(["a{close}"])", "", false},
      {R"(["{next}a"])", "", false}}},
    {R"({"type":"array","items":{"type":"string","maxLength":20}})",
     {{R"(["ab"])", R"(["ab"])", false},
      {R"(["\u003ca"])", R"(["<a"])", false},
      {R"(["a{close}"])", "", false},
      {R"(["a{next}"])", "", false}}},
    {R"({"type":"array","items":{"type":"string","pattern":"^<.*>$"}})",
     {{R"(["\u003cp>"])", R"(["<p>"])", false}, {R"(["<{close}>"])", "", false}}},
    {R"({"type":"array","items":{"enum":["{close}{next}b>","<b>"]}})",
     {{R"(["{escaped_close}{escaped_next}b>"])", R"(["{close}{next}b>"])", false},
      {R"(["{close}{next}b>"])", "", false}}},
    {R"({"type":"object"})",
     {{R"({"b>": {"c": [1, "\u003c"]}})", R"({"b>": {"c": [1, "<"]}})", false},
      {R"({"{close}": 1})", "", false},
      {R"({"a": {"b": "{next}"}})", "", false}}},
    {R"({"type":"object","properties":{"{close}":{}},"additionalProperties":true})",
     {{R"({"{escaped_close}": 1})", R"({"{close}": 1})", false}, {R"({"k{close}": 1})", "", false}}},
};

/// Of a tool with the case's parameter.
std::string schema_of(const TagFormat& f, const TagCase& c) {
  return R"({"type":"object","properties":{"s":)" + with_markers(f, c.schema) +
         R"(,"b":{"type":"string"}},"required":["s"]})";
}

// A value ends where the parser ends it, and what it reads there fits the schema.
TEST(ForcedCalls, ValuesOfTagsAreWhatTheParserReads) {
  for (const TagFormat& f : kTagFormats) {
    for (const TagCase& c : kTagCases) {
      const std::string schema = schema_of(f, c);
      const std::vector<text::Tool> tools = one_tool(schema);
      const Compiled compiled = compile(f.spelling, tools, {});
      ASSERT_TRUE(compiled) << schema << ": " << compiled.error().message;
      for (const TagValue& v : c.values) {
        if (f.next.empty() && std::string_view(v.text).contains("{next}")) continue;
        const std::string text = f.before + tagged(f, "s", v.text, v.is_text) + f.after;
        const bool good = v.json[0] != '\0';
        EXPECT_EQ(accepts(**compiled, text), good) << c.schema << "\n" << text;
        if (!good) continue;
        const auto read = json::parse(calls_in(f.spelling.format, tools, text).substr(1));
        ASSERT_TRUE(read) << text << "  " << calls_in(f.spelling.format, tools, text);
        EXPECT_EQ(*read->find("s"), *json::parse(with_markers(f, v.json))) << text;
        EXPECT_EQ(read->as_object().size(), 1U) << text;
      }
    }
  }
}

/// A text that the grammar lets a model write which would write what parsers could mistake; empty: it found no end.
std::string walked(const sampling::Constraint& constraint, std::uint32_t seed) {
  constexpr std::string_view kHostile[] = {"</parameter>",
                                           "<parameter=b>",
                                           "<parameter name=\"b\">",
                                           "</arg_value>",
                                           "</｜DSML｜parameter>",
                                           "<｜DSML｜parameter ",
                                           "null",
                                           "\n",
                                           "\r\n",
                                           " ",
                                           "5",
                                           "\"",
                                           "\\",
                                           "true",
                                           "[",
                                           "]",
                                           "{",
                                           "}",
                                           ":",
                                           ",",
                                           "<",
                                           "a"};
  std::minstd_rand random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const std::unique_ptr<sampling::ConstraintState> state = constraint.begin();
  std::string out;
  std::string_view wanted;
  for (int i = 0; i < 600; ++i) {
    const std::vector<std::uint32_t> mask = grammar::test::mask_of(*state);
    if (grammar::test::has_bit(mask, grammar::test::kEnd)) return out;
    std::vector<std::int32_t> allowed;
    for (std::int32_t id = 0; id < 256; ++id)
      if (grammar::test::has_bit(mask, id)) allowed.push_back(id);
    if (allowed.empty()) return {};
    const auto may = [&] {
      return !wanted.empty() &&
             std::ranges::find(allowed, static_cast<unsigned char>(wanted[0])) != allowed.end();
    };
    if (!may()) wanted = kHostile[below(std::size(kHostile))];
    const std::int32_t id = may() ? static_cast<unsigned char>(wanted[0]) : allowed[below(allowed.size())];
    if (!wanted.empty()) wanted.remove_prefix(1);
    if (!state->accept(id)) return {};
    out += static_cast<char>(id);
  }
  return {};
}

/// Walks through what a forced call may be; each is read as arguments of the schema, whatever a model writes.
void expect_walks_fit(const TagFormat& f, const std::string& schema, const sampling::Constraint& calls,
                      std::uint32_t walks) {
  grammar::Compiler compiler(grammar::test::byte_vocabulary);
  const std::vector<text::Tool> tools = one_tool(schema);
  const Compiled arguments = compiler.compile(
      {.kind = grammar::Kind::kJsonSchema, .value = *json::parse(schema), .field = "schema"});
  ASSERT_TRUE(arguments) << schema;
  for (std::uint32_t seed = 1; seed <= walks; ++seed) {
    std::string text;
    text::Utf8Assembler assembler;  // ids may spell bytes that are no UTF-8
    assembler.push(walked(calls, seed), text);
    assembler.flush(text);
    if (text.empty()) continue;
    const std::string read = calls_in(f.spelling.format, tools, text);
    const auto document = json::parse(read.substr(1));
    ASSERT_TRUE(document) << text << "\n" << read;
    EXPECT_TRUE(accepts(**arguments, json::write(*document))) << schema << "\n" << text << "\n" << read;
  }
}

TEST(ForcedCalls, WhateverIsWrittenInTagsFitsTheSchema) {
  for (const TagFormat& f : kTagFormats) {
    for (const TagCase& c : kTagCases) {
      const std::string schema = schema_of(f, c);
      const Compiled compiled = compile(f.spelling, one_tool(schema), {});
      ASSERT_TRUE(compiled) << schema;
      expect_walks_fit(f, schema, **compiled, 4);
    }
  }
}

// Types that are narrowed by another word, and those that differ by the branch of the schema.
TEST(ForcedCalls, AValueIsReadAsTheTypeThatItsBranchHasOrTheSchemaIsRefused) {
  const struct {
    const char* schema;
    const char* named;  ///< the place that is refused where tags do not say their types; empty: all serve it
  } kCases[] = {
      {R"({"properties":{"x":{"type":["string","integer"],"enum":[1,2]}},"required":["x"]})", ""},
      {R"({"properties":{"x":{"type":["string","integer"],"anyOf":[{"type":"integer"},{"type":"boolean"}]}},"required":["x"]})",
       ""},
      {R"({"properties":{"x":{"type":["string","number"]}},"allOf":[{"properties":{"x":{"type":"integer"}}}],"required":["x"]})",
       ""},
      {R"({"properties":{"x":{"$ref":"#/$defs/t","maximum":9}},"required":["x"],"$defs":{"t":{"type":["number","boolean"]}}})",
       ""},
      {R"({"properties":{"x":{"anyOf":[{"format":"date"},{"type":"number"}]}},"required":["x"]})", ""},
      {R"({"properties":{"x":{"type":["string","integer","null"]}},"required":["x"]})", ""},
      {R"({"anyOf":[{"properties":{"x":{"type":"integer"}},"required":["x"]},{"properties":{"x":{"type":"boolean"}},"required":["x"]}]})",
       ""},
      {R"({"anyOf":[{"properties":{"x":{"enum":["a","b"]},"k":{"const":1}},"required":["x","k"]},{"properties":{"x":{"type":"null"},"k":{"const":2}},"required":["x","k"]}]})",
       ""},
      {R"({"anyOf":[{"properties":{"k":{"const":"n"},"x":{"type":"number"}},"required":["k","x"]},{"properties":{"k":{"const":"s"},"x":{"type":"string"}},"required":["k","x"]}]})",
       "properties/x"},
      {R"({"properties":{"x":{"type":["string","integer"]}},"anyOf":[{"properties":{"x":{"type":"integer"}},"required":["x"]},{"properties":{"x":{"maxLength":2,"type":"string"},"k":{"const":1}},"required":["x","k"]}]})",
       "properties/x"},
      {R"({"anyOf":[{"properties":{"k":{"const":1},"x":{"type":"null"}},"required":["k","x"]},{"properties":{"k":{"const":2},"x":{"type":"string"}},"required":["k","x"]}]})",
       "properties/x"},
      {R"({"anyOf":[{"properties":{"k":{"const":1},"x":{"type":"array"}},"required":["k","x"]},{"properties":{"k":{"const":2}},"required":["k"],"additionalProperties":{"type":"string"}}]})",
       "properties/x"},
      {R"({"properties":{"x":{"$ref":"#t"}},"required":["x"],"$defs":{"t":{"$anchor":"t","type":"integer"}}})",
       "at #t: "},
  };
  for (const auto& c : kCases) {
    for (const TagFormat& f : kTagFormats) {
      const Compiled compiled = compile(f.spelling, one_tool(c.schema), {});
      ASSERT_EQ(compiled.has_value(), c.named[0] == '\0' || f.spelling.deepseek_tags)
          << c.schema << (compiled ? "" : compiled.error().message);
      if (compiled)
        expect_walks_fit(f, c.schema, **compiled, 12);
      else
        EXPECT_TRUE(compiled.error().message.contains(c.named)) << compiled.error().message;
    }
  }
}

TEST(ForcedCalls, TagsOfParametersInBranchesOfTheSchema) {
  for (
      const char* schema :
      {R"({"anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"n":{"$ref":"#/$defs/t"}},"required":["n"]}],"$defs":{"t":{"type":"integer"}}})",
       R"({"$ref":"#/$defs/call","$defs":{"call":{"type":"object","properties":{"n":{"minimum":1}}}}})",
       R"({"allOf":[{"properties":{"n":{"type":"integer"}}},{"required":["n"]}]})"}) {
    const std::vector<text::Tool> tools = one_tool(schema);
    for (const TagFormat& f : kTagFormats) {
      const Compiled compiled = compile(f.spelling, tools, {});
      ASSERT_TRUE(compiled) << compiled.error().message;
      const std::string text = f.before + tagged(f, "n", "5", false) + f.after;
      EXPECT_TRUE(accepts(**compiled, text)) << text;
      EXPECT_EQ(calls_in(f.spelling.format, tools, text), R"(f{"n": 5})") << schema;
      EXPECT_FALSE(accepts(**compiled, f.before + tagged(f, "n", "x", true) + f.after)) << schema;
    }
  }
}

TEST(ForcedCalls, TagsOfParametersThatAreNotDeclared) {
  const std::vector<text::Tool> tools = one_tool(
      R"({"type":"object","properties":{"s":{"type":"string"}},"additionalProperties":{"type":"integer"},"maxProperties":2})");
  for (const TagFormat& f : kTagFormats) {
    const Compiled compiled = compile(f.spelling, tools, {});
    ASSERT_TRUE(compiled) << compiled.error().message;
    const std::string s = tagged(f, "s", "x", true);
    const std::string n = tagged(f, "n", "5", false);
    for (const std::string& good : {std::string(), s, n, s + "\n" + n, s + n})
      EXPECT_TRUE(accepts(**compiled, f.before + good + f.after)) << good;
    for (const std::string& bad :
         {n + s, s + n + n, tagged(f, "n", "x", false), tagged(f, "s", "5", true) + s})
      EXPECT_FALSE(accepts(**compiled, f.before + bad + f.after)) << bad;
    EXPECT_EQ(calls_in(f.spelling.format, tools, f.before + s + "\n" + n + f.after),
              R"(f{"s": "x", "n": 5})");
  }
}

TEST(ForcedCalls, ParametersThatMayBeAnything) {
  const struct {
    const char* schema;
    bool may_be_absent;
  } kCases[] = {
      {R"({"type":"object","properties":{}})", true},
      {R"({"type":"object"})", true},
      {"{}", true},
      {R"({"type":"object","additionalProperties":true})", true},
      {R"({"properties":{"s":{}},"additionalProperties":{}})", true},
      {R"({"properties":{"s":true},"required":["s"]})", false},
      {R"({"properties":{"s":{"type":"integer"}},"minProperties":2})", false},
      {R"({"type":"object","required":["undeclared"]})", false},
  };
  for (const auto& c : kCases) {
    const std::vector<text::Tool> tools = one_tool(c.schema);
    for (const FormatCase& f : kFormats) EXPECT_TRUE(compile(f.spelling, tools, {})) << c.schema;
    for (const TagFormat& f : kTagFormats) {
      const Compiled compiled = compile(f.spelling, tools, {});
      ASSERT_TRUE(compiled) << c.schema << ": " << compiled.error().message;
      EXPECT_EQ(accepts(**compiled, f.before + f.after), c.may_be_absent) << c.schema;
      expect_walks_fit(f, c.schema, **compiled, 4);
    }
  }
}

TEST(ForcedCalls, WhatTheNotationCannotSayIsRefusedByName) {
  const struct {
    ToolFormat format;
    const char* schema;
    const char* named;
  } kCases[] = {
      {ToolFormat::kPythonic, R"({"properties":{"a b":{}}})", "properties"},
      {ToolFormat::kPythonic, R"({"patternProperties":{"^a":{}}})", "patternProperties"},
      {ToolFormat::kPythonic, R"({"propertyNames":{"maxLength":3}})", "propertyNames"},
      {ToolFormat::kPythonic, R"({"type":"object","enum":[{"a":1}]})", "enum"},
      {ToolFormat::kPythonic, R"({"type":"array"})", "object"},
      {ToolFormat::kQwen3Coder, R"({"properties":{"a":{"const":"x</parameter>"}}})", "properties/a/enum"},
      {ToolFormat::kMinimaxXml, R"({"properties":{"a":{"const":"<parameter x"}}})", "properties/a/enum"},
      {ToolFormat::kGlm47, R"({"properties":{"a":{"pattern":"^a<b$"}}})", "properties/a/pattern"},
      {ToolFormat::kGlm47, R"({"properties":{"a</arg_key>":{}}})", "properties"},
      {ToolFormat::kQwen3Coder, R"({"properties":{"a>b":{}}})", "properties"},
      {ToolFormat::kQwen3Coder, R"({"properties":{" a":{}}})", "properties"},
      {ToolFormat::kMinimaxXml, R"({"properties":{"a\"b":{}}})", "properties"},
      {ToolFormat::kMinimaxXml, R"({"patternProperties":{"^a":{}}})", "patternProperties"},
      {ToolFormat::kGlm47, R"({"type":"array"})", "object"},
      {ToolFormat::kGemma4, R"({"properties":{"a":{"const":"x<|\"|>"}}})", "properties/a/enum"},
      {ToolFormat::kGemma4, R"({"properties":{"a":{"pattern":"^a\\|b$"}}})", "properties/a/pattern"},
      {ToolFormat::kGemma4, R"({"properties":{"a":{"uniqueItems":true}}})", "properties/a/uniqueItems"},
  };
  for (const auto& c : kCases) {
    const Compiled compiled = compile({.format = c.format}, one_tool(c.schema), {});
    ASSERT_FALSE(compiled) << c.schema;
    EXPECT_EQ(compiled.error().field, "tools");
    EXPECT_TRUE(compiled.error().message.contains(c.named)) << compiled.error().message;
  }
}

}  // namespace
}  // namespace met::api
