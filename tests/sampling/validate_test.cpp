#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "sampling/sampler.h"

namespace met::sampling {
namespace {

TEST(Validate, NamesTheFieldThatIsWrong) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  struct Case {
    const char* field;
    std::function<void(SamplingParams&)> spoil;
  };
  const Case cases[] = {
      {"temperature", [&](SamplingParams& p) { p.temperature = -0.1; }},
      {"temperature", [&](SamplingParams& p) { p.temperature = 2.1; }},
      {"temperature", [&](SamplingParams& p) { p.temperature = nan; }},
      {"temperature", [&](SamplingParams& p) { p.temperature = infinity; }},
      {"top_p", [&](SamplingParams& p) { p.top_p = 0; }},
      {"top_p", [&](SamplingParams& p) { p.top_p = 1.01; }},
      {"top_p", [&](SamplingParams& p) { p.top_p = nan; }},
      {"top_k", [&](SamplingParams& p) { p.top_k = -2; }},
      {"min_p", [&](SamplingParams& p) { p.min_p = 1.5; }},
      {"typical_p", [&](SamplingParams& p) { p.typical_p = 0; }},
      {"top_n_sigma", [&](SamplingParams& p) { p.top_n_sigma = -1; }},
      {"xtc_probability", [&](SamplingParams& p) { p.xtc_probability = 2; }},
      {"repetition_penalty", [&](SamplingParams& p) { p.repetition_penalty = 0; }},
      {"presence_penalty", [&](SamplingParams& p) { p.presence_penalty = 2.5; }},
      {"frequency_penalty", [&](SamplingParams& p) { p.frequency_penalty = -infinity; }},
      {"dry_base", [&](SamplingParams& p) { p.dry_base = 0.5; }},
      {"mirostat", [&](SamplingParams& p) { p.mirostat = 3; }},
      {"min_tokens", [&](SamplingParams& p) { p.min_tokens = -1; }},
      {"logit_bias", [&](SamplingParams& p) { p.logit_bias = {{5, std::nanf("")}}; }},
      {"logit_bias", [&](SamplingParams& p) { p.logit_bias = {{100, 1.0F}}; }},
      {"allowed_token_ids", [&](SamplingParams& p) { p.allowed_token_ids = {-1}; }},
      {"bad_words", [&](SamplingParams& p) { p.bad_words = {{}}; }},
  };
  ASSERT_TRUE(validate(SamplingParams{}, 100));
  for (const Case& c : cases) {
    SamplingParams p;
    c.spoil(p);
    const auto result = validate(p, 100);
    ASSERT_FALSE(result) << c.field;
    EXPECT_EQ(result.error().field, c.field);
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find(c.field), std::string::npos) << result.error().message;
  }
}

TEST(Validate, TakesTheEdges) {
  SamplingParams p;
  p.temperature = 2;
  p.top_p = 1;
  p.top_k = -1;
  p.min_p = 1;
  p.presence_penalty = -2;
  p.frequency_penalty = 2;
  p.logit_bias = {{99, -100.0F}};
  EXPECT_TRUE(validate(p, 100));
}

}  // namespace
}  // namespace met::sampling
