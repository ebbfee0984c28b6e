// What a step is planned from and what a plan says: pure values, no pointers into the engine (rules S1, S2).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/prefill_mode.h"
#include "scheduler/courses.h"
#include "scheduler/request.h"

namespace met::scheduler {

/// Index of a sequence in the engine's table. Free to be used again once the sequence has ended and no step
/// in flight holds a row of it.
using SeqIndex = std::int32_t;
/// A block of the KV pool; 0 is the null block (B1).
using BlockId = std::int32_t;

/// Order of admission: the queue's, or one that guards the tokens of running streams (S6, S10).
enum class Policy : std::uint8_t { kFifo, kSlai };

/// How the state at a prompt's last block boundary is saved (H6).
enum class TailCapture : std::uint8_t {
  kOff,
  kSplit,     ///< the chunk ends there
  kMidchunk,  ///< the prefill kernel captures it on its way
};

/// Of a model with recurrent state: its blocks are no use without the state that saw them (H1 to H9).
struct RecurrentConfig {
  bool on = false;
  TailCapture tail = TailCapture::kSplit;
  int slots = 16;                   ///< checkpoints on the device (H7)
  int interval_blocks = 256;        ///< a checkpoint each so many, at the end of a chunk (H4)
  std::int64_t least_tokens = 256;  ///< a restore that saves fewer is skipped (H7)
  bool hermetic = false;            ///< restores of the same session alone (H9)
};

/// Numbers fixed at start that a plan depends on.
struct PlanConfig {
  int depth = 1;                            ///< steps in flight: 1 is sync, 2 is async (E6)
  int block_tokens = 16;                    ///< positions of a block
  int blocks_total = 0;                     ///< the pool with its null block
  int max_batch_size = 16;                  ///< live sequences, one device row each (E12)
  std::int64_t max_seq_len = 0;             ///< prompt and output of one sequence
  std::int64_t max_prefill_tokens = 256;    ///< of a step without decode rows; 0: max_seq_len (S5)
  std::int64_t mixed_prefill_tokens = 128;  ///< of a step with decode rows (S5)
  std::int64_t kv_admit_watermark = 512;    ///< output tokens that an admission reserves at most (S7)
  int chunk_grid_tokens = 16;               ///< chunks and hits end on its multiples (P1, D5)
  int prompt_logprobs_tokens = 64;          ///< prompt positions of a step that want logits (P9)
  int resume_immunity_tokens = 64;          ///< S15
  int swap_blocks = 0;                      ///< places for blocks in host memory (S17); 0: no swap
  int disk_blocks = 0;                      ///< and behind them on disk (S25)
  int swap_least_tokens = 512;  ///< computed, of a victim that swaps while costs are unknown (S17)
  std::int64_t step_max_us =
      0;  ///< longest step that a prefill may make, by the cost model; 0: no bound (S5)

  RecurrentConfig recurrent;

  PrefillMode prefill;                          ///< P3
  std::int64_t codispatch_window_us = 100'000;  ///< from the first arrival (P7)
  std::int64_t codispatch_settle_us = 10'000;   ///< without an arrival (P7)

  std::int64_t producer_tokens =
      512;                     ///< of a prompt that a live one computes too: worth a wait (P10); 0: none is
  int producer_ticks_max = 8;  ///< that its admission waits for them (P10)

  Policy policy = Policy::kFifo;
  std::int64_t tbt_deadline_us = 100'000;  ///< slai: longest wait between two tokens of a stream (S10)
  int slai_skips_max = 8;                  ///< ticks in a row without an admission round (S11)
  int slai_head_deadlines = 20;            ///< a head that waited so many deadlines is not skipped (S11)

