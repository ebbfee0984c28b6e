// What a finished step means for its sequences: ids, ends, events, blocks to publish. Rules R2, R3, R8 to
// R12, B5.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "scheduler/engine_loop.h"

namespace met::scheduler {
namespace {

double seconds(std::int64_t us) { return static_cast<double>(us) * 1e-6; }

bool holds(const std::vector<TokenId>& ids, TokenId id) { return std::ranges::find(ids, id) != ids.end(); }

/// Why a row without a token fails. Where the request leaves no token the request is wrong, not the engine.
Error flag_error(std::uint32_t flags, std::int64_t position) {
  const std::string at = " at position " + std::to_string(position);
  if ((flags & kFlagNonFinite) != 0)
    return {ErrorCode::kInternal, "the model's logits are not finite" + at, ""};
  if ((flags & kFlagMaskBound) != 0)
    return {ErrorCode::kUnavailable,
            "what may follow" + at +
                " took more time or memory to decide than one token may: simplify the schema or grammar",
            ""};
  if ((flags & kFlagEmptyMask) == 0)
    return {ErrorCode::kInternal, "the sampled token is outside the vocabulary" + at, ""};
  return {ErrorCode::kInvalidArgument,
          "no token is allowed to follow" + at +
              ": what the request asks the text to be and the tokens that it allows or forbids leave none",
          ""};
}

EndClass class_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
    case FinishReason::kContext:
      return EndClass::kLength;
    case FinishReason::kTimeout:
      return EndClass::kTimeout;
    case FinishReason::kRepetition:
      return EndClass::kRepetition;
    default:
      return EndClass::kStop;
  }
}

}  // namespace

bool EngineLoop::settle() {
  const std::size_t oldest = static_cast<std::size_t>(next_slot_ + 2 - in_flight_) % 2;
  StepSlot& slot = slots_[oldest];
  const std::int64_t before_us = clock_.now_us();
  const Result<> done = executor_.settle(slot, config_.step_timeout_us);
  now_us_ = clock_.now_us();
  waited_us_ += now_us_ - before_us;
  if (!done) {
    fail_all(done.error());
    return true;
  }
  --in_flight_;
  settled_ = &slot;
  ++numbers_.steps;
  numbers_.last_progress_us = now_us_;
  observe_step(slot);
  settle_swaps(slot.plan);
  settle_captures(slot);
  emit_prompt_logprobs(slot);
  std::size_t sample = 0;
  for (const Row& row : slot.plan.rows)
    settle_row(row, row.samples ? &slot.results.samples[sample++] : nullptr);
  return true;
}

void EngineLoop::settle_row(const Row& row, const SampleResult* sample) {
  Sequence& s = at(row.seq);
  --s.inflight;
  if (sample != nullptr) --s.pending;
  if (s.state == SeqState::kEnding) {  // R9
    numbers_.overshoot_tokens += row.end - row.begin;
    if (s.inflight == 0) {
      drop_row(s);
      free_place(row.seq);
    }
    return;
  }
  const bool live = s.state != SeqState::kParked && s.state != SeqState::kSwapped;
  if (!live && s.inflight == 0) drop_row(s);
  if (sample != nullptr && sample->flags != 0) {  // F2: nothing of this step is published
    numbers_.stats.corrupted += (sample->flags & kFlagNonFinite) != 0 ? 1 : 0;
    Error error = flag_error(sample->flags, row.end);
    return end(row.seq, {.kind = Event::Kind::kFailed, .error = std::move(error)}, EndClass::kError);
  }
  if (live) {
    s.computed_len = row.end;
    publish_blocks(s);
    if (s.choice == 0 && row.kind == RowKind::kPrefill && s.outputs() == 0)
      s.record->channel.progress(std::min(row.end, s.prompt_len()), s.cached);
  }
  if (sample != nullptr) return take_token(row.seq, *sample);
  if (s.record->outputs_max == 0 && row.end >= s.prompt_len()) finish(row.seq, FinishReason::kLength, 0);
}

/// B4, B5: blocks that settled steps have filled.
void EngineLoop::publish_blocks(Sequence& s) {
  if (!config_.prefix_caching || s.record->request.prompt_logprobs) return;
  const std::int64_t full = s.computed_len / config_.plan.block_tokens;
  if (s.published >= full) return;
  hasher_.extend(s.record->root, s.ids, config_.plan.block_tokens, s.chain);
  for (; s.published < full; ++s.published) {
    const auto i = static_cast<std::size_t>(s.published);
    s.blocks[i] = cache_.publish(s.blocks[i], s.chain[i]);
  }
}

