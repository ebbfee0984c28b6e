// What the sampler promises beyond single transforms.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "sampling/philox.h"
#include "sampling/processors.h"
#include "sampling/sampler.h"

namespace met::sampling {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Sampler make(SamplingParams p, int vocab_size, std::vector<std::int32_t> prompt = {},
             std::vector<std::int32_t> end = {}) {
  if (!p.seed) p.seed = 42;
  auto sampler = Sampler::create(p, {.vocab_size = vocab_size, .prompt = prompt, .end_ids = end});
  EXPECT_TRUE(sampler) << sampler.error().message;
  return std::move(*sampler);
}

std::int32_t choose(Sampler& sampler, std::vector<float> logits, std::int64_t position = 0) {
  return sampler.sample(logits, position)->id;
}

std::vector<float> random_logits(int size, float deviation, unsigned seed = 7) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> logits(static_cast<std::size_t>(size));
  for (float& l : logits) l = normal(random);
  return logits;
}

double chi_square(const std::vector<double>& p, const std::vector<int>& counts, int draws) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * draws;
    if (expected > 0) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

TEST(Sampler, DrawsFollowTheExactDistribution) {
  constexpr int kTokens = 16;
  constexpr int kDraws = 40'000;
  const std::vector<float> logits = random_logits(kTokens, 1.5F);
  std::vector<double> p(kTokens);
  double total = 0;
  for (int i = 0; i < kTokens; ++i) total += p[i] = std::exp(static_cast<double>(logits[i]) / 0.9);
  for (double& v : p) v /= total;
  SamplingParams params;
  params.temperature = 0.9;
  Sampler sampler = make(params, kTokens);
  std::vector<int> counts(kTokens);
  for (int position = 0; position < kDraws; ++position) ++counts[choose(sampler, logits, position)];
  // 15 degrees of freedom: 37.7 is the 0.1 % point.
  EXPECT_LT(chi_square(p, counts, kDraws), 37.7);
  // The same counts against another temperature must be refused, or the test sees nothing.
  std::vector<double> wrong(kTokens);
  total = 0;
  for (int i = 0; i < kTokens; ++i) total += wrong[i] = std::exp(static_cast<double>(logits[i]) / 1.0);
  for (double& v : wrong) v /= total;
  EXPECT_GT(chi_square(wrong, counts, kDraws), 37.7);
}

TEST(Sampler, DynamicTemperatureFollowsTheEntropy) {
  SamplingParams params;
  params.temperature = 0.8;
  params.dynatemp_range = 0.5;
  params.dynatemp_exponent = 2;
  constexpr int kTokens = 12;
  for (const float deviation : {0.0F, 0.7F, 4.0F}) {
    const std::vector<float> logits = random_logits(kTokens, deviation);
    const double peak = *std::ranges::max_element(logits);
    double total = 0;
    double entropy = 0;
    for (const float l : logits) total += std::exp(l - peak);
    for (const float l : logits) entropy -= std::exp(l - peak) / total * std::log(std::exp(l - peak) / total);
    const double t = 0.3 + (1.3 - 0.3) * std::pow(entropy / std::log(kTokens), 2);
    double scaled = 0;
    for (const float l : logits) scaled += std::exp((l - peak) / t);
    Sampler sampler = make(params, kTokens);
    std::vector<float> scratch = logits;
    std::vector<double> got(kTokens);
    ASSERT_TRUE(sampler.probabilities(scratch, 0, got));
    for (int i = 0; i < kTokens; ++i)
      EXPECT_NEAR(got[i], std::exp((logits[i] - peak) / t) / scaled, 1e-5) << deviation;
  }
}

