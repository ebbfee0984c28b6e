// What a request asks of the sampler. Every default is neutral: a request without fields gets the model's own
// distribution.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace met::sampling {

struct SamplingParams {
  double temperature = 1.0;        ///< 0 (or below 1e-5): greedy
  double dynatemp_range = 0.0;     ///< 0: off; the temperature moves within +-range by the entropy
  double dynatemp_exponent = 1.0;  ///< how the normalized entropy maps to it
  int top_k = 0;                   ///< 0 or -1: off
  double top_p = 1.0;
  double min_p = 0.0;
  double typical_p = 1.0;
  double top_n_sigma = 0.0;  ///< 0: off; keeps logits >= max - n * stddev
  double xtc_probability = 0.0;
  double xtc_threshold = 0.1;
  double repetition_penalty = 1.0;  ///< prompt and output
  double presence_penalty = 0.0;    ///< output only
  double frequency_penalty = 0.0;   ///< output only
  double dry_multiplier = 0.0;
  double dry_base = 1.75;
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;                          ///< -1: whole context
  std::vector<std::vector<std::int32_t>> dry_breakers;  ///< token sequences that end a match
  double lz_penalty = 0.0;                              ///< repeated 3-, 4- and 5-grams; 0: off
  int mirostat = 0;                                     ///< 0, 1 or 2
  double mirostat_tau = 5.0;
  double mirostat_eta = 0.1;
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::vector<std::int32_t> allowed_token_ids;       ///< empty: all
  std::vector<std::vector<std::int32_t>> bad_words;  ///< token sequences never completed
  std::optional<std::uint64_t> seed;
  int choice = 0;      ///< index of this sequence among the request's n
  int min_tokens = 0;  ///< end and stop ids are masked before
  int logprobs = -1;   ///< -1: none; 0: the chosen token; k: and the k best
};

}  // namespace met::sampling
