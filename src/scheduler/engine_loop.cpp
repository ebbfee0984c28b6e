#include "scheduler/engine_loop.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace met::scheduler {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
/// A waiting request gains one level of priority in this time (S22).
constexpr std::int64_t kLevelUs = 5'000'000;

}  // namespace

EngineLoop::EngineLoop(const EngineConfig& config, Inbox& inbox, Executor& executor, const Clock& clock,
                       std::atomic<int>& open, Spill* spill)
    : config_(config),
      inbox_(inbox),
      executor_(executor),
      clock_(clock),
      open_(open),
      cache_(config.plan.blocks_total),
      hasher_(config.cache_key, config.cache_identity),
      checkpoints_(config.plan.recurrent.on ? config.plan.recurrent.slots : 0),
      spill_(spill),
      host_slots_(config.plan.swap_blocks),
      disk_slots_(spill == nullptr ? 0 : config.plan.disk_blocks),
      costs_(config.swap_block_ns),
      plan_(&slots_[0].plan) {
  // An ended sequence keeps its place while a step in flight holds a row of it.
  const auto places = static_cast<std::size_t>(config.max_num_seqs + config.plan.max_batch_size);
  table_.resize(places);
  deadlines_.assign(places, kNever);
  for (std::size_t place = places; place-- > 0;) places_.push_back(static_cast<SeqIndex>(place));
  for (int row = config.plan.max_batch_size; row-- > 0;) device_rows_.push_back(row);
  parked_.reserve(places);
  letters_.reserve(places);
  const auto rows = static_cast<std::size_t>(config.plan.max_batch_size);
  live_.reserve(rows);
  removed_.reserve(rows);
  limbo_.reserve(static_cast<std::size_t>(config.plan.swap_blocks));
  live_views_.reserve(rows);
  producers_.reserve(rows);
  keys_.reserve(WaitQueue::kHeadsMax);
  for (StepSlot& slot : slots_) slot.batch.reserve(step_limits(config.plan));
  numbers_.blocks_total = config.plan.blocks_total;
  numbers_.last_progress_us = clock.now_us();
  publish_numbers();
}

bool EngineLoop::tick() {
  now_us_ = clock_.now_us();
  ++numbers_.ticks;
  waited_us_ = 0;
  settled_ = nullptr;
  const std::int64_t began_us = now_us_;
  bool moved = drain_inbox();
  moved |= apply_deadlines();
  moved |= end_slow_consumers();
  moved |= finish_move();
  if (fault_) {
    const bool was_idle = in_flight_ == 0;
    find_wake();
    build_view();
    StepSlot& slot = slots_[static_cast<std::size_t>(next_slot_)];
    plan_ = &slot.plan;
    plan_step(view_, config_.plan, now_us_, scratch_, slot.plan);
    wake_us_ = slot.plan.wake_us;
    const bool work = !slot.plan.empty();
    const bool waiting = !live_.empty() || !parked_.empty() || !queue_.empty();
    const bool moving = move_.running || slot.plan.load >= 0 || slot.plan.store >= 0 || slot.plan.drop >= 0;
    MET_CHECK(!was_idle || work || moving || !waiting || slot.plan.wake_us >= 0,
              "sequences wait for nothing");  // S20
    moved |= work || !slot.plan.preempt.empty() || slot.plan.drop >= 0;
    count_producer_waits();
    slai_skips_ = slot.plan.slai_skipped ? slai_skips_ + 1 : 0;
    numbers_.stats.slai_infeasible = slot.plan.slai_infeasible;
    if (!was_idle && waiting) observe_overlap();
    commit(slot);
    if (work) {
      slot.started_us = clock_.now_us();
      if (in_flight_ == 0)
        numbers_.last_progress_us = slot.started_us;  // F5: the wait for work does not count
      executor_.start(slot);
      next_slot_ = (next_slot_ + 1) % 2;
      ++in_flight_;
      ++steps_started_;
    }
    if (in_flight_ > (work ? config_.plan.depth - 1 : 0)) {
      if (on_planned_) {  // what runs now is told before the wait for it
        publish_numbers();
        on_planned_();
      }
      moved |= settle();
    }
  }
  publish_numbers();
  if (moved)
    numbers_.stats.tick_host.observe(static_cast<double>(clock_.now_us() - began_us - waited_us_) * 1e-6);
  return moved && fault_.has_value();
}

