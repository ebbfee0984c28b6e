// Checkpoints of recurrent state: which are written, when they can be hit. Rules H1 to H4, H7 to H9.
#include <span>

#include "scheduler/engine_loop.h"

namespace met::scheduler {

/// Cuts a hit to the deepest checkpoint inside it; to nothing when that saves too little (H2, H7).
void EngineLoop::cut_to_checkpoint(WaitView& view, const Record& record, std::span<const Hash128> chain) {
  const auto blocks = static_cast<std::size_t>(view.hit_tokens / config_.plan.block_tokens);
  const cache::CheckpointIndex::Hit hit =
      checkpoints_.deepest(chain.first(blocks), config_.plan.recurrent.hermetic ? &record.session : nullptr);
  const bool worth = hit.blocks * config_.plan.block_tokens >= config_.plan.recurrent.least_tokens;
  view.checkpoint = worth ? hit.slot : -1;
  view.hit_tokens = worth ? hit.blocks * config_.plan.block_tokens : 0;
}

void EngineLoop::restore_state(Sequence& s, std::int32_t checkpoint, StepBatch& batch) {
  if (checkpoint < 0) return;
  checkpoints_.touch(checkpoint);
  add_to_device(s, batch);  // it may have no row yet (S24)
  batch.restores.push_back({s.device_row, checkpoint});
  ++numbers_.stats.checkpoints_restored;
}

/// Its identity is that of what the first `position` ids lead to (H3).
Capture EngineLoop::capture_of(Sequence& s, std::int32_t slot, std::int64_t position) {
  const Record& record = *s.record;
  hasher_.extend(record.root, s.ids, config_.plan.block_tokens, s.chain);
  const std::int64_t blocks = position / config_.plan.block_tokens;
  return {.slot = slot,
          .identity = s.chain[static_cast<std::size_t>(blocks) - 1],
          .blocks = blocks,
          .session = record.session};
}

bool EngineLoop::may_capture(const Sequence& s) const {
  return config_.plan.recurrent.on && config_.prefix_caching && !s.record->request.prompt_logprobs;
}

void EngineLoop::capture_in_row(Sequence& s, const Row& row, StepSlot& slot) {
  if (row.capture_at < 0 || !may_capture(s)) return;
  const std::int32_t checkpoint = checkpoints_.take();
  if (checkpoint < 0) return;
  slot.batch.captures.push_back({s.device_row, checkpoint, static_cast<std::int32_t>(row.capture_at)});
  slot.captures.push_back(capture_of(s, checkpoint, row.capture_at));
  if (row.samples) slot.captures.back().sample = static_cast<std::int32_t>(slot.batch.samples.size()) - 1;
}

/// The state of a turn that ended on a settled boundary; the step that takes the row from the device saves it first (H4).
void EngineLoop::capture_leaf(Sequence& s) {
  if (!may_capture(s) || s.inflight > 0 || s.computed_len == 0 ||
      s.computed_len % config_.plan.block_tokens != 0)
    return;
  const std::int32_t checkpoint = checkpoints_.take();
  if (checkpoint < 0) return;
  leaves_.push_back({s.device_row, checkpoint});
  leaf_captures_.push_back(capture_of(s, checkpoint, s.computed_len));
}

/// B5 for states: what a flagged row left is never hit.
void EngineLoop::settle_captures(StepSlot& slot) {
  for (const Capture& capture : slot.captures) {
    if (capture.sample >= 0 && slot.results.samples[static_cast<std::size_t>(capture.sample)].flags != 0) {
      checkpoints_.give_back(capture.slot);
      continue;
    }
    if (checkpoints_.publish(capture.slot, capture.identity, capture.blocks, capture.session))
      ++numbers_.stats.checkpoints_stored;
  }
  slot.captures.clear();
}

}  // namespace met::scheduler
