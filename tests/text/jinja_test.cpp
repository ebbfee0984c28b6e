// The template language against jinja2 3.1.6 (shared corpus), and its limits, marks and errors.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/json.h"
#include "text/jinja/template.h"

namespace met::text::jinja {
namespace {

std::tm fixed_now() {  // 2026-01-31 13:05:09, a Saturday, as in the corpus
  std::tm now{};
  now.tm_year = 126;
  now.tm_mon = 0;
  now.tm_mday = 31;
  now.tm_hour = 13;
  now.tm_min = 5;
  now.tm_sec = 9;
  now.tm_wday = 6;
  now.tm_yday = 30;
  return now;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<json::Value> read_lines(const std::filesystem::path& path) {
  std::vector<json::Value> rows;
  std::istringstream in(read_file(path));
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) rows.push_back(*json::parse(line));
  return rows;
}

std::expected<Rendered, RenderError> render(std::string_view source, const json::Object& context,
                                            bool untrusted = false, const Limits& limits = {}) {
  const auto compiled = Template::compile(source, limits);
  if (!compiled) return std::unexpected(compiled.error());
  std::vector<Variable> variables;
  for (const auto& [name, value] : context) variables.push_back({name, &value, untrusted});
  return (*compiled)->render(variables, fixed_now());
}

std::string text_of(const std::expected<Rendered, RenderError>& r) {
  return r ? r->text : "ERROR " + r.error().message;
}

/// The corpus in the shared folder, or the part of it that lives in the repository.
std::filesystem::path corpus(std::string_view name) {
  const std::filesystem::path source(MET_SOURCE_DIR);
  for (const auto& root :
       {source.parent_path() / "shared/corpora/templates", source / "tests/text/data/templates",
        source.parent_path().parent_path() / "shared/corpora/templates"})
    if (std::filesystem::exists(root / name)) return root / name;
  return {};
}

TEST(Jinja, GivesWhatJinja2GivesForTheLanguageCorpus) {
  const auto path = corpus("jinja_language.jsonl");
  if (path.empty()) GTEST_SKIP() << "no jinja_language.jsonl";
  json::Value context = *json::parse(read_file(corpus("jinja_language.context.json")));
  int passed = 0;
  int total = 0;
  for (const json::Value& row : read_lines(path)) {
    ++total;
    const std::string& id = row.find("id")->as_string();
    std::string source = row.find("template")->as_string();
    // The context's 20-digit integer is beyond JSON's 64 bits here; the language itself has it.
    if (source.find("big") != std::string::npos) source = "{%- set big = 12345678901234567890 -%}" + source;
    const auto got = render(source, context.as_object());
    bool ok = false;
    if (const json::Value* text = row.find("text")) {
      ok = got && got->text == text->as_string();
      EXPECT_TRUE(ok) << id << ": " << source << "\n want: " << text->as_string()
                      << "\n got:  " << text_of(got);
    } else {
      ok = !got && (row.find("error")->as_string() != "TemplateError" ||
                    got.error().message == row.find("message")->as_string());
      EXPECT_TRUE(ok) << id << ": " << source << "\n want error: " << row.find("message")->as_string()
                      << "\n got:  " << text_of(got);
    }
    passed += ok ? 1 : 0;
  }
  std::cout << "language corpus: " << passed << " of " << total << "\n";
}

}  // namespace
}  // namespace met::text::jinja
