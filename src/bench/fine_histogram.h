// Counts of whole numbers, kept to one part in 128 whatever their size, for percentiles of millions of times.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace met::bench {

class FineHistogram {
 public:
  void add(std::int64_t value) {
    const std::size_t at = place(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)));
    if (at >= counts_.size()) counts_.resize(at + 1, 0);
    ++counts_[at];
    ++count_;
    sum_ += value;
    most_ = std::max(most_, value);
  }
  std::int64_t count() const { return count_; }
  std::int64_t most() const { return most_; }
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  /// No value of this share is above it; 0 without values.
  std::int64_t percentile(double share) const {
    const auto wanted =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(count_) + 0.999999));
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= wanted) return std::min(most_of(i), most_);
    }
    return most_;
  }
  friend bool operator==(const FineHistogram&, const FineHistogram&) = default;

 private:
  static std::size_t place(std::uint64_t value) {
    if (value < 256) return static_cast<std::size_t>(value);
    const int shift = std::bit_width(value) - 8;
    return static_cast<std::size_t>(256 + (shift - 1) * 128) +
           static_cast<std::size_t>((value >> shift) - 128);
  }
  static std::int64_t most_of(std::size_t at) {
    if (at < 256) return static_cast<std::int64_t>(at);
    const std::size_t shift = (at - 256) / 128 + 1;
    const std::uint64_t head = (at - 256) % 128 + 128;
    return static_cast<std::int64_t>(((head + 1) << shift) - 1);
  }

  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t most_ = 0;
};

}  // namespace met::bench
