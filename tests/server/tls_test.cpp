// The same server behind TLS: what it refuses at start, and that connections behave as they do without.
#include "server/tls.h"

#include <gmock/gmock.h>

#include <csignal>
#include <fstream>

#include "tests/server/served.h"
#include "tests/server/tls_client.h"

namespace met::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kChat = "/v1/chat/completions";

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() : own_(::testing::TempDir() + "/met_tls_own"), other_(::testing::TempDir() + "/met_tls_other") {
    std::signal(SIGPIPE, SIG_IGN);  // of the clients, whose library writes without MSG_NOSIGNAL
  }
  std::vector<std::string> flags(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--tls-cert", own_.cert, "--tls-key", own_.key});
    return more;
  }

  const Certificate own_;
  const Certificate other_;
};

TEST_F(TlsTest, WhatCannotBeServedIsRefusedByItsFlag) {
  const std::string text = ::testing::TempDir() + "/met_tls_text";
  const std::string empty = ::testing::TempDir() + "/met_tls_empty";
  std::ofstream(text) << "-----BEGIN nothing-----\n";
  std::ofstream(empty).flush();
  const Certificate locked(::testing::TempDir() + "/met_tls_locked", 3600, "secret");
  struct Case {
    std::string cert;
    std::string key;
    std::string flag;
    std::string message;
  };
  for (const Case& c :
       {Case{own_.cert, "", "--tls-cert", "add --tls-key"}, Case{"", own_.key, "--tls-key", "add --tls-cert"},
        Case{"/no/such", own_.key, "--tls-cert", "cannot read '/no/such'"},
        Case{own_.cert, "/no/such", "--tls-key", "cannot read '/no/such'"},
        Case{::testing::TempDir(), own_.key, "--tls-cert", "cannot read"},
        Case{empty, own_.key, "--tls-cert", "cannot read"},
        Case{text, own_.key, "--tls-cert", "no PEM certificate"},
        Case{own_.key, own_.key, "--tls-cert", "no PEM certificate"},
        Case{own_.cert, text, "--tls-key", "no PEM key"},
        Case{own_.cert, own_.cert, "--tls-key", "no PEM key"},
        Case{own_.cert, other_.key, "--tls-key", "is not the key of"},
        Case{locked.cert, locked.key, "--tls-key", "is encrypted"}}) {
    config::Settings settings;
    settings.tls_cert = c.cert;
    settings.tls_key = c.key;
    const auto opened = server::open_tls(settings);
    ASSERT_FALSE(opened) << c.message;
    EXPECT_EQ(opened.error().field, c.flag) << opened.error().message;
    EXPECT_THAT(opened.error().message, HasSubstr(c.message));
  }
  std::remove(text.c_str());
  std::remove(empty.c_str());
  EXPECT_EQ(*server::open_tls({}), nullptr);
}

TEST_F(TlsTest, AnswersAndStreamsAreThoseOfPlainHttp) {
  Served met(saying("Hello there."), flags());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(met.port(), own_, {.version = version});
    ASSERT_TRUE(client.open()) << version;
    EXPECT_EQ(client.protocol(), "http/1.1");
    client.send(get("/health") + post(kChat, chat_body()) + post(kChat, chat_body(R"(,"stream":true)")) +
                get("/health", {"Connection: close"}));
    EXPECT_EQ(client.answer()->status, 200);
    EXPECT_THAT(client.answer()->body, HasSubstr("Hello t"));
    EXPECT_GT(chunks_of(client.answer()->body).size(), 3U);
    EXPECT_EQ(client.answer()->header("connection"), "close");
    EXPECT_TRUE(client.closed());
    EXPECT_TRUE(client.told_of_end()) << "the end may not be taken for a cut";
  }
}

TEST_F(TlsTest, AnswersOfManyRecordsArrive) {
  Served met({}, flags());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(met.port(), own_, {.version = version});
    for (std::size_t size : {100, 8000, 16384, 16385, 40000, 1000000}) {  // a record holds 16 KiB
      client.send(post("/tokenize", R"({"prompt":")" + std::string(size, 'a') + R"("})") + get("/health"));
      for (const std::size_t least : {size, std::size_t{1}}) {
        const auto answer = client.answer();
        ASSERT_TRUE(answer) << size;
        EXPECT_EQ(answer->status, 200) << answer->body.substr(0, 200);
        EXPECT_GE(answer->body.size(), least);
      }
    }
  }
}

TEST_F(TlsTest, RequestsArriveInAnyPieces) {
  Served met({}, flags());
  TlsClient client(met.port(), own_);
  for (int i = 0; i < 50; ++i) {
    const std::string request = post(kChat, chat_body()) + get("/health");
    const auto cut = static_cast<std::size_t>(i * 5) % request.size();
    client.send(request.substr(0, cut));
    client.send(request.substr(cut));
    for (int n = 0; n < 2; ++n) {
      const auto answer = client.answer();
      ASSERT_TRUE(answer) << i;
      EXPECT_EQ(answer->status, 200);
    }
  }
}

