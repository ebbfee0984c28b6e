// Texts under the grammar of a forced choice: what it accepts is what the format's own parser reads as those calls.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/tool_grammar.h"
#include "tests/grammar/byte_vocabulary.h"
#include "text/machine/answer_parser.h"

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
