#include "sampling/processors.h"

#include <algorithm>
#include <cmath>

#include "sampling/vector_math.h"

namespace met::sampling {

namespace {

float* logit_of(std::span<float> logits, std::int32_t id) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size() ? &logits[static_cast<std::size_t>(id)]
                                                                 : nullptr;
}

}  // namespace

void mask_tokens(std::span<float> logits, std::span<const std::uint32_t> allowed) {
  if (!allowed.empty()) set_where_clear(logits, allowed, kRemoved);
}

void keep_tokens(std::span<float> logits, std::span<const std::int32_t> sorted_ids) {
  std::size_t at = 0;
  for (const std::int32_t id : sorted_ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) continue;
    for (; at < static_cast<std::size_t>(id); ++at) logits[at] = kRemoved;
    at = static_cast<std::size_t>(id) + 1;
  }
  for (; at < logits.size(); ++at) logits[at] = kRemoved;
}

void remove_tokens(std::span<float> logits, std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids)
    if (float* l = logit_of(logits, id)) *l = kRemoved;
}

void forbid_sequences(std::span<float> logits, std::span<const std::int32_t> output,
                      const std::vector<std::vector<std::int32_t>>& sequences) {
  for (const auto& sequence : sequences) {
    if (sequence.empty() || sequence.size() - 1 > output.size()) continue;
    const auto head = std::span(sequence).first(sequence.size() - 1);
    if (!std::ranges::equal(head, output.last(head.size()))) continue;
    if (float* l = logit_of(logits, sequence.back())) *l = kRemoved;
  }
}

void add_bias(std::span<float> logits, std::span<const std::pair<std::int32_t, float>> bias) {
  for (const auto& [id, value] : bias)
    if (float* l = logit_of(logits, id)) *l += value;
}

void penalize_repetition(std::span<float> logits, const History& history, double penalty,
                         bool per_occurrence) {
  for (const std::int32_t id : history.distinct()) {
    const auto [prompt, output] = history.count(id);
    const int count = prompt + output;
    if (count == 0) continue;
    float& l = logits[static_cast<std::size_t>(id)];
    const double factor = per_occurrence ? std::pow(penalty, count) : penalty;
    l = static_cast<float>(l > 0 ? l / factor : l * factor);
  }
}

void penalize_output(std::span<float> logits, const History& history, double presence, double frequency) {
  for (const std::int32_t id : history.distinct()) {
    const int count = history.count(id).in_output;
    if (count == 0) continue;
    float& l = logits[static_cast<std::size_t>(id)];
    l = static_cast<float>(l - frequency * count - presence);
  }
}

std::size_t DryPenalty::match_limit(std::span<const std::int32_t> tokens,
                                    const SamplingParams& params) const {
  // A match may not reach back over the last sequence that breaks.
  std::size_t limit = tokens.size();
  for (const auto& breaker : params.dry_breakers) {
    if (breaker.empty()) continue;
    for (std::size_t after = 0; after < limit && after + breaker.size() <= tokens.size(); ++after) {
      const auto window = tokens.subspan(tokens.size() - after - breaker.size(), breaker.size());
      if (!std::ranges::equal(window, breaker)) continue;
      limit = after;
      break;
    }
  }
  return limit;
}

void DryPenalty::apply(std::span<float> logits, std::span<const std::int32_t> all,
                       const SamplingParams& params) {
  if (params.dry_multiplier == 0.0 || params.dry_penalty_last_n == 0) return;
  const std::size_t window = params.dry_penalty_last_n < 0
                                 ? all.size()
                                 : std::min(all.size(), static_cast<std::size_t>(params.dry_penalty_last_n));
  const auto tokens = all.last(window);
  const auto size = static_cast<std::int64_t>(tokens.size());
  const auto limit = static_cast<std::int64_t>(match_limit(tokens, params));
  if (size < 2 || limit < params.dry_allowed_length || limit == 0) return;
  // match_[d]: how many tokens before the d-th last agree with the end of the text (Z function backwards).
  const auto from_end = [&](std::int64_t i) { return tokens[static_cast<std::size_t>(size - 1 - i)]; };
  match_.assign(static_cast<std::size_t>(size), 0);
  for (std::int64_t d = 1, left = 0, right = 0; d < size; ++d) {
    std::int64_t n =
        d < right ? std::min<std::int64_t>(right - d, match_[static_cast<std::size_t>(d - left)]) : 0;
    while (d + n < size && from_end(n) == from_end(d + n)) ++n;
    match_[static_cast<std::size_t>(d)] = static_cast<std::int32_t>(n);
    if (d + n > right) {
      left = d;
      right = d + n;
    }
  }
  longest_.clear();
  for (std::int64_t d = 1; d < size; ++d) {
    const auto n = std::min<std::int64_t>(match_[static_cast<std::size_t>(d)], limit);
    if (n < std::max(params.dry_allowed_length, 1)) continue;
    const std::int32_t next = from_end(d - 1);  // what followed the earlier occurrence
    const bool breaks = std::ranges::any_of(params.dry_breakers,
                                            [&](const auto& b) { return b.size() == 1 && b[0] == next; });
    if (!breaks) longest_.emplace_back(next, static_cast<std::int32_t>(n));
  }
  std::ranges::sort(longest_, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  std::int32_t last = -1;
  for (const auto& [id, n] : longest_) {
    if (id == last) continue;
    last = id;
    float* l = logit_of(logits, id);
    if (l == nullptr) continue;
    const double penalty = params.dry_multiplier * std::pow(params.dry_base, n - params.dry_allowed_length);
    *l = static_cast<float>(*l - std::min(penalty, 1e30));  // a large power stays finite
  }
}

void penalize_ngrams(std::span<float> logits, std::span<const std::int32_t> tokens, double penalty) {
  for (std::size_t n = 3; n <= 5; ++n) {
    if (tokens.size() < n) return;
    const auto tail = tokens.last(n - 1);
    for (std::size_t end = n - 1; end < tokens.size(); ++end) {
      if (!std::ranges::equal(tokens.subspan(end - (n - 1), n - 1), tail)) continue;
      if (float* l = logit_of(logits, tokens[end]))
        *l = static_cast<float>(*l - penalty * static_cast<double>(n - 2));
    }
  }
}

}  // namespace met::sampling
