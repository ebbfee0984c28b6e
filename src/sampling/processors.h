// Processors: they change single logits before a token is chosen. Formulas: docs/sampling.md.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sampling/history.h"
#include "sampling/params.h"

namespace met::sampling {

/// What a removed logit becomes.
inline constexpr float kRemoved = -__builtin_inff();

/// Removes what `allowed` (one bit for each token; empty: all) does not hold.
void mask_tokens(std::span<float> logits, std::span<const std::uint32_t> allowed);
/// Removes all but the given ids (sorted).
void keep_tokens(std::span<float> logits, std::span<const std::int32_t> sorted_ids);
void remove_tokens(std::span<float> logits, std::span<const std::int32_t> ids);
/// Removes the last token of each sequence whose other tokens end the output.
void forbid_sequences(std::span<float> logits, std::span<const std::int32_t> output,
                      const std::vector<std::vector<std::int32_t>>& sequences);
void add_bias(std::span<float> logits, std::span<const std::pair<std::int32_t, float>> bias);

/// l > 0 ? l / penalty : l * penalty for each token of prompt and output, once; per occurrence on request.
void penalize_repetition(std::span<float> logits, const History& history, double penalty,
                         bool per_occurrence = false);
/// l -= frequency * count + presence * (count > 0), over the output.
void penalize_output(std::span<float> logits, const History& history, double presence, double frequency);

/// "Don't repeat yourself": a token that would extend a repetition of n >= allowed_length tokens loses
/// multiplier * base^(n - allowed_length). Keeps its scratch.
class DryPenalty {
 public:
  void apply(std::span<float> logits, std::span<const std::int32_t> tokens, const SamplingParams& params);

 private:
  std::size_t match_limit(std::span<const std::int32_t> tokens, const SamplingParams& params) const;
  std::vector<std::int32_t> match_;                             // by distance from the end
  std::vector<std::pair<std::int32_t, std::int32_t>> longest_;  // token, length
};

/// For n = 3, 4, 5: each earlier n-gram that the token would complete again costs penalty * (n - 2).
void penalize_ngrams(std::span<float> logits, std::span<const std::int32_t> tokens, double penalty);

}  // namespace met::sampling
