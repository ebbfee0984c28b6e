// How a victim leaves and what moves between the swap tiers: the pure part of rules S17 and S25.
#include "scheduler/plan.h"

namespace met::scheduler {

PreemptMode preempt_mode(const LiveView& victim, const PlanConfig& config, const CostModel& cost,
                         std::int64_t swap_free) {
  const std::int64_t blocks = config.blocks_of(victim.planned_len);
  if (config.recurrent.on) return PreemptMode::kRecompute;  // the blocks alone do not bring it back
  if (victim.fork_from >= 0 || blocks == 0 || blocks > swap_free) return PreemptMode::kRecompute;
  const bool known = cost.swap_block_ns > 0 && cost.prefill_token_ns > 0;
  const bool swaps = known ? blocks * cost.swap_block_ns < victim.planned_len * cost.prefill_token_ns
                           : victim.planned_len > config.swap_least_tokens;
  return swaps ? PreemptMode::kSwap : PreemptMode::kRecompute;
}

namespace {

/// True when a sequence may go to disk: there is room, and reading it back is not dearer than computing it again.
bool may_store(const WaitView& s, const View& view, const PlanConfig& config) {
  const std::int64_t blocks = config.blocks_of(s.swapped_len);
  if (blocks > view.disk_free) return false;
  const bool known = view.cost.disk_block_ns > 0 && view.cost.prefill_token_ns > 0;
  return !known || blocks * view.cost.disk_block_ns < s.swapped_len * view.cost.prefill_token_ns;
}

}  // namespace

void plan_tiers(const View& view, const PlanConfig& config, std::int64_t swap_free, StepPlan& plan) {
  if (config.disk_blocks == 0 || view.disk_busy || plan.resume.size() >= view.parked.size()) return;
  const auto waiting = view.parked.subspan(plan.resume.size());  // those that resume are the first
  const WaitView& head = waiting.front();
  const bool head_on_disk = head.place == SwapPlace::kDisk;
  if (head_on_disk && config.blocks_of(head.swapped_len) <= swap_free) {
    plan.load = head.seq;
    return;
  }
  if (!head_on_disk && swap_free >= config.swap_watermark()) return;
  bool leaving = false;
  for (std::size_t i = waiting.size(); i-- > 1;) {
    leaving |= waiting[i].place == SwapPlace::kLeaving;
    if (waiting[i].place != SwapPlace::kHost) continue;
    if (may_store(waiting[i], view, config)) {
      plan.store = waiting[i].seq;
      return;
    }
    if (head_on_disk && !leaving) plan.drop = waiting[i].seq;  // else it would wait for ever
    if (head_on_disk) return;
  }
}

}  // namespace met::scheduler
