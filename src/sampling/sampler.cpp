#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/history.h"
#include "sampling/philox.h"
#include "sampling/processors.h"
#include "sampling/selection.h"
#include "sampling/vector_math.h"

namespace met::sampling {

struct Sampler::State {
  SamplingParams params;
  std::size_t vocab_size = 0;
  std::vector<std::int32_t> end_ids;
  bool greedy = false;
  bool penalizes = false;
  bool masks = false;
  History history;
  DryPenalty dry;
  Selection selection;
  double mu = 0;
  std::int32_t pending_id = -1;  // the last token drawn under mirostat, and its surprise in bits
  double pending_surprise = 0;

  std::int32_t raw_argmax(std::span<const float> logits) const {
    const float max = scan_row(logits).max;
    return std::max(first_of(logits, max), 0);
  }

  bool masks_now(std::span<const std::uint32_t> allowed) const {
    return masks || !allowed.empty() || std::ssize(history.output()) < params.min_tokens;
  }

  /// Masks, bias and penalties, in the order of docs/sampling.md.
  void process(std::span<float> logits, std::span<const std::uint32_t> allowed) {
    mask_tokens(logits, allowed);
    if (!params.allowed_token_ids.empty()) keep_tokens(logits, params.allowed_token_ids);
    if (!params.bad_words.empty()) forbid_sequences(logits, history.output(), params.bad_words);
    if (std::ssize(history.output()) < params.min_tokens) remove_tokens(logits, end_ids);
    add_bias(logits, params.logit_bias);
    if (params.repetition_penalty != 1.0) penalize_repetition(logits, history, params.repetition_penalty);
    if (params.presence_penalty != 0.0 || params.frequency_penalty != 0.0)
      penalize_output(logits, history, params.presence_penalty, params.frequency_penalty);
    dry.apply(logits, history.tokens(), params);
    if (params.lz_penalty != 0.0) penalize_ngrams(logits, history.tokens(), params.lz_penalty);
  }

  /// NaN becomes removed, +infinity the largest float. The row's maximum, and whether there was any.
  static float repair(std::span<float> logits, bool& non_finite) {
    const RowScan scan = scan_row(logits);
    non_finite = scan.has_nan || scan.has_positive_infinity;
    if (!non_finite) return scan.max;
    for (float& l : logits) {
      if (l != l) l = kRemoved;
      if (l == std::numeric_limits<float>::infinity()) l = std::numeric_limits<float>::max();
    }
    return scan_row(logits).max;
  }

  /// The temperature of this row: fixed, or moved inside +-dynatemp_range by the entropy of the processed
  /// logits, as a share of its largest possible value. Source: llama.cpp's dynamic temperature, here over the
  /// whole vocabulary.
  double temperature_of(std::span<const float> logits, float max) const {
    if (params.dynatemp_range <= 0) return params.temperature;
    double total = 0;
    double weighted = 0;
    int left = 0;
    for (const float l : logits) {
      if (l == kRemoved) continue;
      const double distance = static_cast<double>(l) - static_cast<double>(max);
      const double weight = std::exp(distance);
      total += weight;
      weighted += weight * distance;
      ++left;
    }
    const double entropy = left > 1 ? (std::log(total) - weighted / total) / std::log(left) : 0.0;
    const double low = std::max(params.temperature - params.dynatemp_range, 0.0);
    const double high = params.temperature + params.dynatemp_range;
    const double share = std::pow(std::clamp(entropy, 0.0, 1.0), params.dynatemp_exponent);
    return std::max(low + (high - low) * share, kGreedyTemperature);
  }

