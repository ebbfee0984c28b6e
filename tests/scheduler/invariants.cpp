#include "tests/scheduler/invariants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace met::scheduler::testing {

void Invariants::check(const EngineLoop& loop) {
  loop.check();  // B1, B2
  check_plan(loop.plan(), loop);
  check_order_of_eviction(loop);
}

void Invariants::check_plan(const StepPlan& plan, const EngineLoop& loop) const {
  std::int64_t prefill = 0;
  std::int64_t prefills = 0;
  int decode = 0;
  std::set<SeqIndex> rows;
  for (const Row& row : plan.rows) {
    EXPECT_TRUE(rows.insert(row.seq).second) << "S3: two rows of one sequence";
    EXPECT_LT(row.begin, row.end);
    EXPECT_LE(row.end, config_.max_seq_len);
    if (row.kind == RowKind::kDecode) {
      EXPECT_EQ(prefills, 0) << "S4: a decode row behind a prefill row";
      ++decode;
    } else {
      ++prefills;
      prefill += row.end - row.begin;
    }
  }
  EXPECT_EQ(plan.decode_rows, decode);
  EXPECT_GE(plan.bucket, decode) << "G1";
  EXPECT_LE(std::ssize(plan.rows), config_.max_batch_size) << "E12";
  EXPECT_EQ(plan.tokens.prefill + plan.tokens.recomputed, prefill) << "S21";
  // A swapped stream that comes back decodes behind prefills that had the step to themselves, which S4 keeps whole.
  const bool mixed = decode > 0 && plan.resume.empty();
  EXPECT_LE(prefill, mixed ? config_.mixed_prefill_tokens : config_.batch_tokens_max()) << "S5";
  if (!plan.preempt.empty()) {
    EXPECT_TRUE(plan.admit.empty() && plan.resume.empty()) << "S14: an admission beside a preemption";
  }
  const Snapshot& numbers = loop.snapshot();
  if (!plan.admit.empty() && loop.fault()) {
    EXPECT_EQ(numbers.parked + numbers.swapped, 0) << "S18: an admission while one waits to resume";
  }
  EXPECT_LE(numbers.running, config_.max_batch_size) << "E12";
}

/// B7: a child is given up before its parent, so it stands nearer to the front of the LRU list.
void Invariants::check_order_of_eviction(const EngineLoop& loop) {
  const cache::BlockPool& pool = loop.blocks().pool();
  const cache::PrefixIndex& index = loop.blocks().index();
  for (const Sequence& s : loop.sequences()) {
    for (std::size_t i = 1; s.record && i < s.blocks.size(); ++i)
      if (index.contains(s.blocks[i]) && index.contains(s.blocks[i - 1]))
        parents_.try_emplace(index.identity(s.blocks[i]), index.identity(s.blocks[i - 1]));
  }
  std::set<BlockId> nearer;
  for (BlockId block = pool.lru_front(); block != cache::kNullBlock; block = pool.lru_next(block)) {
    nearer.insert(block);
    const auto parent = parents_.find(index.identity(block));
    if (parent == parents_.end()) continue;
    const BlockId held = index.find(parent->second);
    EXPECT_NE(held, cache::kNullBlock) << "B7: a child outlives its parent";
    EXPECT_FALSE(nearer.contains(held)) << "B7: a parent is evicted before its child";
  }
}

}  // namespace met::scheduler::testing
