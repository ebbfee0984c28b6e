// The execution state of one choice of a request. Section 3 of the contract; the lengths are those of
// section 1.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/slot_pool.h"
#include "core/siphash.h"
#include "scheduler/inbox.h"
#include "scheduler/plan.h"

namespace met::scheduler {

struct Sequence {
  std::shared_ptr<Record> record;  ///< null: the place in the table is free
  std::uint64_t number = 0;        ///< of the record, kept in a free place until it is taken again
  int choice = 0;
  SeqState state = SeqState::kQueued;
  std::uint64_t admission = 0;  ///< order of first admissions; kept over preemptions (S15, S18)

  // Held while live.
  int device_row = -1;
  bool row_added = false;  ///< the device knows the row
  std::vector<BlockId> blocks;
  std::int64_t computed_len = 0;
  std::int64_t planned_len = 0;
  std::int64_t published = 0;  ///< leading blocks that went through the index (B5)
  std::int64_t reserve_blocks = 0;
  SeqIndex fork_from = -1;

  // Held while swapped.
  SwapPlace place = SwapPlace::kNone;
  std::int64_t swapped_len = 0;             ///< positions that its places hold
  std::vector<cache::SwapSlot> host_slots;  ///< of each block
  std::vector<cache::SwapSlot> disk_slots;

  std::vector<TokenId> ids;    ///< prompt and settled outputs; empty while it was never live
  std::vector<Hash128> chain;  ///< identities of leading whole blocks of ids
  std::int64_t pending = 0;
  int inflight = 0;
  std::int64_t recomputed_to = 0;
  int preemptions = 0;
  int producer_ticks = 0;  ///< that its admission waited for a producer (P10)
  std::int64_t outputs_at_resume = -1;
  std::int64_t cached = -1;  ///< hit of the first admission, -1 before it (R12)
  std::int64_t prompt_logprobs_done = 0;
  std::int64_t stop_at = -1;  ///< outputs, -1: none
  FinishReason stop_reason = FinishReason::kStopText;

  std::int64_t admitted_us = -1;
  std::int64_t first_token_us = -1;
  std::int64_t last_token_us = -1;
  std::int64_t full_since_us = -1;  ///< its channel is full since then (R11)

  std::int64_t prompt_len() const { return std::ssize(record->request.prompt); }
  std::int64_t outputs() const { return ids.empty() ? 0 : std::ssize(ids) - prompt_len(); }
  std::int64_t known_len() const { return ids.empty() ? prompt_len() : std::ssize(ids); }
  std::int64_t len() const { return known_len() + pending; }
};

}  // namespace met::scheduler