bool EngineLoop::drain_inbox() {
  inbox_.take(letters_);
  for (const Inbox::Letter& letter : letters_) {
    Record& record = *letter.record;
    if (letter.fresh) accept(letter.record);
    for (const StopAt& stop : letter.stops) apply_stop(record, stop);
    if (!letter.cancel) continue;
    for (const SeqIndex index : record.sequences)  // R4
      if (index >= 0) end(index, {.kind = Event::Kind::kCancelled}, EndClass::kAbort);
  }
  const bool any = !letters_.empty();
  letters_.clear();  // a record must not outlive its sequences here
  return any;
}

void EngineLoop::accept(const std::shared_ptr<Record>& record) {
  record->channel.accepted();
  record->sequences.assign(record->sampling.size(), -1);
  for (std::size_t choice = 0; choice < record->sampling.size(); ++choice) {
    MET_CHECK(!places_.empty(), "more sequences than the limit of accepted ones");
    const SeqIndex index = places_.back();
    places_.pop_back();
    at(index) = Sequence{};
    at(index).record = record;
    at(index).number = record->number;
    at(index).choice = static_cast<int>(choice);
    record->sequences[choice] = index;
    if (record->deadline_us >= 0) deadlines_[static_cast<std::size_t>(index)] = record->deadline_us;
  }
  enqueue(record->sequences.front());
  queued_ += std::ssize(record->sequences);
  if (!fault_) {
    for (const SeqIndex index : record->sequences)
      end(index, {.kind = Event::Kind::kFailed, .error = fault_.error()}, EndClass::kError);
  } else if (record->request.probe) {
    answer_probe(record->sequences.front());
  }
}

/// What the cache holds of its prompt, at the place in the queue that it will not take.
void EngineLoop::answer_probe(SeqIndex index) {
  Sequence& s = at(index);
  const std::int64_t blocks = cache_.match(s.record->chain).blocks;
  s.cached =
      cache::usable_hit(blocks, s.prompt_len(), config_.plan.block_tokens, config_.plan.chunk_grid_tokens);
  end(index,
      {.kind = Event::Kind::kFinished,
       .prompt_computed = blocks * config_.plan.block_tokens,
       .reason = FinishReason::kLength},
      EndClass::kLength);
}

/// S22: as a level is worth a fixed time of waiting, the order of two requests never changes while they wait.
void EngineLoop::enqueue(SeqIndex index) {
  const Record& record = *at(index).record;
  const Request& request = record.request;
  last_arrival_us_ = std::max(last_arrival_us_, record.accepted_us);
  const bool fifo = config_.plan.policy == Policy::kFifo;
  const std::int64_t outputs = std::min(record.outputs_max, config_.plan.kv_admit_watermark);
  queue_.push(request.tenant, {.seq = index,
                               .order = fifo ? 0 : record.accepted_us + request.priority * kLevelUs,
                               .cost = std::ssize(request.prompt) + request.n * outputs});
}

void EngineLoop::apply_stop(const Record& record, const StopAt& stop) {
  const auto choice = static_cast<std::size_t>(stop.choice);
  if (choice >= record.sequences.size() || record.sequences[choice] < 0) return;
  const SeqIndex index = record.sequences[choice];
  Sequence& sequence = at(index);
  if (sequence.outputs() >= stop.ids) {
    numbers_.overshoot_tokens += sequence.outputs() - stop.ids;
    return finish(index, stop.reason, stop.ids);
  }
  sequence.stop_at = stop.ids;
  sequence.stop_reason = stop.reason;
}

bool EngineLoop::apply_deadlines() {
  bool any = false;
  for (std::size_t place = 0; place < deadlines_.size(); ++place) {
    if (deadlines_[place] > now_us_) continue;
    const auto index = static_cast<SeqIndex>(place);
    finish(index, FinishReason::kTimeout, at(index).outputs());
    any = true;
  }
  const std::optional<std::int64_t> drain = inbox_.drain_deadline();
  numbers_.draining = drain.has_value();
  if (!drain || *drain > now_us_) return any;
  for (std::size_t place = 0; place < table_.size(); ++place) {  // F7
    if (!table_[place].record || table_[place].state == SeqState::kEnding) continue;
    end(static_cast<SeqIndex>(place), {.kind = Event::Kind::kCancelled}, EndClass::kAbort);
    any = true;
  }
  return any;
}

