// Each transform against its golden (FP64, written by an independent script), and Philox against Random123.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "core/json.h"
#include "sampling/philox.h"
#include "sampling/processors.h"
#include "sampling/sampler.h"
#include "sampling/selection.h"
#include "sampling/vector_math.h"

namespace met::sampling {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> numbers(const json::Value& tensor) {
  std::vector<double> out;
  for (const json::Value& v : tensor.find("data")->as_array())
    out.push_back(v.is_null() ? -kInfinity : v.as_number());
  return out;
}

struct Golden {
  std::string name;
  json::Value params;
  json::Value inputs;
  json::Value outputs;
  std::vector<float> logits;
  History history;

  double param(const char* key, double missing = 0) const {
    const json::Value* v = params.find(key);
    return v == nullptr ? missing : v->as_number();
  }
  bool has(const char* key) const { return params.find(key) != nullptr; }
};

std::map<std::string, Golden> goldens() {
  std::ifstream in(std::string(MET_SOURCE_DIR) + "/tests/sampling/data/sampling.json");
  std::stringstream text;
  text << in.rdbuf();
  const json::Value document = *json::parse(text.str());
  std::map<std::string, Golden> all;
  for (const json::Value& c : document.find("cases")->as_array()) {
    Golden g{c.find("name")->as_string(), *c.find("params"), *c.find("inputs"), *c.find("outputs"), {}, {}};
    if (const json::Value* logits = g.inputs.find("logits"))
      for (const double v : numbers(*logits)) g.logits.push_back(static_cast<float>(v));
    if (const json::Value* history = g.inputs.find("history")) {
      g.history.start({}, static_cast<int>(g.logits.size()), 0, true);
      for (const double v : numbers(*history)) g.history.append(static_cast<std::int32_t>(v));
    }
    all.emplace(g.name, std::move(g));
  }
  return all;
}

void expect_logits(const Golden& g, std::span<const float> got) {
  const std::vector<double> want = numbers(*g.outputs.find("logits"));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i] == -kInfinity)
      EXPECT_EQ(got[i], kRemoved) << g.name << " token " << i;
    else
      EXPECT_NEAR(got[i], want[i], 2e-6 * std::max(1.0, std::abs(want[i]))) << g.name << " token " << i;
  }
}

/// The candidates that are left, with their probabilities.
void expect_selection(const Golden& g, Selection& selection) {
  const std::vector<double> want = numbers(*g.outputs.find("probs"));
  const std::vector<double> kept = numbers(*g.outputs.find("logits"));
  std::vector<double> got(want.size(), 0.0);
  std::vector<bool> present(want.size(), false);
  for (std::size_t i = 0; i < selection.size(); ++i) {
    got[static_cast<std::size_t>(selection.id(i))] = selection.probability(i);
    present[static_cast<std::size_t>(selection.id(i))] = true;
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(present[i], kept[i] != -kInfinity) << g.name << " token " << i;
    EXPECT_NEAR(got[i], want[i], 1e-6) << g.name << " token " << i;
  }
}

void start(Selection& selection, std::span<const float> logits, double temperature = 1.0) {
  selection.start(logits, scan_row(logits).max, temperature);
}

TEST(SamplingGoldens, ProcessorsChangeTheLogitsAsStated) {
  int cases = 0;
  for (auto& [name, g] : goldens()) {
    std::vector<float> l = g.logits;
    if (name.starts_with("repetition")) {
      penalize_repetition(l, g.history, g.param("penalty"), name.find("per_occurrence") != std::string::npos);
    } else if (name == "presence" || name.starts_with("frequency")) {
      penalize_output(l, g.history, g.param("presence_penalty"), g.param("frequency_penalty"));
    } else if (name.starts_with("dry")) {
      SamplingParams p;
      p.dry_multiplier = g.param("multiplier");
      p.dry_base = g.param("base");
      p.dry_allowed_length = static_cast<int>(g.param("allowed_length"));
      for (const json::Value& b : g.params.find("breakers")->as_array())
        p.dry_breakers.push_back({static_cast<std::int32_t>(b.as_int())});
      DryPenalty().apply(l, g.history.tokens(), p);
    } else if (name == "lz_ngram") {
      penalize_ngrams(l, g.history.tokens(), g.param("lz_penalty"));
    } else if (name == "logit_bias") {
      std::vector<std::pair<std::int32_t, float>> bias;
      for (const auto& [id, value] : g.params.find("logit_bias")->as_object())
        bias.emplace_back(std::stoi(id), static_cast<float>(value.as_number()));
      add_bias(l, bias);
    } else {
      continue;
    }
    expect_logits(g, l);
    ++cases;
  }
  EXPECT_EQ(cases, 12);
}

