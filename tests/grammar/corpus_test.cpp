// The shared corpus: what an independent validator says about texts, held against what the masks allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "core/json.h"
#include "tests/grammar/byte_vocabulary.h"

namespace met::grammar {
namespace {

std::vector<json::Value> read_lines(const std::string& name) {
  std::vector<json::Value> out;
  std::ifstream file(std::string(MET_SOURCE_DIR) + "/../shared/corpora/grammar/" + name);
  for (std::string line; std::getline(file, line);) out.push_back(json::parse(line).value());
  return out;
}

void check_file(const std::string& file, Kind kind, const char* member) {
  const std::vector<json::Value> records = read_lines(file);
  if (records.empty()) GTEST_SKIP() << "no shared corpus";
  Compiler compiler(test::byte_vocabulary);
  for (const json::Value& record : records) {
    const std::string id = record.find("id")->as_string();
    const auto compiled = compiler.compile({.kind = kind, .value = *record.find(member), .field = member});
    if (!compiled) {
      // Allowed only where some text shows that a word would not be enforced by the reference engine.
      const auto unenforced = [](const json::Value& one) {
        const json::Value* verdict = one.find("xgrammar");
        return !one.find("valid")->as_bool() && (verdict == nullptr || verdict->as_bool());
      };
      const json::Array& cases = record.find("cases")->as_array();
      EXPECT_TRUE(std::ranges::any_of(cases, unenforced)) << id << ": " << compiled.error().message;
      continue;
    }
    for (const json::Value& one : record.find("cases")->as_array()) {
      const std::string text = one.find("text")->as_string();
      const bool valid = one.find("valid")->as_bool();
      const json::Value* must = one.find("must_accept");
      const bool got = test::accepts(**compiled, text);
      const bool expected = valid && (must == nullptr || must->as_bool());
      if (!valid || expected) {
        EXPECT_EQ(got, expected) << id << " " << text;
      }
    }
  }
}

TEST(GrammarCorpus, JsonSchema) { check_file("json_schema.jsonl", Kind::kJsonSchema, "schema"); }
TEST(GrammarCorpus, Regex) { check_file("regex.jsonl", Kind::kRegex, "regex"); }
TEST(GrammarCorpus, Ebnf) { check_file("ebnf.jsonl", Kind::kEbnf, "ebnf"); }

TEST(GrammarCorpus, InvalidSchemasAreRefused) {
  const std::vector<json::Value> records = read_lines("invalid_schemas.jsonl");
  if (records.empty()) GTEST_SKIP() << "no shared corpus";
  Compiler compiler(test::byte_vocabulary);
  for (const json::Value& record : records) {
    const auto compiled = compiler.compile(
        {.kind = Kind::kJsonSchema, .value = *record.find("schema"), .field = "response_format"});
    EXPECT_FALSE(compiled) << record.find("id")->as_string();
  }
}

}  // namespace
}  // namespace met::grammar
