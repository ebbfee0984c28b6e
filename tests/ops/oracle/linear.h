// y = epilogue(W p(x)) in FP64; p = gather, then RMSNorm. Activations are not rounded here.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace met::oracle {

inline std::vector<double> rms_normalised(const float* x, std::int64_t k, const float* weight, double eps,
                                          double offset) {
  std::vector<double> y(x, x + k);
  if (weight == nullptr) return y;
  double squares = 0;
  for (double v : y) squares += v * v;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(k) + eps);
  for (std::int64_t i = 0; i < k; ++i) y[static_cast<std::size_t>(i)] *= scale * (weight[i] + offset);
  return y;
}

inline double silu(double v) { return v / (1.0 + std::exp(-v)); }
inline double gelu_tanh(double v) {
  return 0.5 * v * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v)));
}

}  // namespace met::oracle
