// Rotation and attention in FP64 over one sequence held as plain arrays.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace met::oracle {

/// Rotates the first 2 * inv_freq.size() values of a head at a position. The angle is the f32 product.
inline void rotate(std::vector<double>& head, std::span<const float> inv_freq, int position, bool interleaved,
                   double scale) {
  const std::size_t pairs = inv_freq.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<float>(position) * inv_freq[i];
    const double c = std::cos(angle) * scale;
    const double s = std::sin(angle) * scale;
    const std::size_t first = interleaved ? 2 * i : i;
    const std::size_t second = interleaved ? 2 * i + 1 : i + pairs;
    const double a = head[first];
    const double b = head[second];
    head[first] = a * c - b * s;
    head[second] = b * c + a * s;
  }
}

struct AttentionRule {
  double scale;
  double softcap = 0;
  int window = 0;
  const float* sink = nullptr;  ///< of this head
};

/// One query at `position` over keys and values [position][head_dim].
inline std::vector<double> attention(const std::vector<double>& q,
                                     const std::vector<std::vector<double>>& keys,
                                     const std::vector<std::vector<double>>& values, int position,
                                     const AttentionRule& rule) {
  const int begin = rule.window > 0 ? std::max(0, position - rule.window + 1) : 0;
  std::vector<double> scores;
  double max = rule.sink != nullptr ? static_cast<double>(*rule.sink) : -HUGE_VAL;
  for (int p = begin; p <= position; ++p) {
    double s = 0;
    for (std::size_t d = 0; d < q.size(); ++d) s += q[d] * keys[static_cast<std::size_t>(p)][d];
    s *= rule.scale;
    if (rule.softcap != 0) s = rule.softcap * std::tanh(s / rule.softcap);
    scores.push_back(s);
    max = std::max(max, s);
  }
  double total = rule.sink != nullptr ? std::exp(*rule.sink - max) : 0.0;
  std::vector<double> y(q.size());
  for (int p = begin; p <= position; ++p) {
    const double weight = std::exp(scores[static_cast<std::size_t>(p - begin)] - max);
    total += weight;
    for (std::size_t d = 0; d < q.size(); ++d) y[d] += weight * values[static_cast<std::size_t>(p)][d];
  }
  for (double& v : y) v /= total;
  return y;
}

}  // namespace met::oracle