void EngineLoop::take_token(SeqIndex index, const SampleResult& sample) {
  Sequence& s = at(index);
  const Request& request = s.record->request;
  Statistics& stats = numbers_.stats;
  s.ids.push_back(sample.id);
  if (s.first_token_us < 0) {
    s.first_token_us = now_us_;
    stats.time_to_first_token.observe(seconds(now_us_ - s.record->accepted_us));
    stats.prefill_time.observe(seconds(now_us_ - s.admitted_us));
    if (s.choice == 0) {
      stats.prompt_tokens += s.prompt_len();
      stats.prompt_tokens_cached += std::max<std::int64_t>(s.cached, 0);
    }
  } else {
    stats.inter_token_latency.observe(seconds(now_us_ - s.last_token_us));
  }
  s.last_token_us = now_us_;
  ++stats.generation_tokens;
  s.record->channel.token(s.choice, sample.id, request.sampling.logprobs >= 0 ? &sample.logprobs : nullptr);
  const std::int64_t outputs = s.outputs();
  const auto ends = [&](FinishReason reason) { finish(index, reason, outputs); };  // R8
  if (deadlines_[static_cast<std::size_t>(index)] <= now_us_) return ends(FinishReason::kTimeout);
  if (holds(request.eos_ids, sample.id)) return ends(FinishReason::kEos);
  if (holds(request.stop_ids, sample.id)) return ends(FinishReason::kStopToken);
  if (s.stop_at >= 0 && outputs >= s.stop_at) return ends(s.stop_reason);
  if (outputs >= request.max_tokens) return ends(FinishReason::kLength);
  if (outputs >= s.record->outputs_max) return ends(FinishReason::kContext);
}

void EngineLoop::emit_prompt_logprobs(const StepSlot& slot) {
  const StepBatch& batch = slot.batch;
  std::size_t next = 0;
  for (const Row& row : slot.plan.rows) {
    Sequence& s = at(row.seq);
    if (next == batch.prompt_logprobs.size()) return;
    if (!s.record->request.prompt_logprobs || s.choice != 0) continue;
    const std::int64_t begin = std::max(row.begin, s.prompt_logprobs_done);
    const std::int64_t end = std::min(row.end, s.prompt_len() - 1);
    if (begin >= end) continue;
    const auto first = slot.results.prompt_logprobs.begin() + static_cast<std::ptrdiff_t>(next);
    next += static_cast<std::size_t>(end - begin);
    if (s.state == SeqState::kEnding) continue;
    s.record->channel.prompt_logprobs({first, first + (end - begin)});
    s.prompt_logprobs_done = end;
  }
}

void EngineLoop::observe_step(const StepSlot& slot) {
  const StepPlan& plan = slot.plan;
  Statistics& stats = numbers_.stats;
  // At depth 2 a step begins when the one before it is done.
  const std::int64_t began_us = std::max(slot.started_us, last_done_us_);
  if (last_done_us_ >= 0 && slot.started_us > last_done_us_ && slot.plan.decode_rows > 0)
    stats.device_idle_s += seconds(slot.started_us - last_done_us_);
  last_done_us_ = slot.done_us;
  const std::int64_t step_us = slot.done_us - began_us;
  costs_.observe(plan, step_us, slot.results.swap_us);
  if (plan.rows.empty()) return;
  ++(slot.results.replayed ? stats.steps_replayed : stats.steps_eager);
  const std::int64_t prefill = plan.tokens.prefill + plan.tokens.recomputed;
  (prefill == 0            ? stats.step_decode
   : plan.decode_rows == 0 ? stats.step_prefill
                           : stats.step_mixed)
      .observe(seconds(step_us));
  stats.last_decode_rows = plan.decode_rows;
  stats.last_prefill_rows = std::ssize(plan.rows) - plan.decode_rows;
  work_.observe_step(plan.tokens);
  stats.iteration_tokens.observe(static_cast<double>(prefill + plan.tokens.decode));
  const auto add = [&](TokenClass kind, std::int64_t tokens) {
    stats.tokens[static_cast<std::size_t>(kind)] += tokens;
  };
  add(TokenClass::kDecode, plan.tokens.decode);
  add(TokenClass::kPrefill, plan.tokens.prefill);
  add(TokenClass::kRecomputed, plan.tokens.recomputed);
  add(TokenClass::kPadded, plan.tokens.padded);
}

// ---- ends

void EngineLoop::finish(SeqIndex index, FinishReason reason, std::int64_t completion_tokens) {
  if (at(index).state == SeqState::kDecoding) capture_leaf(at(index));
  end(index, {.kind = Event::Kind::kFinished, .reason = reason, .completion_tokens = completion_tokens},
      class_of(reason));
}

