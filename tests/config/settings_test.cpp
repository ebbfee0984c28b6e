#include "config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace met::config {
namespace {

using testing::HasSubstr;

std::expected<Settings, std::vector<Error>> read(std::vector<std::string> arguments,
                                                 const EnvironmentReader& env = {}) {
  return read_settings(arguments, env);
}

TEST(Settings, ReadsEveryFormOfAFlag) {
  const auto s =
      read({"model.gguf", "--port=0", "--max-seq-len", "2048", "--require-auth", "--auth-token", "a",
            "--api-key=b", "--host", "::1", "--gpu-memory-utilization", "0.5", "--threads", "auto"});
  ASSERT_TRUE(s) << s.error()[0].message;
  EXPECT_EQ(s->model, "model.gguf");
  EXPECT_EQ(s->port, 0);
  EXPECT_EQ(s->max_seq_len, 2048);
  EXPECT_TRUE(s->require_auth);
  EXPECT_EQ(s->auth_token, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s->bind, "::1");
  EXPECT_EQ(s->gpu_memory_utilization, 0.5);
  EXPECT_EQ(s->threads, std::nullopt);
  EXPECT_EQ(s->max_batch_size, std::nullopt);
}

TEST(Settings, ReportsEveryViolationByItsFlag) {
  const std::pair<std::vector<std::string>, std::string> kTable[] = {
      {{"--port", "65536"}, "--port"},
      {{"--port", "-1"}, "--port"},
      {{"--port", "8x"}, "--port"},
      {{"--port", ""}, "--port"},
      {{"--port", "1.5"}, "--port"},
      {{"--port"}, "--port"},
      {{"--prot", "1"}, "--prot"},
      {{"--scheduler", "lifo"}, "--scheduler"},
      {{"--require-auth=maybe"}, "--require-auth"},
      {{"--request-timeout", "nan"}, "--request-timeout"},
      {{"--max-seq-len", "99999999999999999999"}, "--max-seq-len"},
      {{"a", "b"}, "MODEL"},
      {{"-p"}, "-p"},
      {{"--config", "/no/such/file.toml"}, "--config"},
      {{"--gpu-memory-utilization", "1.01"}, "--gpu-memory-utilization"},
      {{"--auth-token", ""}, "--auth-token"},
  };
  for (const auto& [arguments, field] : kTable) {
    const auto s = read(arguments);
    ASSERT_FALSE(s) << testing::PrintToString(arguments);
    EXPECT_EQ(s.error()[0].field, field) << testing::PrintToString(arguments);
    EXPECT_FALSE(s.error()[0].message.empty());
  }
  const auto many = read({"--port", "x", "--threads", "0", "--nope"});
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().size(), 3U);
}

TEST(Settings, AMistypedFlagGetsTheNearestOne) {
  EXPECT_THAT(read({"--prot", "1"}).error()[0].message, HasSubstr("--port"));
  EXPECT_THAT(read({"--something-else"}).error()[0].message, HasSubstr("--help"));
}

TEST(Settings, CorsOriginsAreWhatABrowserSends) {
  for (const char* good : {"*", "https://a.example", "http://[::1]:8080", "null"}) {
    const auto read = read_settings(std::vector<std::string>{"--cors-origin", good}, {});
    EXPECT_TRUE(read) << good;
  }
  for (const char* bad : {"foo", "https://", "https://a.example/", "://a", "http://a b", "https://a?x"}) {
    const auto read = read_settings(std::vector<std::string>{"--cors-origin", bad}, {});
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error()[0].field, "--cors-origin");
  }
}

