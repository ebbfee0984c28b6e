// The engine's thread as a function of its inbox, its clock and its device: one tick at a time. Rules E1 to
// E12.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cache/block_cache.h"
#include "cache/checkpoint_index.h"
#include "core/clock.h"
#include "scheduler/cost_meter.h"
#include "scheduler/engine.h"
#include "scheduler/executor.h"
#include "scheduler/inbox.h"
#include "scheduler/plan.h"
#include "scheduler/sequence.h"
#include "scheduler/spill.h"
#include "scheduler/wait_queue.h"
#include "scheduler/work_meter.h"

namespace met::scheduler {

/// Owns every sequence, block and device row (E1). All methods are of one thread.
class EngineLoop {
 public:
  /// `open` counts accepted choices that have not ended; the loop lowers it with each terminal event (E12). `spill` moves
  /// blocks to disk where the configuration has places there.
  EngineLoop(const EngineConfig& config, Inbox& inbox, Executor& executor, const Clock& clock,
             std::atomic<int>& open, Spill* spill = nullptr);

  /// One turn, in the order of E5. False: nothing happened, and nothing will before mail or wake_us().
  bool tick();
  /// Earliest time at which a tick has something to do without mail; -1: none.
  std::int64_t wake_us() const { return wake_us_; }
  /// Set by a device failure, after every request has got its terminal event (F4).
  const Result<>& fault() const { return fault_; }
  /// As of the last tick (E2).
  const Snapshot& snapshot() const { return numbers_; }
  /// Called in a tick when its step was started and before the wait for it: the snapshot then shows what runs.
  void on_planned(std::function<void()> told) { on_planned_ = std::move(told); }

  // For traces and invariants (T1, T3).
  const StepPlan& plan() const { return *plan_; }
  const StepSlot* settled() const { return settled_; }  ///< the step that the last tick settled, or null
  const cache::BlockCache& blocks() const { return cache_; }
  const std::vector<Sequence>& sequences() const { return table_; }
  int steps_in_flight() const { return in_flight_; }
  /// Recounts blocks, references, rows, lists and swap places (B1, B2, B7). Aborts on a difference.
  void check() const;

 private:
  // engine_loop.cpp: mail, time, views
  bool drain_inbox();
  void accept(const std::shared_ptr<Record>& record);
  void enqueue(SeqIndex index);
  void answer_probe(SeqIndex index);
  std::int64_t step_left_us() const;
  void apply_stop(const Record& record, const StopAt& stop);
  bool apply_deadlines();
  bool end_slow_consumers();
  void find_wake();
  void build_view();
  WaitView wait_view(SeqIndex index, int rows);
  void find_producers();
  void count_producer_waits();
  int queued_choices(const Sequence& lead) const;
  void fail_all(const Error& error);
  std::int64_t count(const std::vector<SeqIndex>& list, SeqState state) const;
  void observe_overlap();
  void publish_numbers();

  // commit.cpp: carries a plan out (S2)
  void commit(StepSlot& slot);
  void park(SeqIndex index);
  void enter(const Admit& admit, SeqIndex index, std::int64_t hit_tokens, SeqIndex fork_from);
  void admit(const Admit& admit);
  void fork(const Fork& fork, StepBatch& batch);
  void grow(Sequence& sequence, std::int64_t end);
  void add_to_device(Sequence& sequence, StepBatch& batch);
  void build_row(const Row& row, StepSlot& slot);
  void want_prompt_logprobs(Sequence& sequence, const Row& row, std::int32_t first_token, StepBatch& batch);
  BlockId allocate();

  // state.cpp: checkpoints of recurrent state
  void cut_to_checkpoint(WaitView& view, const Record& record, std::span<const Hash128> chain);
  void restore_state(Sequence& sequence, std::int32_t checkpoint, StepBatch& batch);
  Capture capture_of(Sequence& sequence, std::int32_t slot, std::int64_t position);
  bool may_capture(const Sequence& sequence) const;
  void capture_in_row(Sequence& sequence, const Row& row, StepSlot& slot);
  void capture_leaf(Sequence& sequence);
  void settle_captures(StepSlot& slot);

