// What steps cost, measured: the cost model that a plan may use (S5).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "scheduler/plan.h"

namespace met::scheduler {

/// Running means; a new value counts one quarter, so that a change of load shows within a few steps.
class CostMeter {
 public:
  /// `swap_block_ns`: of a block to the host pool and back, as measured at start; 0: unknown.
  explicit CostMeter(std::int64_t swap_block_ns = 0) : swap_block_ns_(swap_block_ns) {}

  /// `swap_us`: the part of the step that its swap copies took, 0: not measured.
  void observe(const StepPlan& plan, std::int64_t step_us, std::int64_t swap_us) {
    if (plan.swap_blocks > 0) {
      if (swap_us <= 0) return;
      blend(swap_block_ns_, 2 * swap_us * 1000 / plan.swap_blocks);
      step_us -= swap_us;
    }
    if (plan.rows.empty()) return;
    ++steps_;
    const std::int64_t prefill = plan.tokens.prefill + plan.tokens.recomputed;
    if (prefill == 0) {
      Decode& decode = decode_[width(plan.decode_rows)];
      blend(decode.us, step_us);
      decode.seen = steps_;
    } else if (prefill >= kTokensLeast) {  // fewer say more about the step than about its tokens
      if (plan.decode_rows == 0) {
        blend(alone_us_, step_us);
        blend(alone_tokens_, prefill);
      } else {
        observe_mixed(plan.decode_rows, prefill, step_us * 1000);
      }
    }
  }
  void observe_disk(bool store, std::int64_t blocks, std::int64_t us) {
    if (blocks > 0) blend(store ? store_block_ns_ : load_block_ns_, us * 1000 / blocks);
  }
  CostModel model(int decode_rows) const {
    // Until one was read back, reading takes what writing does.
    const std::int64_t load_ns = load_block_ns_ > 0 ? load_block_ns_ : store_block_ns_;
    return {.decode_step_us = decode_rows > 0 ? decode_step_us(decode_rows) : 0,
            .prefill_token_ns = prefill_token_ns(),
            .mixed_ns = mixed_ns_,
            .swap_block_ns = swap_block_ns_,
            .disk_block_ns = store_block_ns_ + load_ns};
  }

 private:
  static constexpr std::int64_t kTokensLeast = 16;
  static constexpr std::int64_t kFresh = 64;  // steps
  static constexpr std::size_t kWidths = 16;

  static std::size_t width(int rows) {
    return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(rows))),
                                 kWidths - 1);
  }
  /// What its tokens do not explain of a mixed step is that of its decode rows, and what such a step adds whatever its length. A
  /// step of decode rows alone tells the two apart; while there is none, as under a load that always has prompts waiting, the
  /// rows' part is what may have changed. Were all of it divided among the tokens, a short chunk would make the next one no longer.
  void observe_mixed(int decode_rows, std::int64_t tokens, std::int64_t step_ns) {
    if (alone_tokens_ == 0) {
      const std::int64_t added_ns = step_ns - decode_step_us(decode_rows) * 1000;
      if (added_ns > 0) blend(mixed_token_ns_, added_ns / tokens);
      return;
    }
    const std::int64_t rest_ns = step_ns - tokens * prefill_token_ns();
    Decode& decode = decode_[width(decode_rows)];
    if (decode.us > 0 && steps_ - decode.seen <= kFresh)
      mixed_ns_ += (rest_ns - decode.us * 1000 - mixed_ns_) / 4;
    else if (rest_ns > mixed_ns_)
      blend(decode.us, (rest_ns - mixed_ns_) / 1000);
  }
  /// From steps of prefill alone, whose weights are read once as in any step: what a decode step takes is no token's own. Until
  /// there was one, from mixed steps.
  std::int64_t prefill_token_ns() const {
    if (alone_tokens_ == 0) return mixed_token_ns_;
    const std::int64_t own_us = std::max(alone_us_ - decode_step_us(1), alone_us_ / 8);
    return std::max<std::int64_t>(1, own_us * 1000 / alone_tokens_);
  }
  static void blend(std::int64_t& mean, std::int64_t value) {
    mean = mean == 0 ? value : (3 * mean + value) / 4;
  }
  /// The mean of this width, else of the nearest smaller one, else of the nearest larger one; 0: nothing
  /// known.
  std::int64_t decode_step_us(int rows) const {
    const std::size_t wanted = width(rows);
    for (std::size_t w = wanted + 1; w-- > 0;)
      if (decode_[w].us > 0) return decode_[w].us;
    for (std::size_t w = wanted + 1; w < kWidths; ++w)
      if (decode_[w].us > 0) return decode_[w].us;
    return 0;
  }

  struct Decode {
    std::int64_t us = 0;
    std::int64_t seen = 0;  ///< step of decode rows alone
  };
  std::array<Decode, kWidths> decode_{};  ///< by powers of two of the decode rows
  std::int64_t steps_ = 0;
  std::int64_t alone_us_ = 0, alone_tokens_ = 0;  ///< of steps of prefill alone
  std::int64_t mixed_token_ns_ = 0;
  std::int64_t mixed_ns_ = 0;
  std::int64_t swap_block_ns_;
  std::int64_t store_block_ns_ = 0;
  std::int64_t load_block_ns_ = 0;
};

}  // namespace met::scheduler