  std::int64_t prefill_tokens_max() const {
    return max_prefill_tokens > 0 ? max_prefill_tokens : max_seq_len;
  }
  /// Rows of the arena: what the tokens of one step never exceed (S5).
  std::int64_t batch_tokens_max() const {
    return std::max(prefill_tokens_max(), mixed_prefill_tokens) + max_batch_size;
  }
  /// Free places of the host pool below which the sequence that resumes last goes to disk (S25).
  std::int64_t swap_watermark() const {
    return std::min<std::int64_t>(blocks_of(max_seq_len), swap_blocks / 2);
  }
  std::int64_t blocks_of(std::int64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }
};

/// kInvalidArgument with the flag's name when a number is out of range or the pool cannot hold one sequence
/// of max_seq_len (M5).
Result<> validate(const PlanConfig& config);

enum class SeqState : std::uint8_t { kQueued, kPrefilling, kDecoding, kParked, kSwapped, kEnding };

/// Where the blocks of a swapped sequence are.
enum class SwapPlace : std::uint8_t {
  kNone,
  kLeaving,  ///< a step in flight copies them to the host pool
  kHost,
  kStoring,  ///< from the host pool to disk
  kDisk,
  kLoading,  ///< from disk to the host pool
};

/// A sequence with a device row, in admission order. Lengths are those of section 1 of the contract.
struct LiveView {
  SeqIndex seq = 0;
  SeqState state = SeqState::kPrefilling;
  bool paused = false;           ///< its event channel is full (R11)
  bool undecided = false;        ///< what may follow depends on a token in flight (E8)
  bool prompt_logprobs = false;  ///< P9
  SeqIndex fork_from = -1;       ///< takes the first `fork_len` positions of this live sequence (B6), or -1
  std::int64_t fork_len = 0;
  std::int64_t prompt_len = 0;
  std::int64_t len = 0;  ///< prompt, settled and pending outputs
  std::int64_t planned_len = 0;
  std::int64_t outputs_max = 0;     ///< max_tokens after the clamp of R13
  std::int64_t recomputed_to = 0;   ///< positions below were computed before a preemption (S21)
  std::int64_t reserve_blocks = 0;  ///< of its admission or last resume (S7, S18)
  std::int64_t since_resume = -1;   ///< tokens advanced since its last resume, -1: never parked (S15)
  std::int64_t last_token_us = -1;  ///< when its last token was settled, -1: it has none (S10)
  std::span<const BlockId> blocks;
};

/// A parked, swapped or queued sequence, with what the prefix index holds of it now.
struct WaitView {
  SeqIndex seq = 0;
  int rows = 1;              ///< device rows that its admission takes: n of the request (B6)
  std::uint64_t tenant = 0;  ///< queued ones stand in the order of their tenants' turns (S23)
  bool prompt_logprobs = false;
  std::int64_t prompt_len = 0;
  std::int64_t len = 0;           ///< known ids
  std::int64_t outputs_left = 0;  ///< of outputs_max
  std::int64_t recomputed_to = 0;
  std::int64_t accepted_us = 0;
  SeqIndex producer = -1;  ///< live, or queued in front of it, and about to compute more of its prompt (P10)
  int producer_ticks = 0;  ///< that it has waited for one
  std::int32_t checkpoint = -1;  ///< with the state at the end of the hit, or -1 (H2)
  std::int64_t hit_tokens = 0;   ///< whole blocks, on the grid, never the whole of `len` (P2)
  int preemptions = 0;           ///< so far
  SwapPlace place = SwapPlace::kNone;
  std::int64_t swapped_len = 0;  ///< positions that the swap tiers hold
  std::int64_t hit_referenced =
      0;  ///< blocks of the hit that a live sequence holds; the others are evictable
};

/// Measured costs; a value of 0 is unknown.
struct CostModel {
  std::int64_t decode_step_us = 0;    ///< a pure decode step of about the present width
  std::int64_t prefill_token_ns = 0;  ///< what one more prefill token adds to a step
  std::int64_t mixed_ns = 0;  ///< what prefill beside decode rows adds whatever its length; may be below 0
  std::int64_t swap_block_ns = 0;  ///< a block to the host pool and back
  std::int64_t disk_block_ns = 0;  ///< a block from there to disk and back

