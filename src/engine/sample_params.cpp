#include "engine/sample_params.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/sampler.h"

namespace met::engine {
namespace {

bool is_greedy(const sampling::SamplingParams& p) {
  return p.temperature < sampling::kGreedyTemperature || (p.top_k == 1 && p.mirostat == 0);
}

bool has_double_id(const std::vector<std::pair<std::int32_t, float>>& bias) {
  std::vector<std::int32_t> ids;
  for (const auto& [id, value] : bias) ids.push_back(id);
  std::ranges::sort(ids);
  return std::ranges::adjacent_find(ids) != ids.end();
}

}  // namespace

bool on_device(const sampling::SamplingParams& p, std::size_t end_ids) {
  const bool logits_only = p.dry_multiplier == 0.0 && p.lz_penalty == 0.0 && p.bad_words.empty();
  const bool selection_only = p.typical_p >= 1.0 && p.top_n_sigma <= 0.0 && p.xtc_probability <= 0.0 &&
                              p.mirostat == 0 && p.dynatemp_range <= 0.0;
  const bool fits = p.logprobs <= kSampleTopMax &&
                    p.logit_bias.size() <= static_cast<std::size_t>(kSampleBiasMax) &&
                    (p.min_tokens == 0 || end_ids <= static_cast<std::size_t>(kSampleEndMax));
  return logits_only && (selection_only || is_greedy(p)) && fits && !has_double_id(p.logit_bias);
}

SampleParams sample_params(const sampling::SamplingParams& p, std::size_t prompt, std::size_t end_ids) {
  SampleParams out{
      .seed = p.seed.value_or(0),
      .top_p = p.top_p,
      .min_p_offset = 0,
      .repetition = p.repetition_penalty,
      .presence = p.presence_penalty,
      .frequency = p.frequency_penalty,
      .inverse_temperature = 1,
      .choice = p.choice,
      .top_k = std::max(p.top_k, 0),
      .end_position = static_cast<std::int32_t>(std::min<std::int64_t>(
          static_cast<std::int64_t>(prompt) + p.min_tokens, std::numeric_limits<std::int32_t>::max())),
      .end_ids = p.min_tokens > 0 ? static_cast<std::int32_t>(end_ids) : 0,
      .biases = static_cast<std::int32_t>(p.logit_bias.size()),
      .modes = 0};
  if (is_greedy(p)) out.modes |= kSampleGreedy;
  if (!p.allowed_token_ids.empty()) out.modes |= kSampleAllowed;
  if (p.repetition_penalty != 1.0 || p.presence_penalty != 0.0 || p.frequency_penalty != 0.0)
    out.modes |= kSampleCounts;
  if (is_greedy(p)) return out;
  // In the reference's arithmetic: the same bits.
  const double scale = 1.0 / p.temperature;
  out.inverse_temperature = static_cast<float>(scale);
  if (p.min_p > 0) {
    out.modes |= kSampleMinP;
    out.min_p_offset = std::log(p.min_p) / scale;
  }
  return out;
}

void set_allowed(std::span<const std::int32_t> ids, std::int64_t vocabulary, std::span<std::uint32_t> words) {
  std::ranges::fill(words, 0U);
  for (const std::int32_t id : ids)
    if (id >= 0 && id < vocabulary) words[static_cast<std::size_t>(id) / 32] |= 1U << (id % 32);
}

}  // namespace met::engine
