// The candidates for one token, in ascending id order, and the filters that thin them out.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace met::sampling {

/// Keeps every logit above `threshold` and the first `ties` that equal it.
struct Cut {
  float threshold = 0;
  std::int64_t ties = 0;
};

class Selection {
 public:
  /// All tokens with finite logits. `logits` is borrowed until the first filter; no NaN, no +infinity; `max`
  /// is their largest value and finite. `temperature` > 0.
  void start(std::span<const float> logits, float max, double temperature);

  /// A candidate whose probability is 0 was removed.
  std::size_t size() const { return logits_.size(); }
  std::int32_t id(std::size_t i) const { return dense_ ? static_cast<std::int32_t>(i) : ids_[i]; }
  float logit(std::size_t i) const { return logits_[i]; }

  /// Keeps logits >= max - n sigma (or mean - n sigma): population deviation over the finite logits.
  void top_n_sigma(double n, bool from_mean = false);
  /// Keeps the k largest; of equals the lowest ids.
  void top_k(std::int64_t k);
  /// Keeps the tokens whose surprise is nearest to the entropy until their mass reaches p.
  void typical(double p);
  /// Keeps probabilities >= p times the largest.
  void min_p(double p);
  /// Keeps the smallest prefix of the sorted tokens whose mass reaches p, the crossing token included.
  void top_p(double p);
  /// Drops all tokens with probability >= threshold but the least likely of them.
  void exclude_top(double threshold);
  /// Keeps probabilities >= 2^-mu, at least the largest.
  void surprise_at_most(double mu);
  /// Mirostat 1: keeps the k largest that its estimate of Zipf's exponent gives for `mu`.
  void mirostat_top_k(double mu, std::int64_t vocab_size);

  /// Probability of a candidate after all filters.
  double probability(std::size_t i);
  /// The first candidate whose cumulative probability exceeds u; u in [0, 1). Returns its index.
  std::size_t draw(double u);
  /// The same in descending order of probability, as mirostat draws.
  std::size_t draw_sorted(double u);

 private:
  void weigh();
  void keep(Cut cut);
  void keep_indices(std::span<const std::int32_t> ascending);
  Cut top_p_cut(double p);

  bool dense_ = true;
  bool weighed_ = false;
  float max_ = 0;
  double scale_ = 1;
  double total_ = 0;
  std::span<const float> logits_;
  std::span<float> weights_;
  std::vector<float> kept_logits_;
  std::vector<float> kept_weights_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> picked_;
  std::vector<float> heap_;
  std::vector<std::pair<float, std::int32_t>> sorted_;
  std::vector<std::pair<double, std::int32_t>> scored_;
};

}  // namespace met::sampling
