#include "sampling/selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "sampling/vector_math.h"

namespace met::sampling {

namespace {

/// Sum in FP64 by four chains, so that additions overlap.
double sum_of(std::span<const float> values) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4)
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += static_cast<double>(values[i + lane]);
  for (; i < values.size(); ++i) sums[0] += static_cast<double>(values[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kAllTies = std::numeric_limits<std::int64_t>::max();

}  // namespace

void Selection::start(std::span<const float> logits, float max, double temperature) {
  dense_ = true;
  weighed_ = false;
  max_ = max;
  scale_ = 1.0 / temperature;
  logits_ = logits;
  if (kept_weights_.size() < logits.size()) {
    kept_weights_.resize(logits.size());
    kept_logits_.resize(logits.size());
    ids_.resize(logits.size());
    picked_.reserve(logits.size());
  }
}

void Selection::weigh() {
  if (weighed_) return;
  weights_ = std::span(kept_weights_).first(logits_.size());
  total_ = exponentials(logits_, max_, static_cast<float>(scale_), weights_);
  weighed_ = true;
}

void Selection::keep_indices(std::span<const std::int32_t> ascending) {
  std::size_t out = 0;
  for (const std::int32_t index : ascending) {
    const auto i = static_cast<std::size_t>(index);
    const std::int32_t token = id(i);
    const float value = logits_[i];
    if (weighed_) kept_weights_[out] = weights_[i];
    kept_logits_[out] = value;
    ids_[out++] = token;
  }
  dense_ = false;
  logits_ = std::span(kept_logits_).first(out);
  if (!weighed_) return;
  weights_ = std::span(kept_weights_).first(out);
  total_ = sum_of(weights_);
}

void Selection::keep(Cut cut) {
  picked_.clear();
  collect_between(logits_, cut.threshold, kInfinity, picked_);
  if (cut.ties != kAllTies) {
    std::int64_t ties = cut.ties;
    std::erase_if(picked_, [&](std::int32_t i) {
      return logits_[static_cast<std::size_t>(i)] == cut.threshold && ties-- <= 0;
    });
  }
  if (picked_.size() != logits_.size()) keep_indices(picked_);
}

void Selection::top_n_sigma(double n, bool from_mean) {
  double sum = 0;
  double squares = 0;
  std::int64_t count = 0;
  for (const float l : logits_) {
    if (l == -kInfinity) continue;
    const double d = static_cast<double>(l) - static_cast<double>(max_);
    sum += d;
    squares += d * d;
    ++count;
  }
  const double mean = sum / static_cast<double>(count);
  const double sigma = std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean));
  const double anchor = static_cast<double>(max_) + (from_mean ? mean : 0.0);
  keep({std::min(static_cast<float>(anchor - n * sigma), max_), kAllTies});
}

void Selection::top_k(std::int64_t k) {
  if (k <= 0 || k >= static_cast<std::int64_t>(logits_.size())) return;
  constexpr std::int64_t kHeapMax = 512;  // above, partial sorting costs less than the heap
  const auto count = static_cast<std::size_t>(k);
  if (k <= kHeapMax) {
    heap_.assign(logits_.begin(), logits_.begin() + k);
    std::ranges::make_heap(heap_, std::greater{});
    for (const float l : logits_.subspan(count)) {
      if (l <= heap_.front()) continue;
      std::ranges::pop_heap(heap_, std::greater{});
      heap_.back() = l;
      std::ranges::push_heap(heap_, std::greater{});
    }
  } else {
    heap_.assign(logits_.begin(), logits_.end());
    std::ranges::nth_element(heap_, heap_.begin() + (k - 1), std::greater{});
    heap_.resize(count);
  }
  const float threshold = *std::ranges::min_element(heap_);
  keep({threshold, std::ranges::count(heap_, threshold)});
}

void Selection::min_p(double p) {
  if (p <= 0) return;
  const double threshold = static_cast<double>(max_) + std::log(p) / scale_;
  keep({std::min(static_cast<float>(threshold), max_), kAllTies});
}

Cut Selection::top_p_cut(double p) {
  weigh();
  const double want = p * total_;
  // Tokens below `low` have less than 1 - p together, so the prefix ends at or above it.
  auto low = std::max(static_cast<float>((total_ - want) / static_cast<double>(logits_.size())),
                      std::numeric_limits<float>::min());
  float high = 2.0F;  // above every weight
  double above = 0;   // mass of the weights >= high, below `want`
  // Each round puts four thresholds between the two, evenly in the logarithm, and keeps the part that the
  // crossing token is in: four rounds leave a window 5^4 times narrower.
  for (int round = 0; round < 4; ++round) {
    const float step = std::pow(low / high, 1.0F / (kThresholds + 1));
    float thresholds[kThresholds];
    double sums[kThresholds];
    thresholds[0] = high * step;
    for (std::size_t k = 1; k < kThresholds; ++k) thresholds[k] = thresholds[k - 1] * step;
    sums_from(weights_, thresholds, sums);
    for (std::size_t k = 0; k < kThresholds; ++k) {
      if (sums[k] >= want) {
        low = thresholds[k];
        break;
      }
      high = thresholds[k];
      above = sums[k];
    }
  }
  picked_.clear();
  collect_between(weights_, low, high, picked_);
  sorted_.clear();
  for (const std::int32_t i : picked_) sorted_.emplace_back(logits_[static_cast<std::size_t>(i)], i);
  std::ranges::sort(sorted_, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  Cut cut{-std::numeric_limits<float>::max(), kAllTies};
  std::int64_t ties = 0;
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    ties = i > 0 && sorted_[i].first == sorted_[i - 1].first ? ties + 1 : 1;
    above += static_cast<double>(weights_[static_cast<std::size_t>(sorted_[i].second)]);
    cut = {sorted_[i].first, ties};
    if (above >= want) break;
  }
  return cut;
}

