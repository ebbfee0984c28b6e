// Carries a plan out: blocks, rows and the flat arrays of the step. Nothing here can fail (S2).
#include <algorithm>
#include <span>

#include "scheduler/engine_loop.h"

namespace met::scheduler {

void EngineLoop::commit(StepSlot& slot) {
  const StepPlan& plan = slot.plan;
  StepBatch& batch = slot.batch;
  batch.clear();
  for (const Preempt& preempt : plan.preempt)
    preempt.mode == PreemptMode::kSwap ? swap_out(preempt.seq, batch) : park(preempt.seq);
  if (plan.drop >= 0) drop_swapped(plan.drop);
  for (const Admit& entry : plan.resume) {
    std::erase(parked_, entry.seq);
    at(entry.seq).outputs_at_resume = at(entry.seq).outputs();
    enter(entry, entry.seq, entry.hit_tokens, -1);
    restore_state(at(entry.seq), entry.checkpoint, batch);
  }
  for (const Admit& entry : plan.admit) {
    admit(entry);
    restore_state(at(entry.seq), entry.checkpoint, batch);
  }
  for (const Admit& entry : plan.resume)
    if (at(entry.seq).place != SwapPlace::kNone) swap_in(entry, batch);
  for (const Fork& entry : plan.forks) fork(entry, batch);
  if (plan.store >= 0 || plan.load >= 0) start_move(std::max(plan.store, plan.load), plan.store >= 0);
  if (plan.empty()) return;
  for (const Row& row : plan.rows) grow(at(row.seq), row.end);
  for (const Row& row : plan.rows) build_row(row, slot);
  batch.decode_rows = plan.decode_rows;
  if (!plan.rows.empty()) {
    batch.removed.assign(removed_.begin(), removed_.end());
    removed_.clear();
    std::swap(batch.leaves, leaves_);
    slot.captures.insert(slot.captures.end(), leaf_captures_.begin(), leaf_captures_.end());
    leaf_captures_.clear();
  }
  slot.results.samples.resize(batch.samples.size());
  slot.results.prompt_logprobs.resize(batch.prompt_logprobs.size());
}

void EngineLoop::park(SeqIndex index) {
  Sequence& s = at(index);
  s.recomputed_to = std::max(s.recomputed_to, s.planned_len);
  work_.observe_cut(s.outputs());
  leave(index);
  s.state = SeqState::kParked;
  insert_by_admission(parked_, index);
  ++s.preemptions;
  ++numbers_.preemptions;
}

/// Takes the whole request of a queue entry in: the choice that computes the prompt and those that fork from
/// it.
void EngineLoop::admit(const Admit& entry) {
  queue_.admit(entry.seq);
  const Record& record = *at(entry.seq).record;
  const bool counted = config_.prefix_caching && !record.request.prompt_logprobs;
  if (counted) {
    numbers_.prefix_queries += std::ssize(record.request.prompt);
    numbers_.prefix_hits += entry.hit_tokens;
    ++numbers_.prefix_requests;
    numbers_.prefix_requests_hit += entry.hit_tokens > 0 ? 1 : 0;
  }
  for (const SeqIndex index : record.sequences) {
    if (index < 0 || at(index).state != SeqState::kQueued) continue;
    Sequence& s = at(index);
    const std::size_t total = record.request.prompt.size() + static_cast<std::size_t>(record.outputs_max);
    s.ids.reserve(total);
    s.ids = record.request.prompt;
    s.chain.reserve(total / static_cast<std::size_t>(config_.plan.block_tokens) + 1);
    s.chain = record.chain;
    s.blocks.reserve(static_cast<std::size_t>(config_.plan.blocks_of(static_cast<std::int64_t>(total))) + 1);
    --queued_;
    s.admission = ++admissions_;
    s.admitted_us = now_us_;
    s.cached = entry.hit_tokens;
    numbers_.stats.queue_time.observe(static_cast<double>(now_us_ - record.accepted_us) * 1e-6);
    const bool leads = index == entry.seq;
    enter(entry, index, leads ? entry.hit_tokens : 0, leads ? -1 : entry.seq);
  }
}

void EngineLoop::enter(const Admit& entry, SeqIndex index, std::int64_t hit_tokens, SeqIndex fork_from) {
  Sequence& s = at(index);
  MET_CHECK(s.inflight == 0 && s.pending == 0, "it enters with a row in flight");  // S18
  s.state = SeqState::kPrefilling;
  s.device_row = device_rows_.back();
  device_rows_.pop_back();
  s.row_added = false;
  s.reserve_blocks = entry.reserve_blocks;
  s.fork_from = fork_from;
  s.published = hit_tokens / config_.plan.block_tokens;
  cache_.take(s.chain, s.published, s.blocks);
  s.computed_len = hit_tokens;
  s.planned_len = hit_tokens;
  insert_by_admission(live_, index);
}

void EngineLoop::fork(const Fork& entry, StepBatch& batch) {
  Sequence& s = at(entry.seq);
  const Sequence& from = at(entry.from);
  const auto whole = static_cast<std::size_t>(entry.tokens / config_.plan.block_tokens);
  for (std::size_t i = 0; i < whole; ++i) {
    cache_.share(from.blocks[i]);
    s.blocks.push_back(from.blocks[i]);
  }
  if (entry.tokens % config_.plan.block_tokens != 0) {  // B10: a shared block is never written
    s.blocks.push_back(allocate());
    batch.copies.push_back({from.blocks[whole], s.blocks.back()});
  }
  s.published = std::min<std::int64_t>(from.published, static_cast<std::int64_t>(whole));
  s.computed_len = entry.tokens;
  s.planned_len = entry.tokens;
  s.fork_from = -1;
}

BlockId EngineLoop::allocate() {
  numbers_.stats.evictions += cache_.pool().free() == 0 ? 1 : 0;
  return cache_.allocate();
}

void EngineLoop::grow(Sequence& s, std::int64_t end) {
  while (std::ssize(s.blocks) < config_.plan.blocks_of(end)) s.blocks.push_back(allocate());
}

/// Before its first row, or the state that it begins with.
void EngineLoop::add_to_device(Sequence& s, StepBatch& batch) {
  if (s.row_added) return;
  s.row_added = true;
  const Record& record = *s.record;
  const std::span<const TokenId> ids(s.ids);
  const std::size_t prompt = record.request.prompt.size();
  batch.added.push_back({.device_row = s.device_row,
                         .sampling = &record.sampling[static_cast<std::size_t>(s.choice)],
                         .prompt = ids.first(prompt),
                         .output = ids.subspan(prompt),
                         .eos_ids = record.request.eos_ids,
                         .stop_ids = record.request.stop_ids,
                         .constraint = record.request.constraint.get(),
                         .min_tokens = record.request.sampling.min_tokens});
}

void EngineLoop::build_row(const Row& row, StepSlot& slot) {
  StepBatch& batch = slot.batch;
  Sequence& s = at(row.seq);
  const Record& record = *s.record;
  add_to_device(s, batch);
  const auto first_token = static_cast<std::int32_t>(batch.tokens.size());
  const auto width = static_cast<std::int32_t>(row.end - row.begin);
  batch.device_rows.push_back(s.device_row);
  batch.rows.push_back({.token_begin = first_token,
                        .tokens = width,
                        .position = static_cast<std::int32_t>(row.begin),
                        .table_begin = static_cast<std::int32_t>(batch.block_table.size())});
  for (std::int64_t position = row.begin; position < row.end; ++position) {
    batch.tokens.push_back(position < std::ssize(s.ids) ? s.ids[static_cast<std::size_t>(position)]
                                                        : kFromDevice);
    batch.positions.push_back(static_cast<std::int32_t>(position));
  }
  const auto blocks = static_cast<std::size_t>(config_.plan.blocks_of(row.end));
  batch.block_table.insert(batch.block_table.end(), s.blocks.begin(),
                           s.blocks.begin() + static_cast<std::ptrdiff_t>(blocks));
  want_prompt_logprobs(s, row, first_token, batch);
  if (row.samples) {
    const std::int32_t last = first_token + width - 1;
    if (batch.logits.empty() || batch.logits.back() != last) batch.logits.push_back(last);
    batch.samples.push_back({.row = static_cast<std::int32_t>(batch.rows.size()) - 1,
                             .device_row = s.device_row,
                             .logits = static_cast<std::int32_t>(batch.logits.size()) - 1,
                             .position = static_cast<std::int32_t>(row.end),
                             .logprobs = record.request.sampling.logprobs});
    ++s.pending;
    s.state = SeqState::kDecoding;
  }
  capture_in_row(s, row, slot);
  s.planned_len = row.end;
  ++s.inflight;
}

/// The ids 1 … prompt - 1, each once, whatever is computed again (P9). The leading choice alone asks for
/// them.
void EngineLoop::want_prompt_logprobs(Sequence& s, const Row& row, std::int32_t first_token,
                                      StepBatch& batch) {
  const Request& request = s.record->request;
  if (!request.prompt_logprobs || s.choice != 0) return;
  const std::int64_t begin = std::max(row.begin, s.prompt_logprobs_done);
  const std::int64_t end = std::min(row.end, s.prompt_len() - 1);
  for (std::int64_t position = begin; position < end; ++position) {
    batch.logits.push_back(first_token + static_cast<std::int32_t>(position - row.begin));
    batch.prompt_logprobs.push_back({.logits = static_cast<std::int32_t>(batch.logits.size()) - 1,
                                     .id = s.ids[static_cast<std::size_t>(position) + 1],
                                     .top = request.prompt_logprobs_top});
  }
}

}  // namespace met::scheduler