  // swap.cpp: swapped sequences and their places
  void swap_out(SeqIndex index, StepBatch& batch);
  void swap_in(const Admit& entry, StepBatch& batch);
  void forget_swap(Sequence& sequence, bool in_this_step);
  void release_limbo();
  void settle_swaps(const StepPlan& plan);
  void drop_swapped(SeqIndex index);
  void start_move(SeqIndex index, bool store);
  bool finish_move();
  void check_swap() const;

  // settle.cpp: what came back
  bool settle();
  void settle_row(const Row& row, const SampleResult* sample);
  void publish_blocks(Sequence& sequence);
  void take_token(SeqIndex index, const SampleResult& sample);
  void emit_prompt_logprobs(const StepSlot& slot);
  void observe_step(const StepSlot& slot);
  void observe_end(const Sequence& sequence, EndClass end);
  void finish(SeqIndex index, FinishReason reason, std::int64_t completion_tokens);
  void end(SeqIndex index, Event event, EndClass end);
  void leave(SeqIndex index);
  void hand_on_forks(SeqIndex from);
  void drop_row(Sequence& sequence);
  void free_place(SeqIndex index);
  void insert_by_admission(std::vector<SeqIndex>& list, SeqIndex index);

  Sequence& at(SeqIndex index) { return table_[static_cast<std::size_t>(index)]; }
  const Sequence& at(SeqIndex index) const { return table_[static_cast<std::size_t>(index)]; }

  const EngineConfig config_;
  Inbox& inbox_;
  Executor& executor_;
  const Clock& clock_;
  std::atomic<int>& open_;

  cache::BlockCache cache_;
  cache::ChainHasher hasher_;
  std::vector<Sequence> table_;
  std::vector<std::int64_t> deadlines_;  ///< of each place in the table (R7)
  std::vector<SeqIndex> places_;         ///< free ones, a stack
  std::vector<int> device_rows_;         ///< free ones, a stack
  std::vector<std::int32_t> removed_;    ///< device rows that the next batch takes from the device
  std::vector<SeqIndex> live_;           ///< by admission
  std::vector<SeqIndex> parked_;         ///< and swapped ones, by admission
  WaitQueue queue_;                      ///< of each request the choice that will compute the prompt
  std::int64_t queued_ = 0;              ///< choices in it
  std::int64_t last_arrival_us_ = 0;     ///< of a request
  std::uint64_t admissions_ = 0;

  /// A place of the host pool that a step in flight may still read or write (B9).
  struct Limbo {
    SwapSlot slot = 0;
    std::int64_t step = 0;  ///< free once so many have settled
  };
  /// The transfer between host pool and disk that runs.
  struct Move {
    bool running = false;
    bool store = false;
    SeqIndex seq = -1;  ///< -1: it has ended meanwhile, the places are the move's
    std::vector<SwapSlot> host;
    std::vector<SwapSlot> disk;
  };
  cache::CheckpointIndex checkpoints_;
  std::vector<StateCopy> leaves_;  ///< that the next batch saves before their rows are removed
  std::vector<Capture> leaf_captures_;

  Spill* spill_;
  cache::SlotPool host_slots_;
  cache::SlotPool disk_slots_;
  std::vector<Limbo> limbo_;
  Move move_;
  bool disk_failed_ = false;
  std::int64_t steps_started_ = 0;

  std::array<StepSlot, 2> slots_;
  int next_slot_ = 0;
  int in_flight_ = 0;
  int slai_skips_ = 0;
  std::int64_t last_done_us_ = -1;
  CostMeter costs_;
  WorkMeter work_;

  std::vector<Inbox::Letter> letters_;
  std::vector<LiveView> live_views_;
  std::vector<WaitView> parked_views_;
  std::vector<WaitView> queued_views_;
  std::vector<std::pair<SeqIndex, Hash128>> keys_;  ///< where a producer's chain has to agree
  std::vector<SeqIndex> producers_;  ///< live sequences that compute their prompts, as of find_producers()
  View view_;
  PlanScratch scratch_;

  std::int64_t now_us_ = 0;
  std::int64_t waited_us_ = 0;  ///< for the device, in this tick
  std::int64_t wake_us_ = -1;
  Result<> fault_;
  StepPlan* plan_;
  const StepSlot* settled_ = nullptr;
  Snapshot numbers_;
  std::function<void()> on_planned_;
};

}  // namespace met::scheduler
