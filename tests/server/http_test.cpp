// Framing, limits and routing through raw sockets.
#include <gmock/gmock.h>

#include "core/concat.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

using namespace std::string_literals;

using ::testing::HasSubstr;

constexpr std::string_view kChat = "/v1/chat/completions";

TEST(Http, CompressedBodiesAreRefusedByName) {
  Served met;
  const std::string body = chat_body();
  for (const auto& [coding, status] : {std::pair{"gzip", 415}, {"br, gzip", 415}, {"identity", 200}}) {
    const Answer answer = met.ask(concat("POST ", kChat, " HTTP/1.1\r\nHost: a\r\nContent-Encoding: ", coding,
                                         "\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
    EXPECT_EQ(answer.status, status) << coding;
    EXPECT_EQ(answer.body.contains("Content-Encoding"), status == 415) << answer.body;
  }
}

TEST(Http, AmbiguousLengthsAreRefusedAndTheConnectionCloses) {
  Served met;
  for (const std::vector<std::string>& headers :
       std::vector<std::vector<std::string>>{{"Transfer-Encoding: chunked", "Content-Length: 4"},
                                             {"Content-Length: 4", "Transfer-Encoding: chunked"},
                                             {"Content-Length: 2", "Content-Length: 30"},
                                             {"Content-Length: 5", "Content-Length: 5"},
                                             {"Transfer-Encoding: chunked", "Transfer-Encoding: identity"},
                                             {"Transfer-Encoding: gzip"},
                                             {"Transfer-Encoding: chunked, gzip"},
                                             {"Transfer-Encoding: xchunked", "Content-Length: 4"},
                                             {"Transfer-Encoding : chunked", "Content-Length: 4"},
                                             {"Content-Length: abc"},
                                             {"Content-Length: -1"},
                                             {"Content-Length: +5"},
                                             {"Content-Length: 0x5"},
                                             {"Content-Length: 99999999999999999999999999"},
                                             {"Content-Length: 5, 6"},
                                             {"Content-Length:"}}) {
    std::string request = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n";
    for (const std::string& header : headers) request += header + "\r\n";
    Client client(met.port());
    client.send(request + "\r\n0\r\n\r\n" + get("/health"));
    const auto answer = client.answer();
    ASSERT_TRUE(answer) << headers[0];
    EXPECT_THAT(answer->status, ::testing::AnyOf(400, 413)) << headers[0];
    EXPECT_EQ(answer->header("connection"), "close") << headers[0];
    EXPECT_FALSE(client.answer()) << "a smuggled request was served: " << headers[0];
  }
}

TEST(Http, MalformedHeadsAreRefused) {
  Served met;
  for (const std::string& head : std::vector<std::string>{
           "GET /health HTTP/1.1\r\n\r\n", "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "GET /health HTTP/9.9\r\nHost: a\r\n\r\n", "GET /health\r\n\r\n",
           "\x16\x03\x01\x02 bytes of another protocol\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost: a\r\nX Y: 1\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost: a\r\nX: a"s + '\0' + "b\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "GET nowhere HTTP/1.1\r\nHost: a\r\n\r\n"}) {
    Client client(met.port(), 1);
    client.send(head);
    const auto answer = client.answer();
    if (answer) {
      EXPECT_THAT(answer->status, ::testing::AnyOf(400, 505)) << head;
      EXPECT_EQ(at(parsed(answer->body), "error", "type").type_name(), "string");
    }
  }
  EXPECT_EQ(met.ask(get("/health")).status, 200);
}

TEST(Http, LimitsOnHeadAndBody) {
  Served met({}, {"--max-body-bytes", "4096"});
  EXPECT_EQ(met.ask(get("/health", {"X-Long: " + std::string(100'000, 'a')})).status, 431);
  EXPECT_EQ(met.ask("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n{")
                .status,
            413);
  EXPECT_EQ(met.ask(post(kChat, chat_body("", std::string(5000, 'a')))).status, 413);
  std::string chunked = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 10; ++i) chunked += "400\r\n" + std::string(1024, 'a') + "\r\n";
  EXPECT_EQ(met.ask(chunked + "0\r\n\r\n").status, 413);
  EXPECT_EQ(met.ask(get("/health")).status, 200);
}

TEST(Http, ChunkedBodiesAreReadAndBrokenOnesRefused) {
  Served met;
  const std::string body = chat_body();
  std::string request = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n";
  for (std::size_t i = 0; i < body.size(); i += 7) {
    const std::string part = body.substr(i, 7);
    request += std::to_string(part.size()) + "\r\n" + part + "\r\n";
  }
  EXPECT_EQ(met.ask(request + "0\r\n\r\n").status, 200);
  for (const char* broken :
       {"zz\r\n{}\r\n0\r\n\r\n", "-2\r\n{}\r\n0\r\n\r\n", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"}) {
    Client client(met.port(), 1);
    client.send(
        std::string("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n") +
        broken);
    const auto answer = client.answer();
    if (!answer) continue;
    EXPECT_THAT(answer->status, ::testing::AnyOf(400, 413)) << broken;
  }
}

TEST(Http, ConnectionsAreKeptAndPipelined) {
  Served met;
  Client client(met.port());
  client.send(get("/health") + post(kChat, chat_body()) + get("/no/such") + post(kChat, "{broken") +
              get("/health"));
  for (const int status : {200, 200, 404, 400, 200}) {
    const auto answer = client.answer();
    ASSERT_TRUE(answer) << status;
    EXPECT_EQ(answer->status, status);
  }
  client.send(post(kChat, chat_body(R"(,"stream":true)")) + get("/health"));
  EXPECT_THAT(client.answer()->body, HasSubstr("[DONE]"));
  EXPECT_EQ(client.answer()->status, 200);
  client.send(get("/health", {"Connection: close"}));
  EXPECT_EQ(client.answer()->header("connection"), "close");
  EXPECT_TRUE(client.closed());
}

TEST(Http, ARequestArrivesInAnyPieces) {
  Served met;
  Client client(met.port());
  client.send("\r\n");
  for (const char c : get("/health")) client.send({&c, 1});
  EXPECT_EQ(client.answer()->status, 200);
}

TEST(Http, ExpectContinueIsAnsweredBeforeTheBody) {
  Served met;
  const std::string body = chat_body();
  const std::string request = post(kChat, body, {"Expect: 100-continue"});
  Client client(met.port());
  client.send(request.substr(0, request.size() - body.size()));
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send(body);
  EXPECT_EQ(client.answer()->status, 200);
  EXPECT_EQ(met.ask(post(kChat, body, {"Expect: the-unexpected"})).status, 417);
}

TEST(Http, RoutesMethodsAndTargets) {
  Served met;
  struct Case {
    const char* line;
    int status;
  };
  for (const auto& [line, status] :
       {Case{"GET /no/such/route", 404}, Case{"POST /v1/no_such_thing", 404},
        Case{"GET /v1/../etc/passwd", 404}, Case{"GET /v1/completions", 405},
        Case{"PUT /v1/chat/completions", 405}, Case{"DELETE /health", 405}, Case{"GET /tokenize", 405},
        Case{"POST /v1/models", 405}, Case{"GET /v1/messages", 405}, Case{"GET /health?x=1&y=2", 200},
        Case{"GET http://x/health", 200}, Case{"OPTIONS *", 204}, Case{"OPTIONS /v1/chat/completions", 204},
        Case{"POST /v1/embeddings", 501}, Case{"GET /v1/files", 501}, Case{"GET /v1/models/tiny", 200},
        Case{"GET /v1/models/no%2Fne", 404}, Case{"GET /v1/models/%00", 404}}) {
    const Answer answer = met.ask(std::string(line) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(answer.status, status) << line;
    EXPECT_FALSE(answer.header("x-request-id").empty());
    EXPECT_EQ(status == 405, !answer.header("allow").empty() && status != 204) << line;
    if (status >= 400) {
      EXPECT_TRUE(answer.header("content-type").starts_with("application/json"));
      EXPECT_EQ(at(parsed(answer.body), "error", "message").type_name(), "string") << line;
    }
  }
  Client client(met.port());
  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto head = client.answer(/*head_only=*/true);
  EXPECT_EQ(head->status, 200);
  EXPECT_NE(head->header("content-length"), "0");
  client.send(get("/health"));
  EXPECT_EQ(client.answer()->status, 200) << "HEAD had a body";
}

TEST(Http, RequestIdsAreEchoedUnlessTheyCouldBreakAHeader) {
  Served met;
  EXPECT_EQ(met.ask(get("/health", {"X-Request-Id: my-request-1"})).header("x-request-id"), "my-request-1");
  EXPECT_TRUE(met.ask(get("/health", {"X-Request-Id: " + std::string(500, 'a')}))
                  .header("x-request-id")
                  .starts_with("req_"));
  EXPECT_FALSE(met.ask(post(kChat, chat_body())).header("openai-processing-ms").empty());
}

TEST(Http, CorsOpensToLoopbackPagesAndThoseNamed) {
  Served met({}, {"--cors-origin", "https://app.example"});
  const auto allowed = [&](const std::string& origin) {
    return met.ask(get("/v1/models", {"Origin: " + origin})).header("access-control-allow-origin");
  };
  EXPECT_EQ(allowed("http://localhost:3000"), "http://localhost:3000");
  EXPECT_EQ(allowed("https://app.example"), "https://app.example");
  EXPECT_EQ(allowed("http://evil.example"), "");
  EXPECT_EQ(allowed("http://localhost.evil.example"), "");
  const Answer preflight = met.ask(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost:1\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_THAT(preflight.header("access-control-allow-methods"), HasSubstr("POST"));
  EXPECT_EQ(preflight.header("access-control-allow-credentials"), "");
  EXPECT_THAT(preflight.header("access-control-allow-headers"), HasSubstr("authorization"));
  // The official packages send headers of their own from a page; what is no list of names is not repeated.
  for (const auto& [asked, repeated] : {std::pair{"authorization, content-type, x-stainless-lang", true},
                                        {"x-a: b", false},
                                        {"x\"y", false}}) {
    const Answer own = met.ask(
        concat("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n",
               "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: ", asked, "\r\n\r\n"));
    EXPECT_EQ(own.header("access-control-allow-headers") == asked, repeated) << asked;
  }
}

TEST(Http, SlowClientsDoNotHoldUpOthersAndAreCutOff) {
  Served met({}, {"--header-timeout-s", "0.3", "--idle-timeout-s", "0.5"});
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 32; ++i) {
    slow.push_back(std::make_unique<Client>(met.port(), 2));
    slow.back()->send("GET /health HTTP/1.1\r\nX-Slow: ");
  }
  EXPECT_EQ(met.ask(get("/health")).status, 200);
  EXPECT_TRUE(slow[0]->closed());
  Client idle(met.port(), 2);
  EXPECT_TRUE(idle.closed());
}

TEST(Http, BlankLinesDoNotKeepAConnection) {
  Served met({}, {"--idle-timeout-s", "0.4"});
  Client client(met.port(), 2);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 8; ++i) {
    client.send("\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(client.closed());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST(Http, ABodyThatTricklesIs408) {
  Served met({}, {"--body-timeout-s", "0.3"});
  Client client(met.port(), 2);
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 8; ++i) {
    client.send("{");
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  const auto answer = client.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 408);
  EXPECT_EQ(answer->header("connection"), "close");
  EXPECT_FALSE(at(parsed(answer->body), "error", "message").as_string().empty());
}

/// What a server says after `sent`, which is no whole request, and how long it took to.
void expect_408(const std::vector<std::string>& flags, const std::vector<std::string>& sent,
                const char* message) {
  Served met({}, flags);
  Client client(met.port(), 3);
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& bytes : sent) {
    client.send(bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const auto answer = client.answer();
  ASSERT_TRUE(answer) << message;
  EXPECT_EQ(answer->status, 408);
  EXPECT_EQ(answer->header("connection"), "close");
  EXPECT_THAT(at(parsed(answer->body), "error", "message").as_string(), HasSubstr(message));
  EXPECT_TRUE(client.closed());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2900)) << message;
}

TEST(Http, SilenceWithinARequestIs408) {
  const std::string head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n";
  const std::vector<std::string> flags = {"--header-timeout-s", "0.2", "--body-min-rate", "0"};
  expect_408(flags, {"POST /v1/chat"}, "the request's head");
  expect_408(flags, {head}, "the request's head");
  expect_408(flags, {head + "\r\n"}, "nothing of the body has come");
  expect_408(flags, {head + "\r\n{\"a\":", "1"}, "nothing of the body has come");
  expect_408(flags,
             {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n"},
             "nothing of the body has come");
}

TEST(Http, ABodyBelowTheLeastRateIs408) {
  const std::string head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n";
  std::vector<std::string> trickle(12, "{");
  trickle[0] = head;
  const std::vector<std::string> flags = {"--header-timeout-s", "0.3", "--body-min-rate"};
  const auto with = [&](const char* rate) {
    std::vector<std::string> out = flags;
    out.emplace_back(rate);
    return out;
  };
  expect_408(with("1000"), trickle, "slower than 1000 bytes a second");
  // fast enough for what has come, then silence
  expect_408(with("100"), {head, std::string(100, ' '), std::string(100, ' ')},
             "nothing of the body has come");
  expect_408(with("0"), trickle, "nothing of the body has come");
}

TEST(Http, ABodyThatIsFastEnoughIsAnswered) {
  Served met({}, {"--header-timeout-s", "0.3", "--body-min-rate", "100"});
  Client client(met.port(), 3);
  const std::string body = completion_body();
  client.send(
      concat("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ",
             body.size(), "\r\n\r\n"));
  for (std::size_t i = 0; i < body.size(); i += 10) {  // 10 bytes each 50 ms are 200 a second
    client.send(std::string_view(body).substr(i, 10));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const auto answer = client.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200) << answer->body;
  client.send(get("/health"));
  EXPECT_TRUE(client.answer()) << "the connection stays";
}

TEST(Http, HeadersAreCounted) {
  Served met;
  const auto with = [](int count) {
    std::vector<std::string> headers;
    for (int i = 0; i < count; ++i) headers.push_back(concat("X-", i, ": 1"));
    return get("/health", headers);
  };
  EXPECT_EQ(met.ask(with(127)).status, 200) << "and Host";
  const Answer refused = met.ask(with(128));
  EXPECT_EQ(refused.status, 431);
  EXPECT_EQ(refused.header("connection"), "close");
}

TEST(Http, OpenConnectionsAreBoundedExactly) {
  Served met({}, {"--max-connections", "5", "--io-threads", "4"});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(std::make_unique<Client>(met.port(), 1));
  const std::string request = get("/health");
  int served = 0;
  for (const auto& client : clients) client->send(request);
  for (const auto& client : clients) served += client->answer() ? 1 : 0;
  EXPECT_EQ(served, 5);
  clients.clear();
  EXPECT_TRUE(met.eventually([&] {
    Client next(met.port(), 1);
    next.send(request);
    return next.answer().has_value();
  }));
}

TEST(Http, Http10GetsNoChunks) {
  Served met;
  std::string request = post(kChat, chat_body(R"(,"stream":true)"));
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  Client client(met.port());
  client.send(request);
  const auto answer = client.answer();
  EXPECT_EQ(answer->header("transfer-encoding"), "");
  chunks_of(answer->body);
}

TEST(Http, TheWebPageIsServedOpenlyAndItsTagSavesItsBytes) {
  Served met({}, {"--require-auth", "--auth-token", "k"});
  const Answer page = met.ask(get("/"));
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.header("content-security-policy"), HasSubstr("script-src 'self'"));
  EXPECT_EQ(met.ask(get("/ui/app.js")).header("content-type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(met.ask(get("/ui/none.js")).status, 404);
  Client client(met.port());
  client.send(get("/", {"If-None-Match: " + page.header("etag")}));
  const auto same = client.answer(/*head_only=*/true);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->status, 304);
}

TEST(Http, WithoutThePageItsPathsAreNotThere) {
  Served met({}, {"--no-ui"});
  EXPECT_EQ(met.ask(get("/")).status, 404);
  EXPECT_EQ(met.ask(get("/ui/app.js")).status, 404);
  EXPECT_EQ(at(parsed(met.ask(post("/", "{}")).body), "error", "code").as_string(), "route_not_found");
}

TEST(Http, AnEventThatTheSocketDoesNotTakeAtOnceArrivesWhole) {
  FakeOptions options;
  options.max_seq_len = std::int64_t{1} << 24U;
  Served met(std::move(options));
  std::string prompt;
  for (int i = 0; prompt.size() < 4'500'000; ++i) prompt += std::to_string(i) + ' ';
  Client client(met.port(), 60);
  client.send(
      post("/v1/completions", R"({"stream":true,"echo":true,"max_tokens":1,"prompt":")" + prompt + "\"}"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // nobody reads
  const auto answer = client.answer();
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body.substr(0, 300);
  const auto chunks = chunks_of(answer->body);
  ASSERT_FALSE(chunks.empty());
  EXPECT_TRUE(at(chunks[0], "choices", 0, "text").as_string() == prompt);
}

}  // namespace
}  // namespace met::testing