TEST(Settings, FlagBeatsFileBeatsEnvironmentBeatsHardware) {
  const std::string path = testing::TempDir() + "/met_settings.toml";
  std::ofstream(path)
      << "model = \"from-file\"\nport = 1\nmax-body-bytes = 2048\nauth-token = [\"x\", \"y\"]\n"
         "require-auth = true\nsse-keepalive-s = 0.5\n";
  const auto env = [](std::string_view name) -> std::optional<std::string> {
    if (name == "METRALE_MAX_BODY_BYTES") return "4096";
    if (name == "METRALE_KV_ADMIT_WATERMARK") return "64";
    if (name == "METRALE_PREFILL_VARLEN") return "yes";
    if (name == "METRALE_PREFILL_CODISPATCH") return "TRUE";
    if (name == "METRALE_Q12_BATCHED_FIRST_CHUNK") return "1";
    return std::nullopt;
  };
  auto s = read({"--config", path, "--port", "2"}, env);
  ASSERT_TRUE(s) << s.error()[0].message;
  EXPECT_EQ(s->model, "from-file");
  EXPECT_EQ(s->port, 2);
  EXPECT_EQ(s->max_body_bytes, 2048);
  EXPECT_EQ(s->kv_admit_watermark, 64);
  EXPECT_EQ(s->prefill_varlen_batch, "off");  // P5: neither 1 nor true
  EXPECT_EQ(s->prefill_codispatch, "on");
  EXPECT_EQ(s->prefill_first_chunk, "on");
  EXPECT_EQ(s->auth_token.size(), 2U);
  EXPECT_EQ(s->sse_keepalive_s, 0.5);
  ASSERT_TRUE(set_setting(*s, "kv-admit-watermark", "8", Origin::kHardware));
  ASSERT_TRUE(set_setting(*s, "max-prefill-tokens", "256", Origin::kHardware));
  EXPECT_EQ(s->kv_admit_watermark, 64);
  EXPECT_EQ(s->max_prefill_tokens, 256);
  const auto flags = read({"--config", path, "--auth-token", "z"});
  EXPECT_EQ(flags->auth_token, std::vector<std::string>{"z"});
  std::filesystem::remove(path);
}

TEST(Settings, ABadFileIsNamedWithItsPlace) {
  const std::string path = testing::TempDir() + "/met_bad.toml";
  for (const auto& [text, part] :
       std::vector<std::pair<std::string, std::string>>{{"port = ", "line 1"},
                                                        {"[server]\nport = 1\n", "line 1"},
                                                        {"prot = 1\n", "did you mean --port"},
                                                        {"port = 99999\n", "0 to 65535"}}) {
    std::ofstream(path) << text;
    const auto s = read({"--config", path});
    ASSERT_FALSE(s) << text;
    EXPECT_THAT(s.error()[0].message, HasSubstr(part));
  }
  std::filesystem::remove(path);
}

TEST(Settings, DescriptionHasEveryRowAndNoSecret) {
  const auto s = read({"--auth-token", "very-secret", "--port", "7"});
  const json::Value v = describe_settings(*s);
  EXPECT_EQ(v.as_array().size(), settings_table().size());
  const std::string text = json::write(v);
  EXPECT_EQ(text.find("very-secret"), std::string::npos);
  EXPECT_THAT(text,
              HasSubstr(R"({"name":"port","value":7,"default":"8888","origin":"flag","type":"integer"})"));
}

TEST(Settings, NamesAreUnique) {
  std::set<std::string_view> seen;
  for (const Setting& row : settings_table()) {
    EXPECT_TRUE(seen.insert(row.name).second) << row.name;
    if (!row.alias.empty()) {
      EXPECT_TRUE(seen.insert(row.alias).second) << row.alias;
    }
    EXPECT_FALSE(row.help.empty());
  }
}

TEST(Settings, TheFlagTableInTheDocumentsIsThisTable) {
  std::ifstream in(MET_SOURCE_DIR "/docs/flags.md");
  std::stringstream text;
  text << in.rdbuf();
  if (std::string(text.str()) != settings_markdown()) {
    std::ofstream(testing::TempDir() + "/flags.md") << settings_markdown();
    FAIL() << "docs/flags.md is stale; a fresh one is " << testing::TempDir() << "/flags.md";
  }
}

}  // namespace
}  // namespace met::config
