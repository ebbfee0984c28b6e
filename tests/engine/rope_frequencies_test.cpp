// Frequencies of every rope kind against the operator goldens (reference library, float64).
#include "ops/rope_kv/rope_frequencies.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "core/json.h"

namespace met::ops {
namespace {

double number(const json::Value& params, const char* key, double otherwise) {
  const json::Value* v = params.find(key);
  return v == nullptr || v->is_null() ? otherwise : v->as_number();
}

config::RopeConfig rope_of(const std::string& name, const json::Value& params) {
  config::RopeConfig rope;
  const json::Value* type = params.find("rope_type");
  const std::string kind = type != nullptr ? type->as_string() : name;
  rope.kind = kind == "llama3"   ? config::RopeKind::kLlama3
              : kind == "yarn"   ? config::RopeKind::kYarn
              : kind == "linear" ? config::RopeKind::kLinear
                                 : config::RopeKind::kPlain;
  rope.theta = number(params, "rope_theta", 10000);
  rope.partial_factor = number(params, "partial_rotary_factor", 1);
  rope.factor = number(params, "factor", 1);
  rope.low_freq_factor = number(params, "low_freq_factor", 1);
  rope.high_freq_factor = number(params, "high_freq_factor", 4);
  rope.original_max_positions = number(params, "original_max_position_embeddings", 0);
  rope.beta_fast = number(params, "beta_fast", 32);
  rope.beta_slow = number(params, "beta_slow", 1);
  rope.attention_factor = number(params, "attention_factor", 0);
  rope.mscale = number(params, "mscale", 0);
  rope.mscale_all_dim = number(params, "mscale_all_dim", 0);
  if (const json::Value* truncate = params.find("truncate")) rope.truncate = truncate->as_bool();
  return rope;
}

TEST(RopeFrequencies, MatchTheReference) {
  const auto path =
      std::filesystem::path(MET_SOURCE_DIR).parent_path() / "shared" / "goldens" / "ops" / "rope.json";
  std::ifstream file(path);
  if (!file) GTEST_SKIP() << "operator goldens are not here";
  const auto golden = json::parse(std::string((std::istreambuf_iterator<char>(file)), {}));
  ASSERT_TRUE(golden) << golden.error().message;
  const std::set<std::string> kinds = {"neox",
                                       "interleaved",
                                       "partial_neox",
                                       "partial_interleaved",
                                       "linear",
                                       "llama3",
                                       "yarn",
                                       "yarn_no_truncate",
                                       "yarn_mscale",
                                       "yarn_mscale_interleaved",
                                       "yarn_attention_factor"};
  std::size_t seen = 0;
  for (const json::Value& c : golden->find("cases")->as_array()) {
    const std::string name = c.find("name")->as_string();
    if (!kinds.contains(name)) continue;
    ++seen;
    const json::Value& params = *c.find("params");
    const auto got = rope_frequencies(rope_of(name, params), 32);
    ASSERT_TRUE(got) << name << ": " << got.error().message;
    EXPECT_EQ(got->rotary_dim, static_cast<int>(number(params, "rotary_dim", 32))) << name;
    EXPECT_NEAR(got->scale, number(params, "cos_sin_factor", 1), 1e-6) << name;
    const json::Array& want = c.find("outputs")->find("inv_freq")->find("data")->as_array();
    ASSERT_EQ(got->inverse.size(), want.size()) << name;
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got->inverse[i] / want[i].as_number(), 1, 1e-6) << name << " pair " << i;
  }
  EXPECT_EQ(seen, kinds.size());
}

TEST(RopeFrequencies, PlainFrequenciesByHand) {
  const auto got = rope_frequencies({.theta = 100}, 4);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->inverse, (std::vector<float>{1.0F, 0.1F}));
}

TEST(RopeFrequencies, FactorsOfTheFileDivideEachFrequency) {
  const auto got = rope_frequencies({.theta = 100, .freq_factors = {2, 4}}, 4);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->inverse, (std::vector<float>{0.5F, 0.025F}));
}

TEST(RopeFrequencies, RefusesWhatItCannotDo) {
  EXPECT_EQ(rope_frequencies({.kind = config::RopeKind::kDynamic}, 64).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(rope_frequencies({.freq_factors = {1, 2}}, 64).error().field, "rope_freqs.weight");
  EXPECT_FALSE(rope_frequencies({.partial_factor = 0.1}, 10));
}

}  // namespace
}  // namespace met::ops
