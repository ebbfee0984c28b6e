#include "ops/rope_kv/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace met::ops {

namespace {

using config::RopeConfig;
using config::RopeKind;

// Llama 3: wavelengths longer than the low-frequency bound are stretched by `factor`, short ones kept, those
// between blended.
double llama3(double frequency, const RopeConfig& rope) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double low_bound = rope.original_max_positions / rope.low_freq_factor;
  const double high_bound = rope.original_max_positions / rope.high_freq_factor;
  if (wavelength < high_bound) return frequency;
  if (wavelength > low_bound) return frequency / rope.factor;
  const double smooth = (rope.original_max_positions / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

// YaRN blends interpolation and extrapolation by a ramp over the pair's index.
struct YarnRamp {
  double low, high;
  YarnRamp(const RopeConfig& rope, int dim) {
    const auto pair_with_rotations = [&](double rotations) {
      return dim * std::log(rope.original_max_positions / (rotations * 2 * std::numbers::pi)) /
             (2 * std::log(rope.theta));
    };
    low = pair_with_rotations(rope.beta_fast);
    high = pair_with_rotations(rope.beta_slow);
    if (rope.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(dim - 1));
    if (low == high) high += 0.001;
  }
  double interpolated(int pair) const { return std::clamp((pair - low) / (high - low), 0.0, 1.0); }
};

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const RopeConfig& rope) {
  if (rope.attention_factor != 0) return rope.attention_factor;
  if (rope.mscale != 0 && rope.mscale_all_dim != 0)
    return yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim);
  return yarn_mscale(rope.factor, 1.0);
}

}  // namespace

Result<RopeFrequencies> rope_frequencies(const RopeConfig& rope, int head_dim) {
  if (rope.kind == RopeKind::kNone) return RopeFrequencies{};
  if (rope.kind == RopeKind::kDynamic || rope.kind == RopeKind::kLongRope)
    return unsupported("rope_scaling.rope_type",
                       "dynamic and longrope change with the length of the text; "
                       "supported are default, linear, llama3 and yarn");
  RopeFrequencies out;
  out.rotary_dim = static_cast<int>(head_dim * rope.partial_factor);
  if (out.rotary_dim <= 0 || out.rotary_dim % 2 != 0)
    return invalid("partial_rotary_factor",
                   "the rotary dimension must be even and positive, is " + std::to_string(out.rotary_dim));
  if (!(rope.factor > 0)) return invalid("rope_scaling.factor", "must be positive");
  if (!(rope.theta > 1)) return invalid("rope_theta", "must be over 1");
  const int pairs = out.rotary_dim / 2;
  if (!rope.freq_factors.empty() && rope.freq_factors.size() != static_cast<std::size_t>(pairs))
    return invalid("rope_freqs.weight", "has " + std::to_string(rope.freq_factors.size()) +
                                            " values, expected " + std::to_string(pairs));
  const YarnRamp ramp(rope, out.rotary_dim);
  for (int i = 0; i < pairs; ++i) {
    double frequency = std::pow(rope.theta, -2.0 * i / out.rotary_dim);
    if (rope.kind == RopeKind::kLinear) frequency /= rope.factor;
    if (rope.kind == RopeKind::kLlama3) frequency = llama3(frequency, rope);
    if (rope.kind == RopeKind::kYarn) {
      const double t = ramp.interpolated(i);
      frequency = frequency / rope.factor * t + frequency * (1 - t);
    }
    if (!rope.freq_factors.empty()) frequency /= rope.freq_factors[static_cast<std::size_t>(i)];
    out.inverse.push_back(static_cast<float>(frequency));
  }
  if (rope.kind == RopeKind::kYarn) out.scale = static_cast<float>(yarn_attention_factor(rope));
  return out;
}

}  // namespace met::ops