TEST_F(TlsTest, StrangersAreRefused) {
  Served met({}, flags({"--header-timeout-s", "0.3"}));
  EXPECT_FALSE(TlsClient(met.port(), other_).open()) << "another certificate is trusted";
  EXPECT_FALSE(TlsClient(met.port(), own_, {.version = TLS1_1_VERSION}).open());
  EXPECT_FALSE(TlsClient(met.port(), own_, {.alpn = "\x02h2"}).open());
  EXPECT_TRUE(TlsClient(met.port(), own_, {.alpn = "\x02h2\x08http/1.1"}).open());
  EXPECT_TRUE(TlsClient(met.port(), own_, {.alpn = ""}).open());
  Client plain(met.port(), 2);
  plain.send(get("/health"));
  EXPECT_FALSE(plain.answer());
  EXPECT_TRUE(plain.closed());
  Client silent(met.port(), 2);
  EXPECT_TRUE(silent.closed()) << "the handshake has the head's time";
  Client half(met.port(), 2);
  half.send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8));
  EXPECT_TRUE(half.closed());
  TlsClient client(met.port(), own_);
  client.send(get("/health"));
  EXPECT_EQ(client.answer()->status, 200);
}

TEST_F(TlsTest, LimitsHoldAsWithoutTls) {
  Served met({}, flags({"--idle-timeout-s", "0.3", "--header-timeout-s", "0.3", "--max-body-bytes", "4096"}));
  TlsClient idle(met.port(), own_, {}, 2);
  EXPECT_TRUE(idle.closed());
  TlsClient slow(met.port(), own_, {}, 2);
  slow.send("GET /health HTTP/1.1\r\nX-Slow: ");
  EXPECT_TRUE(slow.closed());
  TlsClient large(met.port(), own_);
  large.send(post(kChat, chat_body("", std::string(200'000, 'a'))));
  const auto answer = large.answer();
  ASSERT_TRUE(answer) << "an early refusal arrives although the body goes on";
  EXPECT_EQ(answer->status, 413);
}

TEST_F(TlsTest, SilenceWithinARequestIs408) {
  Served met({}, flags({"--header-timeout-s", "0.3"}));
  for (const std::string& begun :
       {std::string("POST /v1/chat"),
        "POST " + std::string(kChat) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"}) {
    TlsClient client(met.port(), own_, {}, 2);
    client.send(begun);
    const auto answer = client.answer();
    ASSERT_TRUE(answer) << begun;
    EXPECT_EQ(answer->status, 408);
    EXPECT_EQ(answer->header("connection"), "close");
  }
}

TEST_F(TlsTest, EveryWayOfLeavingCancels) {  // R5, R6
  Served met({}, flags());
  met.engine.hold(true);
  for (const bool reset : {true, false}) {
    TlsClient client(met.port(), own_);
    client.send(post(kChat, chat_body(R"(,"stream":true)")));
    ASSERT_TRUE(met.eventually([&] { return met.engine.running() == 1; }));
    if (reset) {
      client.reset();
    } else {
      client.send_close_notify();
    }
    EXPECT_TRUE(met.eventually([&] { return met.engine.running() == 0; })) << reset;
  }
}

TEST_F(TlsTest, AHalfClosedClientThatSaidSoGetsItsAnswer) {
  Served met({}, flags());
  for (const bool notify : {true, false}) {
    met.engine.hold(true);
    TlsClient client(met.port(), own_);
    client.send(post(kChat, chat_body(), {"Connection: close"}));
    ASSERT_TRUE(met.eventually([&] { return met.engine.running() == 1; }));
    if (notify) client.send_close_notify();
    client.half_close();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    met.engine.hold(false);
    const auto answer = client.answer();
    ASSERT_TRUE(answer) << notify;
    EXPECT_EQ(answer->status, 200);
    EXPECT_TRUE(client.closed());
  }
}

TEST_F(TlsTest, ManyStreamsAtOnceAndASlowReader) {
  Served met(saying(std::string(400, 'x')), flags({"--io-threads", "2"}));
  TlsClient slow(met.port(), own_);
  const std::string body = R"({"model":"tiny","max_tokens":400,"stream":true,"n":8,"prompt":"abc"})";
  slow.send(post("/v1/completions", body));
  std::vector<std::jthread> clients;
  std::atomic<int> good = 0;
  for (int i = 0; i < 20; ++i)
    clients.emplace_back([&] {
      TlsClient client(met.port(), own_);
      client.send(post(kChat, chat_body(R"(,"stream":true)")));
      const auto answer = client.answer();
      good += answer && answer->body.ends_with("data: [DONE]\n\n") ? 1 : 0;
    });
  clients.clear();
  EXPECT_EQ(good, 20);
  const auto answer = slow.answer();
  ASSERT_TRUE(answer);
  EXPECT_GT(chunks_of(answer->body).size(), 8U);
}

}  // namespace
}  // namespace met::testing
