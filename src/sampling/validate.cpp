// Ranges of the request's sampling fields, as vLLM and the OpenAI API have them.
#include <cmath>
#include <string>

#include "sampling/sampler.h"

namespace met::sampling {

namespace {

std::string number(double v) {
  std::string text = std::to_string(v);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

Result<> in_range(const char* field, double v, double low, double high) {
  if (std::isnan(v) || v < low || v > high)
    return invalid(field, std::string(field) + " must be between " + number(low) + " and " + number(high) +
                              ", not " + number(v));
  return {};
}

/// Above `low`, up to `high`.
Result<> above(const char* field, double v, double low, double high) {
  if (std::isnan(v) || v <= low || v > high)
    return invalid(field, std::string(field) + " must be above " + number(low) + " and at most " +
                              number(high) + ", not " + number(v));
  return {};
}

Result<> token(const std::string& field, std::int32_t id, int vocab_size) {
  if (id < 0 || (vocab_size > 0 && id >= vocab_size))
    return invalid(field, field + " holds token id " + std::to_string(id) + ", the vocabulary has " +
                              (vocab_size > 0 ? std::to_string(vocab_size) + " tokens" : "no negative ids"));
  return {};
}

Result<> sequences(const char* field, const std::vector<std::vector<std::int32_t>>& all, int vocab_size) {
  for (const auto& sequence : all) {
    if (sequence.empty()) return invalid(field, std::string(field) + " holds an empty sequence");
    for (const std::int32_t id : sequence) MET_TRY(token(field, id, vocab_size));
  }
  return {};
}

Result<> counts(const SamplingParams& p) {
  if (p.top_k < -1)
    return invalid("top_k", "top_k must be -1 or 0 (off) or at least 1, not " + std::to_string(p.top_k));
  if (p.min_tokens < 0) return invalid("min_tokens", "min_tokens must not be negative");
  if (p.mirostat < 0 || p.mirostat > 2) return invalid("mirostat", "mirostat must be 0, 1 or 2");
  if (p.logprobs < -1) return invalid("logprobs", "logprobs must not be negative");
  if (p.choice < 0) return invalid("n", "the index of a choice must not be negative");
  if (p.dry_allowed_length < 0)
    return invalid("dry_allowed_length", "dry_allowed_length must not be negative");
  if (p.dry_penalty_last_n < -1)
    return invalid("dry_penalty_last_n", "dry_penalty_last_n must be -1 (all) or not negative");
  return {};
}

}  // namespace

Result<> validate(const SamplingParams& p, int vocab_size) {
  MET_TRY(in_range("temperature", p.temperature, 0, 2));
  MET_TRY(in_range("dynatemp_range", p.dynatemp_range, 0, 10));
  MET_TRY(in_range("dynatemp_exponent", p.dynatemp_exponent, 0, 100));
  MET_TRY(above("top_p", p.top_p, 0, 1));
  MET_TRY(in_range("min_p", p.min_p, 0, 1));
  MET_TRY(above("typical_p", p.typical_p, 0, 1));
  MET_TRY(in_range("top_n_sigma", p.top_n_sigma, 0, 1e6));
  MET_TRY(in_range("xtc_probability", p.xtc_probability, 0, 1));
  MET_TRY(in_range("xtc_threshold", p.xtc_threshold, 0, 1));
  MET_TRY(above("repetition_penalty", p.repetition_penalty, 0, 1e4));
  MET_TRY(in_range("presence_penalty", p.presence_penalty, -2, 2));
  MET_TRY(in_range("frequency_penalty", p.frequency_penalty, -2, 2));
  MET_TRY(in_range("dry_multiplier", p.dry_multiplier, 0, 1e4));
  MET_TRY(in_range("dry_base", p.dry_base, 1, 1e4));
  MET_TRY(in_range("lz_penalty", p.lz_penalty, 0, 1e4));
  MET_TRY(above("mirostat_tau", p.mirostat_tau, 0, 1e3));
  MET_TRY(above("mirostat_eta", p.mirostat_eta, 0, 1));
  MET_TRY(counts(p));
  for (const auto& [id, bias] : p.logit_bias) {
    MET_TRY(token("logit_bias", id, vocab_size));
    MET_TRY(in_range("logit_bias", static_cast<double>(bias), -100, 100));
  }
  for (const std::int32_t id : p.allowed_token_ids) MET_TRY(token("allowed_token_ids", id, vocab_size));
  MET_TRY(sequences("bad_words", p.bad_words, vocab_size));
  return sequences("dry_sequence_breakers", p.dry_breakers, vocab_size);
}

}  // namespace met::sampling
