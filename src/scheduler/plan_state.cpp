// Where a prefill of a model with recurrent state stops, and where its state is captured: the pure part of rules H4 to H6.
#include "scheduler/plan.h"

namespace met::scheduler {

std::int64_t tail_boundary(std::int64_t tokens, std::int64_t block_tokens) {
  if (block_tokens == 0 || tokens <= block_tokens) return -1;
  return (tokens - 1) / block_tokens * block_tokens;
}

std::int64_t cut_at_tail(const PlanConfig& config, std::int64_t begin, std::int64_t end,
                         std::int64_t prompt_len) {
  if (!config.recurrent.on || config.recurrent.tail != TailCapture::kSplit) return end;
  const std::int64_t tail = tail_boundary(prompt_len, config.block_tokens);
  return begin < tail && tail < end ? tail : end;
}

std::int64_t capture_at(const PlanConfig& config, std::int64_t begin, std::int64_t end,
                        std::int64_t prompt_len) {
  if (!config.recurrent.on) return -1;
  const std::int64_t tail = tail_boundary(prompt_len, config.block_tokens);
  if (config.recurrent.tail != TailCapture::kOff && begin < tail && tail <= end) return tail;
  const std::int64_t interval = std::int64_t{config.recurrent.interval_blocks} * config.block_tokens;
  const bool passes = interval > 0 && end / interval > begin / interval;
  return passes && end % config.block_tokens == 0 ? end : -1;
}

}  // namespace met::scheduler