TEST(Sampler, TopPOfAWideVocabularyKeepsTheSmallestPrefix) {
  for (const float deviation : {0.0F, 0.5F, 2.0F, 6.0F}) {
    for (const double top_p : {0.05, 0.5, 0.9, 0.999}) {
      const std::vector<float> logits = random_logits(5000, deviation);
      SamplingParams params;
      params.top_p = top_p;
      Sampler sampler = make(params, 5000);
      std::vector<float> scratch = logits;
      std::vector<double> got(5000);
      ASSERT_TRUE(sampler.probabilities(scratch, 0, got));
      std::vector<std::int32_t> order(5000);
      for (int i = 0; i < 5000; ++i) order[i] = i;
      std::ranges::stable_sort(order, [&](int a, int b) { return logits[a] > logits[b]; });
      double total = 0;
      for (const float l : logits) total += std::exp(static_cast<double>(l));
      double mass = 0;
      std::size_t kept = 0;
      while (kept < order.size() && mass < top_p * total)
        mass += std::exp(static_cast<double>(logits[order[kept++]]));
      const auto present = std::ranges::count_if(got, [](double v) { return v > 0; });
      EXPECT_NEAR(static_cast<double>(present), static_cast<double>(kept), 1.0) << deviation << " " << top_p;
      for (std::size_t i = 0; i + 1 < kept; ++i)
        ASSERT_GT(got[order[i]], 0) << deviation << " " << top_p << " " << i;
    }
  }
}

TEST(Sampler, EqualSeedsGiveEqualTokensAndPositionsDiffer) {  // D1, D2
  const std::vector<float> logits = random_logits(1000, 1.0F);
  SamplingParams params;
  params.seed = 1234;
  Sampler a = make(params, 1000);
  Sampler b = make(params, 1000);
  params.choice = 1;
  Sampler other_choice = make(params, 1000);
  params.choice = 0;
  params.seed = 1235;
  Sampler other_seed = make(params, 1000);
  std::set<std::int32_t> ids;
  int same_choice = 0;
  int same_seed = 0;
  for (int position = 63; position >= 0; --position) {  // backwards: no hidden state
    const std::int32_t id = choose(a, logits, position);
    ids.insert(id);
    EXPECT_EQ(choose(b, logits, position), id);
    EXPECT_EQ(choose(a, logits, position), id);
    same_choice += choose(other_choice, logits, position) == id ? 1 : 0;
    same_seed += choose(other_seed, logits, position) == id ? 1 : 0;
  }
  EXPECT_GT(ids.size(), 40U);
  EXPECT_LT(same_choice, 10);
  EXPECT_LT(same_seed, 10);
}

TEST(Sampler, TopKOfOneAndTinyTemperaturesAreGreedy) {
  const std::vector<float> logits = {0.5F, 3.0F, 3.0F, -1.0F};
  SamplingParams top_k;
  top_k.top_k = 1;
  SamplingParams cold;
  cold.temperature = 9e-6;
  for (const SamplingParams& p : {top_k, cold}) {
    Sampler sampler = make(p, 4);
    EXPECT_TRUE(sampler.greedy());
    for (int position = 0; position < 20; ++position) EXPECT_EQ(choose(sampler, logits, position), 1);
  }
}

TEST(Sampler, PresenceAndFrequencyCountTheOutputOnly) {
  SamplingParams params;
  params.temperature = 0;
  params.presence_penalty = 1.0;
  params.frequency_penalty = 0.5;
  const std::vector<float> logits = {2.0F, 1.9F, 0.0F};
  Sampler sampler = make(params, 3, /*prompt=*/{0, 0, 0, 0});
  EXPECT_EQ(choose(sampler, logits), 0) << "the prompt must not count";
  sampler.accept(0);
  EXPECT_EQ(choose(sampler, logits), 1);
  sampler.rewind(1);
  EXPECT_EQ(choose(sampler, logits), 0) << "a rewound token must not count";
}

TEST(Sampler, RepetitionCountsPromptAndOutputOnce) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 1.5;
  const std::vector<float> logits = {2.0F, 1.5F, 1.2F};
  Sampler sampler = make(params, 3, /*prompt=*/{0, 0, 0});
  EXPECT_EQ(choose(sampler, logits), 1);  // 2.0 / 1.5 = 1.33
  sampler.accept(1);
  EXPECT_EQ(choose(sampler, logits), 0) << "1.33 against 1.0 and 1.2: once, not per occurrence";
}

TEST(Sampler, ARepeatedWordGivesWayUnderFrequencyPenalty) {  // ten times the same token
  SamplingParams params;
  params.temperature = 0;
  params.frequency_penalty = 2.0;
  const std::vector<float> logits = {10.0F, 5.0F};
  Sampler sampler = make(params, 2);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(choose(sampler, logits, i));
    sampler.accept(ids.back());
  }
  EXPECT_GT(std::ranges::count(ids, 1), 2);
}

