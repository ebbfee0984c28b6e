// Chat templates against transformers' renderer (shared corpus), and what we add to it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/json.h"
#include "text/chat/chat_template.h"

namespace met::text {
namespace {

namespace fs = std::filesystem;

std::tm fixed_now() {  // 2026-01-31 13:05:09, a Saturday, as in the corpus
  std::tm now{};
  now.tm_year = 126;
  now.tm_mday = 31;
  now.tm_hour = 13;
  now.tm_min = 5;
  now.tm_sec = 9;
  now.tm_wday = 6;
  now.tm_yday = 30;
  return now;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<json::Value> read_lines(const fs::path& path) {
  std::vector<json::Value> rows;
  std::istringstream in(read_file(path));
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) rows.push_back(*json::parse(line));
  return rows;
}

/// The shared corpus, or the part of it that lives in the repository.
fs::path corpus() {
  const fs::path source(MET_SOURCE_DIR);
  for (const fs::path& root : {source.parent_path() / "shared/corpora/templates",
                               source.parent_path().parent_path() / "shared/corpora/templates",
                               source / "tests/text/data/templates"})
    if (fs::exists(root / "conversations.jsonl")) return root;
  return {};
}

/// Templates that the repository may not hold lie in .cache/templates after scripts/fetch_templates.
fs::path template_file(const fs::path& root, const std::string& name) {
  for (const fs::path& path :
       {root / "src" / (name + ".jinja"), fs::path(MET_SOURCE_DIR) / ".cache/templates" / (name + ".jinja")})
    if (fs::exists(path)) return path;
  return {};
}

ChatRequest request_of(const json::Value& conversation) {
  const auto array = [&](const char* name) {
    const json::Value* v = conversation.find(name);
    return v == nullptr || v->is_null() ? nullptr : v;
  };
  ChatRequest request;
  request.messages = conversation.find("messages");
  request.tools = array("tools");
  request.documents = array("documents");
  request.add_generation_prompt = conversation.find("add_generation_prompt")->as_bool();
  request.continue_final_message = conversation.find("continue_final_message")->as_bool();
  request.kwargs = &conversation.find("kwargs")->as_object();
  request.now = fixed_now();
  request.as_given = true;
  return request;
}

std::shared_ptr<const ChatTemplate> compile(std::string source, SpecialTokens tokens = {}) {
  auto t = ChatTemplate::compile(std::move(source), std::move(tokens));
  EXPECT_TRUE(t) << t.error().message;
  return t ? *t : nullptr;
}

TEST(ChatTemplate, GivesWhatTransformersGivesForEveryPublicTemplate) {
  const fs::path root = corpus();
  if (root.empty()) GTEST_SKIP() << "no template corpus";
  std::map<std::string, json::Value> conversations;
  for (json::Value& row : read_lines(root / "conversations.jsonl"))
    conversations.emplace(row.find("id")->as_string(), std::move(row));
  const json::Value sources = *json::parse(read_file(root / "sources.json"));
  int templates = 0;
  int absent = 0;
  int passed = 0;
  int total = 0;
  for (const json::Value& entry : sources.find("templates")->as_array()) {
    const std::string& name = entry.find("name")->as_string();
    const fs::path file = template_file(root, name);
    if (file.empty() || !fs::exists(root / (name + ".jsonl"))) {
      ++absent;
      continue;
    }
    ++templates;
    SpecialTokens tokens;
    for (const auto& [key, value] : entry.find("special_tokens")->as_object())
      if (value.is_string()) tokens.emplace_back(key, value.as_string());
    const auto compiled = compile(read_file(file), tokens);
    ASSERT_NE(compiled, nullptr) << name;
    for (const std::string& warning : compiled->warnings())  // in no transformers release either
      EXPECT_NE(warning.find("'from_json'"), std::string::npos) << name << ": " << warning;
    for (const json::Value& row : read_lines(root / (name + ".jsonl"))) {
      const auto got = compiled->render(request_of(conversations.at(row.find("conv")->as_string())));
      const std::string& id = row.find("id")->as_string();
      ++total;
      bool ok = false;
      if (const json::Value* text = row.find("text")) {
        ok = got && got->text == text->as_string();
        EXPECT_TRUE(ok) << id << "\n want: " << text->as_string()
                        << "\n got:  " << (got ? got->text : "ERROR " + got.error().message);
      } else {
        const bool exact = row.find("error")->as_string() == "TemplateError";
        ok = !got && (!exact || got.error().message == row.find("message")->as_string());
        EXPECT_TRUE(ok) << id << "\n want error: " << row.find("message")->as_string()
                        << "\n got:  " << (got ? got->text : "ERROR " + got.error().message);
      }
      passed += ok ? 1 : 0;
    }
  }
  std::cout << templates << " templates (" << absent << " absent): " << passed << " of " << total
            << " renders\n";
}

}  // namespace
}  // namespace met::text
