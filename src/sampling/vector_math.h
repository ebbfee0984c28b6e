// Passes over a row of logits, eight lanes at a time. The same bits on every x86-64 and Arm: no fused
// multiply-add, fixed order of summation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace met::sampling {

struct RowScan {
  float max = 0;  ///< of the finite values; -infinity when there is none
  bool has_nan = false;
  bool has_positive_infinity = false;
};

RowScan scan_row(std::span<const float> row);

/// The lowest index of `value`, or -1.
std::int32_t first_of(std::span<const float> row, float value);

/// Appends the indices of all values in [low, high), ascending. `high` +infinity: all from `low` on.
void collect_between(std::span<const float> row, float low, float high, std::vector<std::int32_t>& out);

inline constexpr std::size_t kThresholds = 4;
/// sums[k] = sum of the weights >= thresholds[k], in FP64.
void sums_from(std::span<const float> weights, const float (&thresholds)[kThresholds],
               double (&sums)[kThresholds]);

/// Sets weights[i] to 0 where row[i] < threshold.
void clear_below(std::span<const float> row, float threshold, std::span<float> weights);

/// Sets row[i] to `value` where bit i % 32 of bits[i / 32] is not set; words that `bits` lacks have none.
void set_where_clear(std::span<float> row, std::span<const std::uint32_t> bits, float value);

/// weights[i] = exp((row[i] - max) * scale), 0 below exp(-87); returns their sum in FP64. Relative error of a
/// weight < 3e-7. `scale` > 0.
double exponentials(std::span<const float> row, float max, float scale, std::span<float> weights);

}  // namespace met::sampling
