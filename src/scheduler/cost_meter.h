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
    const std::int64_t prefill = plan.tokens.prefill + plan.tokens.recomputed;
    if (prefill == 0) {
      blend(decode_us_[width(plan.decode_rows)], step_us);
    } else if (prefill >= kTokensLeast) {  // fewer say more about the step than about its tokens
      const std::int64_t decode = plan.decode_rows > 0 ? decode_step_us(plan.decode_rows) : 0;
      if (step_us > decode) blend(prefill_token_ns_, (step_us - decode) * 1000 / prefill);
    }
  }
  void observe_disk(bool store, std::int64_t blocks, std::int64_t us) {
    if (blocks > 0) blend(store ? store_block_ns_ : load_block_ns_, us * 1000 / blocks);
  }
  CostModel model(int decode_rows) const {
    // Until one was read back, reading takes what writing does.
    const std::int64_t load_ns = load_block_ns_ > 0 ? load_block_ns_ : store_block_ns_;
    return {.decode_step_us = decode_rows > 0 ? decode_step_us(decode_rows) : 0,
            .prefill_token_ns = prefill_token_ns_,
            .swap_block_ns = swap_block_ns_,
            .disk_block_ns = store_block_ns_ + load_ns};
  }

 private:
  static constexpr std::int64_t kTokensLeast = 16;
  static constexpr std::size_t kWidths = 16;

  static std::size_t width(int rows) {
    return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(rows))),
                                 kWidths - 1);
  }
  static void blend(std::int64_t& mean, std::int64_t value) {
    mean = mean == 0 ? value : (3 * mean + value) / 4;
  }
  /// The mean of this width, else of the nearest smaller one, else of the nearest larger one; 0: nothing
  /// known.
  std::int64_t decode_step_us(int rows) const {
    const std::size_t wanted = width(rows);
    for (std::size_t w = wanted + 1; w-- > 0;)
      if (decode_us_[w] > 0) return decode_us_[w];
    for (std::size_t w = wanted + 1; w < kWidths; ++w)
      if (decode_us_[w] > 0) return decode_us_[w];
    return 0;
  }

  std::array<std::int64_t, kWidths> decode_us_{};  ///< by powers of two of the decode rows
  std::int64_t prefill_token_ns_ = 0;
  std::int64_t swap_block_ns_;
  std::int64_t store_block_ns_ = 0;
  std::int64_t load_block_ns_ = 0;
};

}  // namespace met::scheduler
