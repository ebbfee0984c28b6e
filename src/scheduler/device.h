// What the scheduler needs of a device: steps run in the order in which they are enqueued, results are read
// one step at a time. The engine implements it (rules E4, B9, X1 to X3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/slot_pool.h"
#include "core/error.h"
#include "met/step.h"
#include "scheduler/plan.h"
#include "scheduler/request.h"

namespace met::scheduler {

/// In StepBatch::tokens: the id that the row's device row sampled in the step before, still on the device.
inline constexpr TokenId kFromDevice = -1;

/// A device row begins to belong to a sequence: its sampler starts from these ids. A resumed sequence brings
/// its outputs, so that counts and positions go on (S19). A row index is used again only after it was
/// removed.
struct RowAdded {
  int device_row = 0;
  const sampling::SamplingParams* sampling = nullptr;  ///< `choice` is set, `seed` always has a value (D2)
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;   ///< known outputs, in order
  std::span<const TokenId> eos_ids;  ///< masked together with stop_ids before `min_tokens` outputs (R8)
  std::span<const TokenId> stop_ids;
  const sampling::Constraint* constraint =
      nullptr;         ///< lives as long as the row; null: every token may follow
  int min_tokens = 0;  ///< with a constraint: the masks hold it, `sampling` does not
};

struct BlockCopy {
  BlockId from = 0;
  BlockId to = 0;
};

/// A whole block, all layers, K and V, between the pool and a place in the host's swap pool.
struct SwapCopy {
  BlockId block = 0;
  cache::SwapSlot slot = 0;
};

/// The recurrent state of a device row and a saved copy of it. The scheduler does not know what the bytes mean (H8).
struct StateCopy {
  std::int32_t device_row = 0;
  std::int32_t checkpoint = 0;
};
/// The state of a row after its first `position` positions, saved while the step runs.
struct StateCapture {
  std::int32_t device_row = 0;
  std::int32_t checkpoint = 0;
  std::int32_t position = 0;
};

/// One id to sample: from logits[logits] of the step, with the sampler of `device_row`.
struct SampleWork {
  std::int32_t row = 0;  ///< index in StepBatch::rows
  std::int32_t device_row = 0;
  std::int32_t logits = 0;     ///< index in StepBatch::logits
  std::int32_t position = 0;   ///< of the id to sample; the draw is keyed by it (D1)
  std::int32_t logprobs = -1;  ///< as SamplingParams::logprobs
};

/// The log-probability of a prompt's id under the logits of the position before it (P9).
struct PromptLogprobWork {
  std::int32_t logits = 0;  ///< index in StepBatch::logits
  TokenId id = 0;
  std::int32_t top = 0;  ///< how many of the best to name
};

/// Sizes that a device allocates for, so that no step exceeds them.
struct StepLimits {
  std::int64_t tokens = 0;
  std::int64_t rows = 0;  ///< of a step; device rows are as many
  std::int64_t logits = 0;
  std::int64_t table = 0;      ///< entries of block_table
  std::int64_t table_row = 0;  ///< entries of one row's
  std::int64_t copies = 0;
  std::int64_t swaps = 0;  ///< in one direction: blocks of the pool where there is a swap pool
};
StepLimits step_limits(const PlanConfig& config);

/// One step as flat arrays. Spans and pointers in it stay valid until the step has settled; the arrays belong
/// to a step slot that is used again only then (X2).
struct StepBatch {
  // In this order, before any row: sampler rows, then copies. A step may have copies to and from the swap pool alone.
  std::vector<StateCopy> leaves;      ///< saved before their rows are removed
  std::vector<std::int32_t> removed;  ///< device rows that no longer belong to a sequence
  std::vector<RowAdded> added;        ///< a row's state is empty
  std::vector<StateCopy> restores;    ///< into rows that were added
  std::vector<SwapCopy> swap_out;     ///< the blocks have other writers behind it in this step already
  std::vector<BlockCopy> copies;  ///< whole blocks, all layers, K and V; no block is both source and target

  std::vector<SwapCopy> swap_in;
  std::vector<StateCapture> captures;

  std::vector<StepRow> rows;              ///< the first `decode_rows` have one token each
  std::vector<std::int32_t> device_rows;  ///< of each row
  std::int32_t decode_rows = 0;
  std::vector<TokenId> tokens;          ///< of all rows, in order; or kFromDevice
  std::vector<std::int32_t> positions;  ///< of each token
  std::vector<BlockId> block_table;     ///< of all rows; row r reads and writes from rows[r].table_begin on

  std::vector<std::int32_t> logits;  ///< ascending indices in `tokens` whose logits are wanted
  std::vector<SampleWork> samples;   ///< at most one for each row, in row order
  std::vector<PromptLogprobWork> prompt_logprobs;

  void clear();
  void reserve(const StepLimits& limits);  ///< so that no step allocates (E10)
};

/// Set on one sampled row by the device, or by what decides its masks; its request fails, the others do not notice (F2, F3).
enum SampleFlag : std::uint32_t {
  kFlagNonFinite = 1,   ///< a logit was NaN or infinite where no mask put it
  kFlagEmptyMask = 2,   ///< no id may follow
  kFlagOutOfRange = 4,  ///< the id is not in the vocabulary
  kFlagMaskBound = 8,   ///< what may follow took more time or memory than it may
};

struct SampleResult {
  TokenId id = 0;
  std::uint32_t flags = 0;
  PositionLogprobs logprobs;  ///< filled when asked for
};

/// What a step gave, sized to its batch: samples[i] belongs to batch.samples[i], prompt_logprobs likewise.
struct StepResults {
  std::vector<SampleResult> samples;
  std::vector<PositionLogprobs> prompt_logprobs;
  std::int64_t swap_us = 0;  ///< what its swap copies took; 0: not measured
  bool replayed = false;     ///< it was a captured graph, not kernel by kernel (G6)
};

/// Called from one thread only. A returned error is a device failure: the engine stops and the process ends
/// (F4).
class Device {
 public:
  virtual ~Device() = default;
  /// Starts the step behind all earlier ones. May return before it is done, or (CPU) when it is. At most
  /// PlanConfig::depth steps are enqueued and not settled.
  virtual Result<> enqueue(const StepPlan& plan, const StepBatch& batch) = 0;
  /// Waits for the oldest step that has not settled, which is this `batch`, and fills `results`, already
  /// sized.
  virtual Result<> settle(const StepBatch& batch, StepResults& results) = 0;
};

}  // namespace met::scheduler