TEST(Sampler, NeutralPenaltiesChangeNoBit) {
  const std::vector<float> logits = random_logits(500, 2.0F);
  SamplingParams neutral;
  Sampler a = make(neutral, 500, {1, 2, 3});
  neutral.presence_penalty = 0.0;
  neutral.repetition_penalty = 1.0;
  neutral.dry_multiplier = 0.0;
  Sampler b = make(neutral, 500, {1, 2, 3});
  EXPECT_TRUE(b.neutral());
  for (int position = 0; position < 50; ++position) {
    std::vector<float> x = logits;
    std::vector<float> y = logits;
    EXPECT_EQ(a.sample(x, position)->id, b.sample(y, position)->id);
    EXPECT_EQ(x, logits) << "neutral sampling leaves the logits alone";
    a.accept(7);
    b.accept(7);
  }
}

TEST(Sampler, MasksHold) {
  SamplingParams params;
  params.temperature = 0;
  params.min_tokens = 2;
  params.bad_words = {{1, 2}, {5}};
  params.logit_bias = {{4, -100.0F}};
  const std::vector<float> logits = {9, 1, 2, 3, 8, 7};
  Sampler sampler = make(params, 6, {}, /*end=*/{0});
  EXPECT_EQ(choose(sampler, logits), 3) << "0 ends, 5 is bad, 4 is biased away";
  sampler.accept(1);
  const std::vector<float> prefer_two = {9, 1, 6, 3, 8, 7};
  EXPECT_EQ(choose(sampler, prefer_two), 3) << "1 2 is bad";
  sampler.accept(3);
  EXPECT_EQ(choose(sampler, logits), 0) << "min_tokens is reached";

  SamplingParams only;
  only.allowed_token_ids = {4, 2};
  Sampler allowed = make(only, 6);
  for (int position = 0; position < 50; ++position) {
    const std::int32_t id = choose(allowed, logits, position);
    EXPECT_TRUE(id == 2 || id == 4);
  }
  std::vector<float> scratch = logits;
  const std::uint32_t grammar[] = {0b001010};
  EXPECT_EQ(make(params, 6).sample(scratch, 0, grammar)->id, 3);
}

TEST(Sampler, HostileRowsGiveATokenAndAFlag) {
  SamplingParams params;
  struct Case {
    const char* name;
    std::vector<float> logits;
    bool non_finite;
    bool empty;
    std::set<std::int32_t> ids;
  };
  const Case cases[] = {
      {"all removed", {-kInfinity, -kInfinity, -kInfinity}, false, true, {0, 1, 2}},
      {"all NaN", {kNan, kNan, kNan}, true, true, {0, 1, 2}},
      {"one NaN", {kNan, 1.0F, -kInfinity}, true, false, {1}},
      {"infinity", {0.0F, kInfinity, 1.0F}, true, false, {1}},
      {"huge", {3e38F, -3e38F, -kInfinity}, false, false, {0}},
      {"one left", {-kInfinity, -kInfinity, -50.0F}, false, false, {2}},
      {"equal", {1.0F, 1.0F, 1.0F}, false, false, {0, 1, 2}},
  };
  for (const Case& c : cases) {
    for (const double temperature : {0.0, 0.01, 1.0, 2.0}) {
      for (const double top_p : {0.01, 0.9, 1.0}) {
        params.temperature = temperature;
        params.top_p = top_p;
        params.typical_p = top_p;
        params.min_p = 1.0 - top_p;
        params.top_n_sigma = 1;
        params.xtc_probability = 1;
        Sampler sampler = make(params, 3);
        std::vector<float> logits = c.logits;
        const Sampled got = *sampler.sample(logits, 3);
        EXPECT_TRUE(c.ids.contains(got.id)) << c.name << " " << got.id;
        EXPECT_EQ(got.non_finite, c.non_finite) << c.name;
        EXPECT_EQ(got.empty, c.empty) << c.name;
      }
    }
  }
}