bool EngineLoop::end_slow_consumers() {
  bool any = false;
  for (std::size_t i = 0; i < live_.size();) {
    const SeqIndex index = live_[i++];
    Sequence& sequence = at(index);
    if (!sequence.record->channel.full(sequence.choice)) {
      sequence.full_since_us = -1;
    } else if (sequence.full_since_us < 0) {
      sequence.full_since_us = now_us_;
    } else if (now_us_ - sequence.full_since_us >= config_.slow_consumer_us) {
      Error error{ErrorCode::kCancelled, "slow_consumer: nobody read the events of this request", ""};
      end(index, {.kind = Event::Kind::kCancelled, .error = std::move(error)}, EndClass::kAbort);
      --i;
      any = true;
    }
  }
  return any;
}

void EngineLoop::find_wake() {
  std::int64_t wake = *std::min_element(deadlines_.begin(), deadlines_.end());
  for (const SeqIndex index : live_) {
    const std::int64_t since = at(index).full_since_us;
    if (since >= 0) wake = std::min(wake, since + config_.slow_consumer_us);
  }
  if (const auto drain = inbox_.drain_deadline(); drain && *drain > now_us_) wake = std::min(wake, *drain);
  wake_us_ = wake == kNever ? -1 : wake;
}

void EngineLoop::build_view() {
  live_views_.clear();
  int decoding = 0;
  for (const SeqIndex index : live_) {
    const Sequence& s = at(index);
    decoding += s.state == SeqState::kDecoding ? 1 : 0;
    live_views_.push_back(
        {.seq = index,
         .state = s.state,
         .paused = s.full_since_us >= 0,
         .undecided = s.pending > 0 && s.record->request.constraint != nullptr,
         .prompt_logprobs = s.record->request.prompt_logprobs,
         .fork_from = s.fork_from,
         .fork_len = s.fork_from >= 0 ? s.prompt_len() - 1 : 0,
         .prompt_len = s.prompt_len(),
         .len = s.len(),
         .planned_len = s.planned_len,
         .outputs_max = s.record->outputs_max,
         .recomputed_to = s.recomputed_to,
         .reserve_blocks = s.reserve_blocks,
         .since_resume = s.outputs_at_resume >= 0 ? s.outputs() + s.pending - s.outputs_at_resume : -1,
         .last_token_us = s.last_token_us,
         .blocks = s.blocks});
  }
  parked_views_.clear();
  for (const SeqIndex index : parked_) parked_views_.push_back(wait_view(index, 1));
  queued_views_.clear();
  // In the queue's order no more than these can enter.
  const bool fifo = config_.plan.policy == Policy::kFifo;
  for (const SeqIndex index : queue_.first(fifo ? device_rows_.size() + 1 : WaitQueue::kHeadsMax))
    queued_views_.push_back(wait_view(index, queued_choices(at(index))));
  find_producers();
  const cache::BlockPool& pool = cache_.pool();
  view_ = {.live = live_views_,
           .parked = parked_views_,
           .queued = queued_views_,
           .block_refs = pool.all_refs(),
           .queued_total = static_cast<std::int64_t>(queue_.size()),
           .last_arrival_us = last_arrival_us_,
           .wake_us = wake_us_,
           .blocks_free = pool.free(),
           .blocks_evictable = pool.evictable(),
           .swap_free = host_slots_.free(),
           .disk_free = disk_failed_ ? 0 : disk_slots_.free(),
           .disk_busy = move_.running,
           .rows_free = static_cast<int>(device_rows_.size()),
           .slai_skips = slai_skips_,
           .step_left_us = step_left_us(),
           .cost = costs_.model(decoding),
           .work = work_.recent()};
}

/// What the cost model gives the step in flight, less what it has run.
std::int64_t EngineLoop::step_left_us() const {
  if (in_flight_ == 0) return 0;
  const StepSlot& slot = slots_[static_cast<std::size_t>(next_slot_ + 2 - in_flight_) % 2];
  const CostModel cost = costs_.model(slot.plan.decode_rows);
  const std::int64_t prefill = slot.plan.tokens.prefill + slot.plan.tokens.recomputed;
  const std::int64_t ran_us = now_us_ - std::max(slot.started_us, last_done_us_);
  return std::max<std::int64_t>(0, cost.decode_step_us + cost.prefill_us(prefill) - ran_us);
}

