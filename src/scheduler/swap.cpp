// Swapped sequences: whose places are whose, and the moves between host pool and disk. Rules S17, S18, S25, B9.
#include <algorithm>
#include <iterator>
#include <utility>

#include "core/log.h"
#include "scheduler/engine_loop.h"

namespace met::scheduler {

/// Before its blocks are given back: the step copies them first, then others may write to them.
void EngineLoop::swap_out(SeqIndex index, StepBatch& batch) {
  Sequence& s = at(index);
  const std::int64_t len = s.planned_len;
  const std::int64_t blocks = config_.plan.blocks_of(len);
  host_slots_.take(blocks, s.host_slots);
  for (std::size_t i = 0; i < s.host_slots.size(); ++i)
    batch.swap_out.push_back({s.blocks[i], s.host_slots[i]});
  leave(index);
  s.state = SeqState::kSwapped;
  s.place = SwapPlace::kLeaving;
  s.swapped_len = len;
  insert_by_admission(parked_, index);
  ++s.preemptions;
  ++numbers_.preemptions;
  ++numbers_.stats.preemptions_swap;
  numbers_.stats.swap_out_bytes += blocks * config_.block_bytes;
}

/// Behind its hit; the hits of all others are pinned already (B8).
void EngineLoop::swap_in(const Admit& entry, StepBatch& batch) {
  Sequence& s = at(entry.seq);
  if (s.swapped_len > entry.hit_tokens) {
    const auto hit = static_cast<std::size_t>(entry.hit_tokens / config_.plan.block_tokens);
    for (std::size_t i = hit; i < s.host_slots.size(); ++i) {
      s.blocks.push_back(allocate());
      batch.swap_in.push_back({s.blocks.back(), s.host_slots[i]});
    }
    s.computed_len = s.swapped_len;
    s.planned_len = s.swapped_len;
    numbers_.stats.swap_in_bytes +=
        static_cast<std::int64_t>(s.host_slots.size() - hit) * config_.block_bytes;
  }
  forget_swap(s, /*in_this_step=*/true);
}

/// Its places are free, the host's once no step in flight touches them (B9), those of a move once it is done.
void EngineLoop::forget_swap(Sequence& s, bool in_this_step) {
  if (s.place == SwapPlace::kStoring || s.place == SwapPlace::kLoading) {
    move_.seq = -1;
  } else {
    const std::int64_t step = steps_started_ + (in_this_step ? 1 : 0);
    for (const SwapSlot slot : s.host_slots) limbo_.push_back({slot, step});
    disk_slots_.give_back(s.disk_slots);
  }
  s.host_slots.clear();
  s.disk_slots.clear();
  s.place = SwapPlace::kNone;
  s.swapped_len = 0;
  release_limbo();
}

void EngineLoop::release_limbo() {
  std::erase_if(limbo_, [&](const Limbo& entry) {
    if (entry.step > numbers_.steps) return false;
    host_slots_.give_back({&entry.slot, 1});
    return true;
  });
}

/// What the settled step copied lies in the host pool now.
void EngineLoop::settle_swaps(const StepPlan& plan) {
  for (const Preempt& preempt : plan.preempt) {
    Sequence& s = at(preempt.seq);
    if (preempt.mode == PreemptMode::kSwap && s.record && s.place == SwapPlace::kLeaving)
      s.place = SwapPlace::kHost;
  }
  if (!limbo_.empty()) release_limbo();
}

void EngineLoop::drop_swapped(SeqIndex index) {
  Sequence& s = at(index);
  s.recomputed_to = std::max(s.recomputed_to, s.swapped_len);
  s.state = SeqState::kParked;
  forget_swap(s, /*in_this_step=*/false);
}

// ---- moves between host pool and disk: S25

void EngineLoop::start_move(SeqIndex index, bool store) {
  Sequence& s = at(index);
  std::vector<SwapSlot>& to = store ? s.disk_slots : s.host_slots;
  (store ? disk_slots_ : host_slots_).take(config_.plan.blocks_of(s.swapped_len), to);
  s.place = store ? SwapPlace::kStoring : SwapPlace::kLoading;
  move_ = {.running = true, .store = store, .seq = index, .host = s.host_slots, .disk = s.disk_slots};
  spill_->start({.store = store, .host = move_.host, .disk = move_.disk});
}

/// True when a move has ended.
bool EngineLoop::finish_move() {
  Spill::Done done;
  if (!move_.running || !spill_->poll(done)) return false;
  move_.running = false;
  const auto blocks = static_cast<std::int64_t>(move_.host.size());
  if (done.result) {
    costs_.observe_disk(move_.store, blocks, done.us);
    (move_.store ? numbers_.stats.disk_out_bytes : numbers_.stats.disk_in_bytes) +=
        blocks * config_.block_bytes;
  } else {
    ++numbers_.stats.spill_failures;
    disk_failed_ = true;  // it takes nothing more
    log::error("swap to disk: " + done.result.error().message + "; it is used no more");
  }
  if (move_.seq < 0) {  // the sequence ended meanwhile
    host_slots_.give_back(move_.host);
    disk_slots_.give_back(move_.disk);
    return true;
  }
  Sequence& s = at(move_.seq);
  const bool on_disk = move_.store == done.result.has_value();
  if (!done.result && !move_.store) {  // what cannot be read back is computed again
    s.place = SwapPlace::kHost;
    drop_swapped(move_.seq);
    return true;
  }
  s.place = on_disk ? SwapPlace::kDisk : SwapPlace::kHost;
  (on_disk ? host_slots_ : disk_slots_).give_back(on_disk ? s.host_slots : s.disk_slots);
  (on_disk ? s.host_slots : s.disk_slots).clear();
  return true;
}

/// Every place of both tiers is free, on its way back, or of one swapped sequence or move.
void EngineLoop::check_swap() const {
  std::size_t host = limbo_.size();
  std::size_t disk = 0;
  for (const Sequence& s : table_) {
    if (!s.record) continue;
    MET_CHECK((s.state == SeqState::kSwapped) == (s.place != SwapPlace::kNone),
              "place of a swapped sequence");
    host += s.host_slots.size();
    disk += s.disk_slots.size();
  }
  if (move_.running && move_.seq < 0) {
    host += move_.host.size();
    disk += move_.disk.size();
  }
  MET_CHECK(
      host + static_cast<std::size_t>(host_slots_.free()) == static_cast<std::size_t>(host_slots_.total()),
      "places of the host pool");
  MET_CHECK(
      disk + static_cast<std::size_t>(disk_slots_.free()) == static_cast<std::size_t>(disk_slots_.total()),
      "places of the disk");
}

}  // namespace met::scheduler