TEST(SamplingGoldens, FiltersKeepTheStatedTokens) {
  int cases = 0;
  for (auto& [name, g] : goldens()) {
    Selection s;
    if (name.starts_with("temperature")) {
      start(s, g.logits, g.param("temperature"));
    } else if (name.starts_with("top_k")) {
      start(s, g.logits);
      s.top_k(static_cast<std::int64_t>(g.param("top_k")));
    } else if (name.starts_with("top_p")) {
      start(s, g.logits);
      s.top_p(g.param("top_p"));
    } else if (name.starts_with("min_p")) {
      start(s, g.logits);
      s.min_p(g.param("min_p"));
    } else if (name.starts_with("typical")) {
      start(s, g.logits);
      s.typical(g.param("typical_p"));
    } else if (name.starts_with("top_n_sigma")) {
      start(s, g.logits);
      s.top_n_sigma(g.param("n_sigma"), name.find("from_mean") != std::string::npos);
    } else if (name.starts_with("xtc")) {
      start(s, g.logits);
      if (g.param("u") < g.param("probability")) s.exclude_top(g.param("threshold"));
    } else {
      continue;
    }
    expect_selection(g, s);
    ++cases;
  }
  EXPECT_EQ(cases, 17);
}

TEST(SamplingGoldens, MirostatCutsAndDraws) {
  int cases = 0;
  for (auto& [name, g] : goldens()) {
    if (!name.starts_with("mirostat")) continue;
    Selection s;
    start(s, g.logits);
    s.surprise_at_most(g.param("mu"));
    expect_selection(g, s);
    const std::size_t index = s.draw_sorted(g.param("u"));
    EXPECT_EQ(s.id(index), g.outputs.find("token")->as_int());
    const double mu = g.param("mu") - g.param("eta") * (-std::log2(s.probability(index)) - g.param("tau"));
    EXPECT_NEAR(mu, g.outputs.find("mu")->as_number(), 1e-5);
    ++cases;
  }
  EXPECT_EQ(cases, 2);
}

TEST(SamplingGoldens, ChainsGiveTheStatedToken) {
  int cases = 0;
  for (auto& [name, g] : goldens()) {
    if (!name.starts_with("chain")) continue;
    std::vector<float> l = g.logits;
    penalize_output(l, g.history, g.param("presence_penalty"), g.param("frequency_penalty"));
    Selection s;
    start(s, l, g.param("temperature"));
    s.top_n_sigma(g.param("top_n_sigma_from_mean"), /*from_mean=*/true);
    s.top_k(static_cast<std::int64_t>(g.param("top_k")));
    s.min_p(g.param("min_p"));
    s.top_p(g.param("top_p"));
    expect_selection(g, s);
    EXPECT_EQ(s.id(s.draw(g.param("u"))), g.outputs.find("token_ascending_ids")->as_int()) << name;
    ++cases;
  }
  EXPECT_EQ(cases, 3);
}

TEST(SamplingGoldens, GreedyTakesTheFirstMaximum) {  // D3
  const Golden g = goldens().at("greedy_tie");
  SamplingParams p;
  p.temperature = 0;
  p.seed = 1;
  Sampler sampler = *Sampler::create(p, {.vocab_size = static_cast<int>(g.logits.size())});
  std::vector<float> l = g.logits;
  EXPECT_EQ(sampler.sample(l, 0)->id, g.outputs.find("first_maximum")->as_int());
}

TEST(SamplingGoldens, LogprobsAreThoseOfTheRawLogits) {
  const Golden g = goldens().at("logprobs");
  const std::vector<double> want = numbers(*g.outputs.find("logprobs"));
  std::vector<Logprob> got;
  for (std::size_t id = 0; id < want.size(); ++id) {
    logprobs(g.logits, static_cast<std::int32_t>(id), 0, got);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_NEAR(got[0].logprob, want[id], 1e-6 * std::max(1.0, std::abs(want[id])));
  }
  logprobs(g.logits, 0, 5, got);
  const std::vector<double> ids = numbers(*g.outputs.find("top5_ids"));
  ASSERT_EQ(got.size(), 6U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got[i + 1].id, static_cast<std::int32_t>(ids[i]));
    EXPECT_EQ(got[i + 1].rank, static_cast<std::int64_t>(i) + 1);
  }
}

TEST(SamplingGoldens, SpeculativeAcceptanceAndResidual) {  // V2
  const Golden g = goldens().at("speculative_residual");
  const std::vector<double> target = numbers(*g.inputs.find("target_probs"));
  const std::vector<double> draft = numbers(*g.inputs.find("draft_probs"));
  const std::vector<double> accept = numbers(*g.outputs.find("accept_probability"));
  const std::vector<double> want = numbers(*g.outputs.find("residual"));
  std::vector<double> got(target.size());
  residual(target, draft, got);
  for (std::size_t i = 0; i < target.size(); ++i) {
    EXPECT_NEAR(accept_probability(target[i], draft[i]), accept[i], 1e-8);
    EXPECT_NEAR(got[i], want[i], 1e-8);
  }
}

TEST(Philox, GivesTheKnownAnswersOfRandom123) {  // kat_vectors, philox4x32 10
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace
}  // namespace met::sampling