WaitView EngineLoop::wait_view(SeqIndex index, int rows) {
  Sequence& s = at(index);
  const Record& record = *s.record;
  WaitView view{.seq = index,
                .rows = rows,
                .tenant = record.request.tenant,
                .prompt_logprobs = record.request.prompt_logprobs,
                .prompt_len = s.prompt_len(),
                .len = s.len(),
                .outputs_left = record.outputs_max - s.outputs() - s.pending,
                .recomputed_to = s.recomputed_to,
                .accepted_us = record.accepted_us,
                .preemptions = s.preemptions,
                .place = s.place,
                .swapped_len = s.swapped_len};
  if (!config_.prefix_caching || view.prompt_logprobs || device_rows_.empty()) return view;
  if (!s.ids.empty()) hasher_.extend(record.root, s.ids, config_.plan.block_tokens, s.chain);
  const std::vector<Hash128>& chain = s.ids.empty() ? record.chain : s.chain;
  const cache::BlockCache::Match match = cache_.match(chain);
  view.hit_tokens =
      cache::usable_hit(match.blocks, view.len, config_.plan.block_tokens, config_.plan.chunk_grid_tokens);
  if (config_.plan.recurrent.on) cut_to_checkpoint(view, record, chain);
  const std::int64_t cut = match.blocks - view.hit_tokens / config_.plan.block_tokens;
  view.hit_referenced =
      cut == 0
          ? match.referenced
          : cache_.match(std::span(chain).first(static_cast<std::size_t>(match.blocks - cut))).referenced;
  return view;
}

/// P10: of each queued head the sequence that will have indexed `producer_tokens` more of its prompt than the index has now:
/// a live one that computes its own prompt, else a head in front of it. Whole blocks, equal chains.
void EngineLoop::find_producers() {
  const PlanConfig& plan = config_.plan;
  if (!config_.prefix_caching || plan.producer_tokens == 0 || plan.recurrent.on || device_rows_.empty())
    return;
  producers_.clear();
  for (const LiveView& live : live_views_)
    if (at(live.seq).computed_len < live.prompt_len && live.fork_from < 0 && !live.prompt_logprobs &&
        !live.paused)
      producers_.push_back(live.seq);
  if (producers_.empty() && queued_views_.size() < 2) return;
  const auto more = static_cast<std::size_t>(plan.blocks_of(plan.producer_tokens));
  keys_.clear();
  for (WaitView& view : queued_views_) {
    const std::vector<Hash128>& chain = at(view.seq).record->chain;
    const std::size_t last = static_cast<std::size_t>(view.hit_tokens / plan.block_tokens) + more - 1;
    const bool long_enough = !view.prompt_logprobs && last < chain.size();
    keys_.push_back({view.seq, long_enough ? chain[last] : Hash128{}});
    if (!long_enough) continue;
    view.producer_ticks = at(view.seq).producer_ticks;
    for (const SeqIndex live : producers_) {
      const std::vector<Hash128>& other = at(live).chain;
      if (last < other.size() && other[last] == chain[last]) {
        view.producer = live;
        break;
      }
    }
    // Two heads whose chains agree that far behind what is indexed have the same hit, so one key each is enough.
    const auto equal = [&](const auto& key) { return key.second == chain[last]; };
    if (view.producer < 0) view.producer = std::ranges::find_if(keys_, equal)->first;
    if (view.producer == view.seq) view.producer = -1;
  }
}

void EngineLoop::count_producer_waits() {
  for (const Wait& wait : plan_->waits)
    if (wait.reason == WaitReason::kProducer && at(wait.seq).state == SeqState::kQueued)
      ++at(wait.seq).producer_ticks;
}

int EngineLoop::queued_choices(const Sequence& lead) const {
  int count = 0;
  for (const SeqIndex index : lead.record->sequences)
    count += index >= 0 && at(index).state == SeqState::kQueued ? 1 : 0;
  return count;
}

/// F4: nothing is planned any more, and what the step in flight still uses stays where it is.
void EngineLoop::fail_all(const Error& error) {
  fault_ = std::unexpected(error);
  numbers_.faulted = true;
  for (std::size_t place = 0; place < table_.size(); ++place) {
    if (!table_[place].record || table_[place].state == SeqState::kEnding) continue;
    end(static_cast<SeqIndex>(place), {.kind = Event::Kind::kFailed, .error = error}, EndClass::kError);
  }
}

