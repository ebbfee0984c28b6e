#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/sampler.h"
#include "sampling/vector_math.h"

namespace met::sampling {

void logprobs(std::span<const float> logits, std::int32_t id, int k, std::vector<Logprob>& out) {
  out.clear();
  const RowScan scan = scan_row(logits);
  const auto max = static_cast<double>(std::isfinite(scan.max) ? scan.max : 0.0F);
  double total = 0;
  for (const float l : logits)
    if (static_cast<double>(l) - max > -87) total += std::exp(static_cast<double>(l) - max);
  const double log_total = max + std::log(total);
  const auto entry = [&](std::int32_t token, std::int64_t rank) {
    const auto l = static_cast<double>(logits[static_cast<std::size_t>(token)]);
    out.push_back({token, static_cast<float>(l - log_total), rank});
  };
  if (id >= 0 && static_cast<std::size_t>(id) < logits.size()) {
    const float own = logits[static_cast<std::size_t>(id)];
    entry(id, 1 + std::ranges::count_if(logits, [&](float l) { return l > own; }));
  }
  const auto count = std::min(static_cast<std::size_t>(std::max(k, 0)), logits.size());
  if (count == 0) return;
  // The best so far, worst at the front of the heap; of equals the lower id is better.
  const auto better = [](const std::pair<float, std::int32_t>& a, const std::pair<float, std::int32_t>& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::vector<std::pair<float, std::int32_t>> best;
  best.reserve(count + 1);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::pair<float, std::int32_t> candidate{logits[i], static_cast<std::int32_t>(i)};
    if (candidate.first != candidate.first) continue;
    if (best.size() == count && !better(candidate, best.front())) continue;
    best.push_back(candidate);
    std::ranges::push_heap(best, better);
    if (best.size() <= count) continue;
    std::ranges::pop_heap(best, better);
    best.pop_back();
  }
  std::ranges::sort_heap(best, better);
  for (std::size_t i = 0; i < best.size(); ++i) {
    const bool tied = i > 0 && best[i].first == best[i - 1].first;
    const std::int64_t rank = tied ? out.back().rank : static_cast<std::int64_t>(i) + 1;
    entry(best[i].second, rank);
  }
}

double accept_probability(double target, double draft) {
  if (draft <= 0) return target > 0 ? 1.0 : 0.0;
  return std::min(1.0, target / draft);
}

void residual(std::span<const double> target, std::span<const double> draft, std::span<double> out) {
  double total = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::max(0.0, target[i] - draft[i]);
    total += out[i];
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = total > 0 ? out[i] / total : target[i];
}

std::int32_t draw(std::span<const double> probabilities, double u) {
  double total = 0;
  for (const double p : probabilities) total += p;
  double sum = 0;
  std::int32_t last = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0) continue;
    last = static_cast<std::int32_t>(i);
    sum += probabilities[i];
    if (sum > u * total) return last;
  }
  return last;
}

}  // namespace met::sampling