  /// What so many prefill tokens add to a step with decode rows.
  std::int64_t prefill_us(std::int64_t tokens) const {
    return tokens > 0 ? std::max<std::int64_t>(0, mixed_ns + tokens * prefill_token_ns) / 1000 : 0;
  }
};

/// What entries are held to (S26).
struct RecentWork {
  std::int64_t computed = 0;    ///< tokens, of all classes
  std::int64_t recomputed = 0;  ///< of them
  std::int64_t outputs = 0;     ///< a running mean of what sequences write; 0: none has ended
};

/// The state that one plan is made from. Spans stay valid for the call.
struct View {
  std::span<const LiveView> live;    ///< in admission order
  std::span<const WaitView> parked;  ///< and swapped ones: oldest admission first
  /// The first of the queue in its order; fifo: at least as many as there are free device rows, and one.
  std::span<const WaitView> queued;
  std::span<const std::int32_t> block_refs;
  std::int64_t queued_total = 0;
  std::int64_t last_arrival_us = 0;  ///< of a queued request (P7)
  std::int64_t wake_us = -1;         ///< earliest moment at which a sequence ends by time, -1: none
  std::int64_t blocks_free = 0;
  std::int64_t blocks_evictable = 0;
  std::int64_t swap_free = 0;     ///< places of the host pool
  std::int64_t disk_free = 0;     ///< places of the disk
  bool disk_busy = false;         ///< a move between the two runs
  int rows_free = 0;              ///< device rows without a sequence
  int slai_skips = 0;             ///< ticks in a row that skipped their admission round (S11)
  std::int64_t step_left_us = 0;  ///< of the step in flight, by the cost model (S12)
  CostModel cost;
  RecentWork work;
};

enum class RowKind : std::uint8_t { kDecode, kPrefill };

/// Positions [begin, end) of one sequence in this step (S3).
struct Row {
  SeqIndex seq = 0;
  RowKind kind = RowKind::kDecode;
  bool samples = false;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t capture_at = -1;  ///< the state after so many positions is saved, -1: none (H4)
};

/// A prefill row as the rules of waves see it.
constexpr PrefillRow wave_row(const Row& row) { return {row.begin, row.end - row.begin}; }

enum class PreemptMode : std::uint8_t { kRecompute, kSwap };
struct Preempt {
  SeqIndex seq = 0;
  PreemptMode mode = PreemptMode::kRecompute;
};
/// A queued, parked or swapped sequence becomes live and starts behind its hit, or behind what comes back from the host
/// pool if that is longer. The other choices of its request
/// become live with it and wait for their fork.
struct Admit {
  SeqIndex seq = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t reserve_blocks = 0;  ///< of each choice
  std::int32_t checkpoint = -1;     ///< that its state begins with, -1: none
};
/// `seq` takes the first `tokens` positions of `from`: whole blocks by reference, a copy of the last partial
/// one.
struct Fork {
  SeqIndex seq = 0;
  SeqIndex from = 0;
  std::int64_t tokens = 0;
};

struct Wait {
  SeqIndex seq = 0;
  WaitReason reason = WaitReason::kCapacity;
};

/// Tokens of a step by class (S21).
struct TokenCounts {
  std::int64_t decode = 0;
  std::int64_t prefill = 0;
  std::int64_t recomputed = 0;
  std::int64_t padded = 0;
};

/// One step, decided. Carried out in the order of its fields; nothing in it can fail (S2).
struct StepPlan {
  std::vector<Preempt> preempt;
  std::vector<Admit> resume;
  std::vector<Admit> admit;
  std::vector<Fork> forks;
  std::vector<Row> rows;  ///< decode rows first (S4)
  int decode_rows = 0;
  int bucket = 0;  ///< decode rows padded (G1); 0 without a decode row
  TokenCounts tokens;
  std::int64_t swap_blocks = 0;   ///< copied to and from the host pool before the rows
  SeqIndex store = -1;            ///< swapped sequence whose blocks go to disk, beside the steps (S25)
  SeqIndex load = -1;             ///< or come from there
  SeqIndex drop = -1;             ///< or are given up: it will be recomputed
  std::vector<Wait> waits;        ///< live and parked sequences and queue heads that did not advance
  std::int64_t waits_behind = 0;  ///< queued sequences behind the last of `waits`
  std::int64_t wake_us = -1;      ///< plan again then, -1: when something happens
  bool slai_skipped = false;      ///< no admission round, for the sake of running streams (S10)
  bool slai_infeasible = false;   ///< decode alone misses the deadline (S12)

  /// The device has nothing to do.
  bool empty() const { return rows.empty() && forks.empty() && swap_blocks == 0; }
  void clear();
};

/// Memory that plans reuse; its content means nothing between calls.
struct PlanScratch {
  std::vector<std::int64_t> growth;     ///< blocks that this plan gives to each live sequence
  std::vector<std::uint8_t> gone;       ///< live sequences that it preempts
  std::vector<std::uint8_t> advanced;   ///< live sequences with a row
  std::vector<std::int32_t> refs_less;  ///< references that preemptions take from each block
  std::vector<BlockId> touched;
  std::vector<std::size_t> order;  ///< of the queue behind its head (S10)
  std::vector<std::size_t> turns;  ///< its tenants' places in the queue (S23)
  std::vector<std::size_t> placed;
  Courses courses;  ///< of live sequences and of what enters, where S26 holds
};

/// Decides one step. A pure function of its first three arguments (S1); `plan` is overwritten.
/// Cost: linear in live sequences and in the blocks of those that it preempts.
void plan_step(const View& view, const PlanConfig& config, std::int64_t now_us, PlanScratch& scratch,
               StepPlan& plan);

/// How a victim leaves: the cheaper way by measured costs, else swap when it is long; recompute where the host pool has no
/// room (S17). Pure.
PreemptMode preempt_mode(const LiveView& victim, const PlanConfig& config, const CostModel& cost,
                         std::int64_t swap_free);
/// The last multiple of a block strictly below `tokens`, or -1 where there is none (H5).
std::int64_t tail_boundary(std::int64_t tokens, std::int64_t block_tokens);
/// The end of a chunk [begin, end) of a prompt that has to stop at its tail (H6).
std::int64_t cut_at_tail(const PlanConfig& config, std::int64_t begin, std::int64_t end,
                         std::int64_t prompt_len);
/// Where the state is captured in a chunk, or -1: at the tail, else at an interval that it passes (H4).
std::int64_t capture_at(const PlanConfig& config, std::int64_t begin, std::int64_t end,
                        std::int64_t prompt_len);
/// What moves between host pool and disk, behind a plan that leaves `swap_free` places of the pool: fills `store`,
/// `load` or `drop` of `plan`, one of them at most (S25). Pure.
void plan_tiers(const View& view, const PlanConfig& config, std::int64_t swap_free, StepPlan& plan);

/// Decode rows padded to a bucket: 1, 2, 4, 8, then steps of 8 to 64, then of 16 to max_batch_size (G1).
int bucket_of(int decode_rows, int max_batch_size);

}  // namespace met::scheduler