void Selection::top_p(double p) {
  if (p >= 1.0) return;
  const Cut cut = top_p_cut(p);
  // Few candidates are copied; of many the weights of the others are cleared in place.
  constexpr std::size_t kCopyMax = 4096;
  if (logits_.size() <= kCopyMax) return keep(cut);
  clear_below(logits_, cut.threshold, weights_);
  std::int64_t ties = cut.ties;
  picked_.clear();
  collect_between(logits_, cut.threshold, std::nextafter(cut.threshold, kInfinity), picked_);
  for (const std::int32_t i : picked_)
    if (ties-- <= 0) weights_[static_cast<std::size_t>(i)] = 0;
  total_ = sum_of(weights_);
}

void Selection::typical(double p) {
  if (p >= 1.0) return;
  weigh();
  double entropy = 0;
  for (const float w : weights_)
    if (w > 0) entropy -= static_cast<double>(w) / total_ * std::log(static_cast<double>(w) / total_);
  scored_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] <= 0) continue;
    const double surprise = -std::log(static_cast<double>(weights_[i]) / total_);
    scored_.emplace_back(std::abs(surprise - entropy), static_cast<std::int32_t>(i));
  }
  std::ranges::sort(scored_);
  picked_.clear();
  double mass = 0;
  for (const auto& [distance, i] : scored_) {
    picked_.push_back(i);
    mass += static_cast<double>(weights_[static_cast<std::size_t>(i)]) / total_;
    if (mass >= p) break;
  }
  std::ranges::sort(picked_);
  keep_indices(picked_);
  max_ = *std::ranges::max_element(logits_);
  weighed_ = false;
}

void Selection::exclude_top(double threshold) {
  weigh();
  const auto least = static_cast<float>(threshold * total_);
  std::size_t last = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] < least) continue;
    if (count++ == 0 || weights_[i] <= weights_[last]) last = i;
  }
  if (count < 2) return;
  picked_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if ((weights_[i] > 0 && weights_[i] < least) || i == last)
      picked_.push_back(static_cast<std::int32_t>(i));
  keep_indices(picked_);
  max_ = *std::ranges::max_element(logits_);
  weighed_ = false;
}

void Selection::surprise_at_most(double mu) {
  weigh();
  // p >= 2^-mu as a logit; the largest always stays.
  const double threshold = static_cast<double>(max_) + (std::log(total_) - mu * std::numbers::ln2) / scale_;
  if (threshold > static_cast<double>(max_)) return keep({max_, 1});
  keep({static_cast<float>(threshold), kAllTies});
}

void Selection::mirostat_top_k(double mu, std::int64_t vocab_size) {
  constexpr std::size_t kEstimateFrom = 100;  // tokens, as in the paper
  weigh();
  heap_.assign(weights_.begin(), weights_.end());
  const std::size_t used = std::min(kEstimateFrom, heap_.size());
  std::ranges::partial_sort(heap_, heap_.begin() + static_cast<std::ptrdiff_t>(used), std::greater{});
  double products = 0;
  double squares = 0;
  for (std::size_t i = 0; i + 1 < used && heap_[i + 1] > 0; ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * std::log(static_cast<double>(heap_[i]) / static_cast<double>(heap_[i + 1]));
    squares += t * t;
  }
  const double exponent = squares > 0 ? products / squares : 0;
  const double epsilon = exponent - 1;
  double k = std::pow(epsilon * std::exp2(mu) / (1 - std::pow(static_cast<double>(vocab_size), -epsilon)),
                      1 / exponent);
  if (!(k >= 1)) k = 1;  // NaN too: a flat or a one-token head
  top_k(k < static_cast<double>(logits_.size()) ? static_cast<std::int64_t>(k) : 0);
}

double Selection::probability(std::size_t i) {
  weigh();
  return static_cast<double>(weights_[i]) / total_;
}

std::size_t Selection::draw(double u) {
  weigh();
  constexpr std::size_t kBlock = 256;
  const double target = u * total_;
  double before = 0;
  std::size_t last = 0;  // with weight: the answer if rounding leaves the target unreached
  for (std::size_t begin = 0; begin < weights_.size(); begin += kBlock) {
    const auto block = weights_.subspan(begin, std::min(kBlock, weights_.size() - begin));
    const double mass = sum_of(block);
    if (before + mass <= target && begin + block.size() < weights_.size()) {
      before += mass;
      continue;
    }
    double sum = before;
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (block[i] <= 0) continue;
      last = begin + i;
      sum += static_cast<double>(block[i]);
      if (sum > target) return last;
    }
    before += mass;
  }
  if (weights_[last] > 0) return last;
  for (std::size_t i = weights_.size(); i-- > 0;)
    if (weights_[i] > 0) return i;
  return 0;
}

std::size_t Selection::draw_sorted(double u) {
  weigh();
  sorted_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i] > 0) sorted_.emplace_back(weights_[i], static_cast<std::int32_t>(i));
  std::ranges::sort(sorted_, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  double sum = 0;
  for (const auto& [weight, i] : sorted_) {
    sum += static_cast<double>(weight);
    if (sum > u * total_) return static_cast<std::size_t>(i);
  }
  return static_cast<std::size_t>(sorted_.back().second);
}

}  // namespace met::sampling