std::int64_t EngineLoop::count(const std::vector<SeqIndex>& list, SeqState state) const {
  return std::ranges::count_if(list, [&](SeqIndex index) { return at(index).state == state; });
}

/// What keeps this plan from running behind the step in flight: all of it, or rows that depend on a token there (E8).
void EngineLoop::observe_overlap() {
  Statistics& stats = numbers_.stats;
  if (!plan_->empty()) {
    stats.async_rows_held += std::ranges::count(plan_->waits, WaitReason::kGrammar, &Wait::reason);
    return;
  }
  // A row at its limit waits for nothing but its end (R10): any other reason says more.
  const auto told = [](const Wait& wait) { return wait.reason != WaitReason::kLimit; };
  const auto first = std::ranges::find_if(plan_->waits, told);
  const WaitReason why = first == plan_->waits.end() ? WaitReason::kLimit : first->reason;
  ++stats.async_drains[static_cast<std::size_t>(why)];
}

void EngineLoop::publish_numbers() {
  const cache::BlockPool& pool = cache_.pool();
  numbers_.running = std::ssize(live_);
  numbers_.waiting = std::ssize(parked_) + queued_;
  numbers_.prefilling = count(live_, SeqState::kPrefilling);
  numbers_.parked = count(parked_, SeqState::kParked);
  numbers_.swapped = std::ssize(parked_) - numbers_.parked;
  numbers_.blocks_free = pool.free();
  numbers_.blocks_evictable = pool.evictable();
  numbers_.blocks_referenced = pool.referenced();
  numbers_.swap_blocks_used = host_slots_.total() - host_slots_.free();
  numbers_.disk_blocks_used = disk_slots_.total() - disk_slots_.free();
  if (config_.plan.recurrent.on) {  // a device row is a state slot
    numbers_.state_slots_total = config_.plan.max_batch_size;
    numbers_.state_slots_used = numbers_.state_slots_total - std::ssize(device_rows_);
    numbers_.checkpoint_slots_total = checkpoints_.slots();
    numbers_.checkpoint_slots_used = checkpoints_.used();
    numbers_.stats.checkpoints_evicted = checkpoints_.evictions();
  }
  numbers_.now_us = now_us_;
  numbers_.stats.tokens[static_cast<std::size_t>(TokenClass::kOvershoot)] = numbers_.overshoot_tokens;
  auto& waits = numbers_.stats.waits;
  waits.fill(0);
  for (const Wait& wait : plan_->waits) ++waits[static_cast<std::size_t>(wait.reason)];
  if (plan_->waits_behind > 0)
    waits[static_cast<std::size_t>(plan_->waits.back().reason)] += plan_->waits_behind;
}

void EngineLoop::check() const {
  cache_.check();
  std::vector<std::int32_t> refs(static_cast<std::size_t>(cache_.pool().total()), 0);
  std::size_t rows = 0;
  std::size_t live = 0;
  for (const Sequence& s : table_) {
    if (!s.record) continue;
    const bool is_live = s.state == SeqState::kPrefilling || s.state == SeqState::kDecoding;
    MET_CHECK(is_live || s.blocks.empty(), "only live sequences hold blocks");
    MET_CHECK(s.device_row >= 0 ? is_live || s.inflight > 0 : !is_live && s.inflight == 0, "device row");
    MET_CHECK(!is_live || s.computed_len <= s.known_len(), "computed past what is known");
    rows += s.device_row >= 0 ? 1 : 0;
    live += is_live ? 1 : 0;
    for (const BlockId block : s.blocks) ++refs[static_cast<std::size_t>(block)];
  }
  MET_CHECK(std::ranges::equal(refs, cache_.pool().all_refs()), "references are those of the tables");  // B2
  MET_CHECK(rows + device_rows_.size() == static_cast<std::size_t>(config_.plan.max_batch_size),
            "device rows");
  MET_CHECK(live == live_.size(), "live list");
  check_swap();
  std::int64_t writing = std::ssize(leaf_captures_);
  for (const StepSlot& slot : slots_) writing += std::ssize(slot.captures);
  MET_CHECK(fault_ ? checkpoints_.taken() == writing : true, "taken checkpoints");
}

}  // namespace met::scheduler