  /// Truncation; `selection` then holds what may be drawn.
  void select(std::span<const float> logits, float max, std::int64_t position) {
    selection.start(logits, max, temperature_of(logits, max));
    if (params.mirostat == 1) return selection.mirostat_top_k(mu, static_cast<std::int64_t>(vocab_size));
    if (params.mirostat == 2) return selection.surprise_at_most(mu);
    if (params.top_n_sigma > 0) selection.top_n_sigma(params.top_n_sigma);
    selection.top_k(params.top_k);
    selection.typical(params.typical_p);
    selection.min_p(params.min_p);
    selection.top_p(params.top_p);
    if (params.xtc_probability > 0 &&
        uniform(*params.seed, position, params.choice, Purpose::kXtc) < params.xtc_probability)
      selection.exclude_top(params.xtc_threshold);
  }
};

Sampler::Sampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

Result<Sampler> Sampler::create(const SamplingParams& params, const Sequence& sequence) {
  if (sequence.vocab_size < 1) return invalid("vocab_size", "a vocabulary has at least one token");
  MET_TRY(validate(params, sequence.vocab_size));
  if (!params.seed) return invalid("seed", "a sampler needs a seed");
  auto state = std::make_unique<State>();
  State& s = *state;
  s.params = params;
  s.vocab_size = static_cast<std::size_t>(sequence.vocab_size);
  s.greedy = params.temperature < kGreedyTemperature || (params.top_k == 1 && params.mirostat == 0);
  s.penalizes =
      params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
  s.masks = !params.allowed_token_ids.empty() || !params.bad_words.empty();
  std::ranges::sort(s.params.allowed_token_ids);
  s.history.start(sequence.prompt, sequence.vocab_size, sequence.tokens_max, s.penalizes);
  s.mu = 2 * params.mirostat_tau;
  for (const std::int32_t id : sequence.end_ids) s.end_ids.push_back(id);
  return Sampler(std::move(state));
}

Result<Sampled> Sampler::sample(std::span<float> logits, std::int64_t position,
                                std::span<const std::uint32_t> allowed) {
  State& s = *state_;
  if (logits.size() != s.vocab_size)
    return invalid("logits", "expected " + std::to_string(s.vocab_size) + " logits, got " +
                                 std::to_string(logits.size()));
  Sampled out;
  const std::int32_t fallback = s.masks_now(allowed) ? s.raw_argmax(logits) : 0;
  s.process(logits, allowed);
  const float max = State::repair(logits, out.non_finite);
  if (max == kRemoved) {
    out.empty = true;
    out.id = fallback;
    return out;
  }
  if (s.greedy) {
    out.id = first_of(logits, max);
    return out;
  }
  s.select(logits, max, position);
  const double u = uniform(*s.params.seed, position, s.params.choice, Purpose::kSample);
  const std::size_t index = s.params.mirostat != 0 ? s.selection.draw_sorted(u) : s.selection.draw(u);
  out.id = s.selection.id(index);
  if (s.params.mirostat != 0) {
    s.pending_id = out.id;
    s.pending_surprise = -std::log2(s.selection.probability(index));
  }
  return out;
}

Result<> Sampler::probabilities(std::span<float> logits, std::int64_t position, std::span<double> out,
                                std::span<const std::uint32_t> allowed) {
  State& s = *state_;
  if (logits.size() != s.vocab_size || out.size() != s.vocab_size)
    return invalid("logits", "expected " + std::to_string(s.vocab_size) + " logits and probabilities");
  const std::int32_t fallback = s.masks_now(allowed) ? s.raw_argmax(logits) : 0;
  s.process(logits, allowed);
  bool non_finite = false;
  const float max = State::repair(logits, non_finite);
  std::ranges::fill(out, 0.0);
  if (max == kRemoved || s.greedy) {
    const std::int32_t id = max == kRemoved ? fallback : first_of(logits, max);
    out[static_cast<std::size_t>(id)] = 1.0;
    return {};
  }
  s.select(logits, max, position);
  for (std::size_t i = 0; i < s.selection.size(); ++i)
    out[static_cast<std::size_t>(s.selection.id(i))] = s.selection.probability(i);
  return {};
}

void Sampler::accept(std::int32_t id) {
  State& s = *state_;
  s.history.append(id);
  if (s.params.mirostat != 0 && id == s.pending_id)
    s.mu -= s.params.mirostat_eta * (s.pending_surprise - s.params.mirostat_tau);
  s.pending_id = -1;
}

void Sampler::rewind(std::int64_t count) { state_->history.rewind(count); }

bool Sampler::greedy() const { return state_->greedy; }

bool Sampler::neutral() const {
  const State& s = *state_;
  const SamplingParams& p = s.params;
  return !s.penalizes && !s.masks && p.logit_bias.empty() && p.dry_multiplier == 0.0 && p.lz_penalty == 0.0 &&
         std::ssize(s.history.output()) >= p.min_tokens;
}

const SamplingParams& Sampler::params() const { return state_->params; }

}  // namespace met::sampling
