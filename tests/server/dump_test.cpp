// What --dump leaves on the disk, and that nothing of it reaches a request.
#include "server/dump.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/server/served.h"

namespace met::testing {
namespace {

namespace fs = std::filesystem;
using server::Dump;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kChat = "/v1/chat/completions";

class DumpTest : public ::testing::Test {
 protected:
  DumpTest()
      : directory_(
            fs::path(::testing::TempDir()) /
            ("met_dump_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(directory_);
  }
  ~DumpTest() override { fs::remove_all(directory_); }

  std::string text() const {
    std::string out;
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(directory_)) files.push_back(file.path());
    std::ranges::sort(files);
    for (const fs::path& path : files) {
      std::ifstream file(path);
      out.append(std::istreambuf_iterator<char>(file), {});
    }
    return out;
  }
  std::vector<json::Value> lines() const {
    std::vector<json::Value> out;
    std::istringstream all(text());
    for (std::string line; std::getline(all, line);) out.push_back(parsed(line));
    return out;
  }
  std::string flag() const { return directory_.string(); }

  const fs::path directory_;
};

TEST_F(DumpTest, RequestsStandBesideTheirAnswersAndKeysNowhere) {
  {
    Served met(saying("Hello."), {"--dump", flag(), "--require-auth", "--auth-token", "Secret-1"});
    const std::string key = "Authorization: Bearer Secret-1";
    EXPECT_EQ(met.ask(post(kChat, chat_body(R"(,"user":"Secret-1")"), {key})).status, 200);
    EXPECT_EQ(met.ask(post(kChat, chat_body(R"(,"stream":true)"), {key})).status, 200);
    EXPECT_EQ(met.ask(post(kChat, "{broken \xFF", {"x-api-key: Secret-1", "X-Request-Id: mine"})).status,
              400);
    EXPECT_EQ(met.ask(post(kChat, chat_body(), {"x-api-key: wrong-key"})).status, 401);
    EXPECT_EQ(met.ask(get("/v1/models", {key})).status, 200);
    ASSERT_TRUE(met.eventually(
        [&] { return met.ask(get("/metrics")).body.find("outcome=\"written\"} 6") != std::string::npos; }));
  }
  EXPECT_THAT(text(), Not(HasSubstr("Secret-1")));
  EXPECT_THAT(text(), Not(HasSubstr("wrong-key")));
  EXPECT_THAT(text(), Not(HasSubstr("uthorization")));
  const std::vector<json::Value> all = lines();
  ASSERT_EQ(all.size(), 6U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(at(all[i], "kind"), json::Value(i % 2 == 0 ? "request" : "answer"));
    EXPECT_EQ(at(all[i], "seq"), json::Value(i / 2 + 1));
    EXPECT_EQ(at(all[i], "endpoint"), json::Value("POST /v1/chat/completions"));
  }
  EXPECT_EQ(at(all[0], "body", "user"), json::Value("[key]"));
  EXPECT_EQ(at(all[1], "body", "choices", 0, "message", "content"), json::Value("Hello."));
  EXPECT_EQ(at(all[1], "status"), json::Value(200));
  EXPECT_THAT(at(all[3], "body").as_string(), HasSubstr("data: [DONE]"));
  EXPECT_EQ(at(all[4], "body"), json::Value("{broken \xEF\xBF\xBD"));
  EXPECT_EQ(at(all[5], "status"), json::Value(400));
  EXPECT_EQ(at(all[5], "id"), json::Value("mine"));
  for (const auto& file : fs::directory_iterator(directory_))
    EXPECT_EQ(file.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(DumpTest, AnAnswerThatNobodyAwaitedSaysSo) {
  {
    Served met({}, {"--dump", flag()});
    met.engine.hold(true);
    Client client(met.port());
    client.send(post(kChat, chat_body(R"(,"stream":true)")));
    ASSERT_TRUE(met.eventually([&] { return met.engine.running() == 1; }));
    client.reset();
    ASSERT_TRUE(met.eventually([&] { return lines().size() == 2; }));
    met.engine.hold(false);
  }
  EXPECT_EQ(at(lines()[1], "whole"), json::Value(false));
}

TEST_F(DumpTest, ADiskThatTakesNothingHurtsNoRequest) {
  Served met({}, {"--dump", flag()});
  fs::remove_all(directory_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(met.ask(post(kChat, chat_body())).status, 200);
  EXPECT_TRUE(met.eventually(
      [&] { return met.ask(get("/metrics")).body.find("outcome=\"dropped\"} 6") != std::string::npos; }));
}

TEST_F(DumpTest, StaysBelowItsBoundsOverRestarts) {
  constexpr std::size_t kBytesMax = 100'000;
  fs::create_directories(directory_);
  for (int life = 0; life < 3; ++life) {
    Dump dump(directory_, kBytesMax, {});
    for (int i = 0; i < 200; ++i)
      dump.add(
          {.seq = dump.next(), .endpoint = "POST /x", .bytes = 1000, .body = std::string(1000, 'a' + life)});
  }
  std::size_t size = 0;
  for (const auto& file : fs::directory_iterator(directory_)) size += file.file_size();
  EXPECT_LE(size, kBytesMax);
  EXPECT_GT(size, kBytesMax / 2);
  EXPECT_EQ(at(lines().back(), "seq"), json::Value(200)) << "the newest stays";
}

TEST_F(DumpTest, ALongBodyIsCut) {
  fs::create_directories(directory_);
  {
    Dump dump(directory_, 1U << 30U, {});
    server::DumpedExchange exchange(dump, "POST /x", "id", std::string(Dump::kBodyBytes + 5, ' '));
    for (int i = 0; i < 3; ++i) exchange.add(std::string(Dump::kBodyBytes / 2, 'b'));
    exchange.end(200, true);
  }
  for (const json::Value& line : lines()) {
    EXPECT_GT(at(line, "bytes").as_int(), static_cast<std::int64_t>(Dump::kBodyBytes));
    EXPECT_EQ(at(line, "body").as_string().size(), Dump::kBodyBytes);
  }
}

TEST_F(DumpTest, APlaceThatCannotBeWrittenIsRefused) {
  std::ofstream(directory_) << "a file";
  for (const std::string& where : {flag(), flag() + "/below", std::string("/proc/none")}) {
    config::Settings settings;
    settings.dump = where;
    const auto opened = Dump::open(settings, {});
    ASSERT_FALSE(opened) << where;
    EXPECT_EQ(opened.error().field, "--dump");
  }
}

}  // namespace
}  // namespace met::testing