/// The one way in which a sequence ends: everything it held is back, but its device row while a step in
/// flight uses it (R2, R5).
void EngineLoop::end(SeqIndex index, Event event, EndClass end_class) {
  Sequence& s = at(index);
  event.cached = std::max<std::int64_t>(s.cached, 0);
  if (event.kind != Event::Kind::kFinished) event.completion_tokens = s.outputs();
  work_.observe_outputs(s.outputs());
  if (!s.record->request.probe) observe_end(s, end_class);
  const auto choice = static_cast<std::size_t>(s.choice);
  switch (s.state) {
    case SeqState::kQueued: {
      s.record->sequences[choice] = -1;
      --queued_;
      if (!queue_.holds(index)) break;
      const auto& others = s.record->sequences;
      const auto heir = std::ranges::find_if(others, [](SeqIndex other) { return other >= 0; });
      if (heir == others.end()) {
        queue_.erase(index);
      } else {
        queue_.replace(index, *heir);
      }
      break;
    }
    case SeqState::kParked:
    case SeqState::kSwapped:
      std::erase(parked_, index);
      if (s.place != SwapPlace::kNone) forget_swap(s, /*in_this_step=*/false);
      break;
    default:
      leave(index);
  }
  s.record->sequences[choice] = -1;
  deadlines_[static_cast<std::size_t>(index)] = std::numeric_limits<std::int64_t>::max();
  s.state = SeqState::kEnding;
  open_.fetch_sub(1, std::memory_order_relaxed);  // first: whoever hears of the end may ask again at once
  s.record->channel.terminal(s.choice, std::move(event));
  if (s.inflight == 0) free_place(index);
}

/// Takes a live sequence from the live list and its blocks from it.
void EngineLoop::leave(SeqIndex index) {
  Sequence& s = at(index);
  std::erase(live_, index);
  hand_on_forks(index);
  cache_.release_all(s.blocks);
  s.blocks.clear();
  s.computed_len = 0;
  s.planned_len = 0;
  s.published = 0;
  s.fork_from = -1;
  s.full_since_us = -1;
  if (s.inflight == 0) drop_row(s);
}

/// The choices that would have forked from `from` get another one that computes the prompt: the first of
/// them.
void EngineLoop::hand_on_forks(SeqIndex from) {
  SeqIndex heir = -1;
  for (const SeqIndex index : live_) {
    Sequence& s = at(index);
    if (s.fork_from != from) continue;
    s.fork_from = heir;
    if (heir < 0) heir = index;
  }
}

void EngineLoop::drop_row(Sequence& s) {
  if (s.row_added) removed_.push_back(s.device_row);
  s.row_added = false;
  device_rows_.push_back(s.device_row);
  s.device_row = -1;
}

void EngineLoop::free_place(SeqIndex index) {
  at(index).record.reset();
  places_.push_back(index);
}

void EngineLoop::insert_by_admission(std::vector<SeqIndex>& list, SeqIndex index) {
  const auto after = std::ranges::upper_bound(list, at(index).admission, {},
                                              [&](SeqIndex other) { return at(other).admission; });
  list.insert(after, index);
}

void EngineLoop::observe_end(const Sequence& s, EndClass end_class) {
  Statistics& stats = numbers_.stats;
  const Request& request = s.record->request;
  ++stats.ended[static_cast<std::size_t>(end_class)];
  stats.e2e_latency.observe(seconds(now_us_ - s.record->accepted_us));
  stats.request_prompt_tokens.observe(static_cast<double>(s.prompt_len()));
  stats.request_generation_tokens.observe(static_cast<double>(s.outputs()));
  Record& record = *s.record;
  record.outputs_most = std::max(record.outputs_most, s.outputs());
  if (std::ranges::count_if(record.sequences, [](SeqIndex other) { return other >= 0; }) ==
      1)  // the last choice
    stats.request_generation_most.observe(static_cast<double>(record.outputs_most));
  if (s.choice == 0 && s.cached >= 0)
    stats.request_prefill_computed.observe(static_cast<double>(s.prompt_len() - s.cached));
  stats.request_max_tokens.observe(static_cast<double>(request.max_tokens));
  stats.request_n.observe(request.n);
  if (s.first_token_us < 0) return;
  stats.decode_time.observe(seconds(s.last_token_us - s.first_token_us));
  stats.inference_time.observe(seconds(s.last_token_us - s.admitted_us));
  if (s.outputs() > 1)
    stats.time_per_output_token.observe(seconds(s.last_token_us - s.first_token_us) /
                                        static_cast<double>(s.outputs() - 1));
}

}  // namespace met::scheduler
