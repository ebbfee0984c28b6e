// Logits to token: one sequence's processors and sampler on the host. The reference of the device samplers.
// docs/sampling.md states the chain and its formulas.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "sampling/params.h"

namespace met::sampling {

/// Checks every field; the error's field is the request's name of it ("temperature", "logit_bias", ...).
/// NaN and infinities are refused. Token ids are checked where `vocab_size` > 0.
Result<> validate(const SamplingParams& params, int vocab_size = 0);

/// Below this temperature sampling is greedy.
inline constexpr double kGreedyTemperature = 1e-5;

struct Sampled {
  std::int32_t id = -1;
  /// A logit was NaN or +infinity: it counted as removed (NaN) or as the largest finite number.
  bool non_finite = false;
  /// Nothing was left to choose from: `id` is the lowest of the largest raw logits.
  bool empty = false;
};

struct Logprob {
  std::int32_t id = -1;
  float logprob = 0;
  std::int64_t rank = 0;  ///< tokens with a larger logit, plus 1
};

/// Logprobs of the model's own distribution (raw logits, before any processor), summed in FP64.
/// `out[0]` is `id`; then the `k` best, largest first, ties by lowest id (`id` may appear again).
void logprobs(std::span<const float> logits, std::int32_t id, int k, std::vector<Logprob>& out);

/// One sequence (one choice of a request).
///
/// Thread   one at a time.
/// State    counts of the tokens seen and mirostat's mu; `accept` alone changes them. `sample` may be called
///          again for a position and gives the same token.
/// Memory   nothing is allocated in `sample` and `accept` once the vocabulary was seen and the history has
/// its
///          capacity (`reserve`).
/// Cost     neutral and greedy: one pass over the logits. top-p over 49152 logits: below 150 us.
class Sampler {
 public:
  struct Sequence {
    int vocab_size = 0;
    std::span<const std::int32_t> prompt;   ///< copied
    std::span<const std::int32_t> end_ids;  ///< end-of-sequence and stop ids: masked before min_tokens
    std::int64_t tokens_max = 0;            ///< prompt and output: memory to reserve, 0: grows
  };

  /// Errors: those of `validate`, and a vocabulary size below 1. `params.seed` must be set (D2).
  static Result<Sampler> create(const SamplingParams& params, const Sequence& sequence);

  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

  /// The token for `position` (index in the sequence of the token to be chosen). `logits` has vocab_size
  /// values and is scratch afterwards. `allowed`: a bit for each token (grammar masks), empty: all.
  /// Errors: kInvalidArgument when `logits` has another size.
  Result<Sampled> sample(std::span<float> logits, std::int64_t position,
                         std::span<const std::uint32_t> allowed = {});

  /// The distribution that `sample` draws from, as probabilities by id (0: removed); for speculation (V2).
  /// `logits` becomes scratch. Greedy gives 1 at the argmax. XTC's draw is made as `sample` makes it.
  Result<> probabilities(std::span<float> logits, std::int64_t position, std::span<double> out,
                         std::span<const std::uint32_t> allowed = {});

  /// Appends a token of the output.
  void accept(std::int32_t id);
  /// Takes back the last `count` accepted tokens (mirostat's mu is kept).
  void rewind(std::int64_t count);

  bool greedy() const;
  /// Whether no processor changes the logits: with `greedy`, the device's argmax is the answer.
  bool neutral() const;
  const SamplingParams& params() const;

 private:
  struct State;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Speculative sampling: the chance to accept a draft token, and the distribution to draw from after a
/// refusal. Source: Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding",
/// ICML 2023.
double accept_probability(double target, double draft);
void residual(std::span<const double> target, std::span<const double> draft, std::span<double> out);

/// The lowest id whose cumulative probability in ascending id order exceeds `u` times the total.
std::int32_t draw(std::span<const double> probabilities, double u);

}  // namespace met::sampling