TEST(Sampler, AMaskRemovesTheTokensWithoutABit) {
  std::mt19937 random(3);
  for (const std::size_t size : {1U, 7U, 8U, 31U, 32U, 33U, 63U, 70U, 1000U})
    for (const std::size_t words : {(size + 31) / 32, (size + 31) / 64}) {  // whole, and too short
      std::vector<std::uint32_t> bits(words);
      for (std::uint32_t& word : bits) word = random() % 3 == 0 ? 0U : random() % 3 == 0 ? ~0U : random();
      std::vector<float> logits(size), want;
      for (float& l : logits) l = random() % 5 == 0 ? std::nanf("") : static_cast<float>(random());
      for (std::size_t i = 0; i < size; ++i) {
        const bool kept =
            words == 0 || (i / 32 < words && (bits[i / 32] >> i % 32 & 1U) != 0);  // no mask: all
        want.push_back(kept ? logits[i] : kRemoved);
      }
      mask_tokens(logits, bits);
      EXPECT_EQ(std::memcmp(logits.data(), want.data(), size * sizeof(float)), 0)
          << size << " of " << words << " words";
    }
}

TEST(Sampler, AnEmptyMaskIsReported) {
  SamplingParams params;
  Sampler sampler = make(params, 3);
  std::vector<float> logits = {1.0F, 5.0F, 2.0F};
  const std::uint32_t none[] = {0};
  const Sampled got = *sampler.sample(logits, 0, none);
  EXPECT_TRUE(got.empty);
  EXPECT_EQ(got.id, 1);
}

TEST(Sampler, MirostatHoldsTheSurpriseNearTau) {
  const std::vector<float> logits = random_logits(2000, 2.0F);
  double total = 0;
  for (const float l : logits) total += std::exp(static_cast<double>(l));
  for (const int version : {1, 2}) {
    SamplingParams params;
    params.mirostat = version;
    params.mirostat_tau = 4.0;
    params.mirostat_eta = 0.1;
    Sampler sampler = make(params, 2000);
    double surprise = 0;
    for (int position = 0; position < 600; ++position) {
      std::vector<float> scratch = logits;
      std::vector<double> p(2000);
      ASSERT_TRUE(sampler.probabilities(scratch, position, p));
      const std::int32_t id = choose(sampler, logits, position);
      if (position >= 100) surprise += -std::log2(p[static_cast<std::size_t>(id)]);
      sampler.accept(id);
    }
    EXPECT_NEAR(surprise / 500, 4.0, 0.3) << version;
  }
}

TEST(Sampler, DryFollowsABruteForceSearch) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::int32_t> tokens(40);
    for (auto& t : tokens) t = static_cast<std::int32_t>(random() % 4);
    SamplingParams params;
    params.temperature = 1;
    params.dry_multiplier = 0.5;
    params.dry_base = 1.3;
    params.dry_allowed_length = 2;
    Sampler sampler = make(params, 4, tokens);
    std::vector<float> logits(4, 0.0F);
    std::vector<double> got(4);
    ASSERT_TRUE(sampler.probabilities(logits, 0, got));
    for (std::int32_t next = 0; next < 4; ++next) {
      int longest = 0;
      for (std::size_t end = 1; end < tokens.size(); ++end) {
        if (tokens[end] != next) continue;
        int n = 0;
        while (static_cast<std::size_t>(n) < end && tokens[end - 1 - n] == tokens[tokens.size() - 1 - n]) ++n;
        longest = std::max(longest, n);
      }
      const double want = longest >= 2 ? -0.5 * std::pow(1.3, longest - 2) : 0.0;
      EXPECT_NEAR(logits[static_cast<std::size_t>(next)], want, 1e-5 * std::abs(want) + 1e-6) << round;
    }
  }
}

TEST(Sampler, AWideVocabularyIsFast) {
  // A guard against losing an order of magnitude; docs/sampling.md has measured times.
  const std::vector<float> logits = random_logits(49152, 3.0F);
  SamplingParams params;
  params.temperature = 0.8;
  params.top_p = 0.95;
  Sampler sampler = make(params, 49152);
  std::vector<float> scratch = logits;
  double best = 1e9;
  for (int position = 0; position < 50; ++position) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_GE(sampler.sample(scratch, position)->id, 0);
    best = std::min(
        best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::cout << "top_p 0.95 of 49152: " << best << " us\n";
  EXPECT_LT(best, 3000);
}

}  // namespace
}  // namespace met::sampling
