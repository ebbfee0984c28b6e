#include "engine/direct_session.h"

namespace met::engine {

Result<> DirectSession::check(std::span<const Row> rows) {
  const scheduler::StepLimits limits = scheduler::step_limits(model_.plan);
  std::int64_t tokens = 0;
  for (const Row& row : rows) {
    const std::int64_t end = sequences_[row.sequence].length + std::ssize(row.ids);
    if (end > model_.plan.max_seq_len)
      return invalid("--max-seq-len", std::to_string(end) + " positions are more than the context of " +
                                          std::to_string(model_.plan.max_seq_len));
    tokens += std::ssize(row.ids);
  }
  if (std::ssize(rows) > limits.rows || tokens > limits.tokens)
    return invalid("--max-batch-size", "a step of " + std::to_string(rows.size()) + " rows and " +
                                           std::to_string(tokens) + " tokens is larger than the planned one");
  return {};
}

Result<> DirectSession::step(std::span<const Row> rows) {
  MET_TRY(check(rows));
  batch_.clear();
  const int block_tokens = model_.plan.block_tokens;
  for (const Row& row : rows) {
    Sequence& sequence = sequences_[row.sequence];
    const auto tokens = static_cast<std::int64_t>(row.ids.size());
    const auto needed =
        static_cast<std::size_t>((sequence.length + tokens + block_tokens - 1) / block_tokens);
    while (sequence.blocks.size() < needed) {
      if (next_block_ >= model_.memory.blocks)
        return fail(ErrorCode::kResourceExhausted, "the KV pool is too small for this step", "--kv-cache-gb");
      sequence.blocks.push_back(next_block_++);
    }
    batch_.rows.push_back({.token_begin = static_cast<std::int32_t>(batch_.tokens.size()),
                           .tokens = static_cast<std::int32_t>(tokens),
                           .position = static_cast<std::int32_t>(sequence.length),
                           .table_begin = static_cast<std::int32_t>(batch_.block_table.size())});
    batch_.block_table.insert(batch_.block_table.end(), sequence.blocks.begin(), sequence.blocks.end());
    for (std::int64_t i = 0; i < tokens; ++i) {
      batch_.tokens.push_back(row.ids[static_cast<std::size_t>(i)]);
      batch_.positions.push_back(static_cast<std::int32_t>(sequence.length + i));
    }
    batch_.logits.push_back(static_cast<std::int32_t>(batch_.tokens.size()) - 1);
    sequence.length += tokens;
  }
  while (batch_.decode_rows < static_cast<std::int32_t>(rows.size()) &&
         rows[static_cast<std::size_t>(batch_.decode_rows)].ids.size() == 1)
    ++batch_.decode_rows;
  batch_.device_rows.assign(rows.size(), 0);
  MET_TRY(model_.runner->enqueue({}, batch_));
  scheduler::StepResults results;
  return model_.runner->settle(batch_, results);
}

void DirectSession::share(int from, int to, std::int64_t positions) {
  const Sequence& source = sequences_.at(from);
  const auto blocks = positions / model_.plan.block_tokens;
  sequences_[to] = {.blocks = {source.blocks.begin(), source.blocks.begin() + blocks}, .length = positions};
}

void DirectSession::reset() {
  sequences_.clear();
  next_block_ = 1;
}

}  // namespace met::engine
