// Buckets on a clock that the test drives, then the limits through the served API.
#include "server/rate_limit.h"

#include <gmock/gmock.h>

#include "server/admission.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

using server::Rate;
using server::RateLimiter;
using ::testing::HasSubstr;

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::string_view kChat = "/v1/chat/completions";

struct SetClock final : Clock {
  std::int64_t us = 5;
  std::int64_t now_us() const override { return us; }
};

TEST(RateLimit, ABucketFillsEvenlyAndSaysWhenItWillDo) {
  SetClock clock;
  RateLimiter limiter({.requests = {.per_minute = 60, .burst = 2}}, {0, 1}, clock);
  EXPECT_TRUE(limiter.take_request(1));
  EXPECT_TRUE(limiter.take_request(1));
  const auto refused = limiter.take_request(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().wait_us, kSecondUs);
  EXPECT_TRUE(limiter.take_request(0)) << "another tenant's bucket is its own";
  clock.us += refused.error().wait_us - 1;
  EXPECT_FALSE(limiter.take_request(1));
  clock.us += 1;
  EXPECT_TRUE(limiter.take_request(1)) << "after the wait that was told";
  clock.us += 3600 * kSecondUs;
  EXPECT_EQ(limiter.state(1).requests.remaining, 2) << "never more than the burst";
}

TEST(RateLimit, AReservationGivesBackWhatWasNotUsed) {
  SetClock clock;
  RateLimiter limiter({.tokens = {.per_minute = 600, .burst = 1000}}, {0}, clock);
  const auto left = [&] { return limiter.state(0).tokens.remaining; };
  {
    auto reserved = limiter.reserve(0, 900);
    ASSERT_TRUE(reserved);
    EXPECT_EQ(left(), 100);
    RateLimiter::Reservation moved = std::move(*reserved);
    moved.use(250);
  }
  EXPECT_EQ(left(), 750);
  {
    auto unused = limiter.reserve(0, 750);
  }
  EXPECT_EQ(left(), 750);
  EXPECT_EQ(limiter.reserve(0, 760).error().wait_us, kSecondUs);
  EXPECT_EQ(limiter.reserve(0, 1001).error().wait_us, 0) << "never";
  {
    auto reserved = limiter.reserve(0, 10);
    reserved->use(1010);
  }
  EXPECT_EQ(left(), 0);
  EXPECT_EQ(limiter.state(0).tokens.reset_us, 126 * kSecondUs) << "what was owed is paid first";
}

TEST(RateLimit, TimesAreWrittenAsEachApiWritesThem) {
  for (const auto& [us, text] : std::vector<std::pair<std::int64_t, std::string>>{{0, "0s"},
                                                                                  {1, "1ms"},
                                                                                  {20'000, "20ms"},
                                                                                  {1'500'000, "1.5s"},
                                                                                  {60'000'000, "1m0s"},
                                                                                  {3'602'000'000, "1h0m2s"}})
    EXPECT_EQ(server::duration_text(us), text);
  // `date -u -d @1700000000`
  for (const auto& [us, text] : {std::pair{1'700'000'000'000'000, "2023-11-14T22:13:20Z"},
                                 std::pair{1'700'000'000'000'001, "2023-11-14T22:13:21Z"},
                                 std::pair{1'699'999'999'999'999, "2023-11-14T22:13:20Z"}})
    EXPECT_EQ(server::instant_text(us), text);
}

TEST(RateLimit, RequestsBeyondTheLimitAre429InEachApisShape) {
  Served met({}, {"--rate-limit-rpm", "2"});
  const Answer first = met.ask(post(kChat, chat_body()));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.header("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(first.header("x-ratelimit-remaining-requests"), "1");
  EXPECT_FALSE(first.header("x-ratelimit-reset-requests").empty());
  EXPECT_EQ(first.header("x-ratelimit-limit-tokens"), "") << "no limit, no header";
  EXPECT_EQ(met.ask(post(kChat, chat_body())).status, 200);
  const Answer openai = met.ask(post(kChat, chat_body()));
  EXPECT_EQ(openai.status, 429);
  EXPECT_EQ(at(parsed(openai.body), "error", "code").as_string(), "rate_limit_exceeded");
  EXPECT_THAT(std::stoi(openai.header("retry-after")),
              ::testing::AllOf(::testing::Ge(20), ::testing::Le(30)));
  const Answer anthropic = met.ask(post("/v1/messages", chat_body()));
  EXPECT_EQ(anthropic.status, 429);
  EXPECT_EQ(at(parsed(anthropic.body), "error", "type").as_string(), "rate_limit_error");
  EXPECT_EQ(anthropic.header("anthropic-ratelimit-requests-remaining"), "0");
  EXPECT_THAT(anthropic.header("anthropic-ratelimit-requests-reset"), HasSubstr("T"));
  EXPECT_EQ(met.ask(get("/health")).status, 200) << "probes are not limited";
  EXPECT_THAT(met.ask(get("/metrics")).body, HasSubstr("limit=\"requests\"} 2"));
}

TEST(RateLimit, TokensComeBackAndWhatNeverFitsIsRefusedForGood) {
  Served met({}, {"--rate-limit-tpm", "100"});
  const std::string large = R"({"model":"tiny","max_tokens":90,"prompt":"abcdef"})";
  const auto remaining = [](const Answer& answer) {
    return std::stoi(answer.header("x-ratelimit-remaining-tokens"));
  };
  const Answer never =
      met.ask(post("/v1/completions", R"({"model":"tiny","max_tokens":200,"prompt":"abcdef"})"));
  EXPECT_EQ(never.status, 400);
  EXPECT_EQ(at(parsed(never.body), "error", "code").as_string(), "request_exceeds_rate_limit");
  EXPECT_EQ(never.header("retry-after"), "");
  const Answer small = met.ask(post("/v1/completions", completion_body()));
  EXPECT_EQ(small.status, 200);
  EXPECT_GT(remaining(small), 80);
  met.engine.hold(true);
  {
    Client client(met.port());
    client.send(post("/v1/completions", R"({"model":"tiny","max_tokens":70,"prompt":"abcdef"})"));
    ASSERT_TRUE(met.eventually([&] { return met.engine.running() == 1; }));
    EXPECT_EQ(met.ask(post("/v1/completions", completion_body(R"(,"n":2)"))).status, 429);
    client.reset();
    ASSERT_TRUE(met.eventually([&] { return met.engine.running() == 0; }));
  }
  met.engine.hold(false);
  EXPECT_EQ(met.ask(post("/v1/completions", completion_body())).status, 200)
      << "a cancelled request paid back";
}

}  // namespace
}  // namespace met::testing
