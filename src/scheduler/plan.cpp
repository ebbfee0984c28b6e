#include "scheduler/plan.h"

#include <algorithm>
#include <string>

#include "cache/prefix_index.h"
#include "scheduler/device.h"

namespace met::scheduler {
namespace {

Result<> at_least(std::string_view field, std::int64_t value, std::int64_t least) {
  if (value >= least) return {};
  return invalid(std::string(field), std::string(field) + " is " + std::to_string(value) + ", the least is " +
                                         std::to_string(least));
}

}  // namespace

Result<> validate(const PlanConfig& config) {
  MET_TRY(at_least("block-tokens", config.block_tokens, 1));
  MET_TRY(at_least("max-batch-size", config.max_batch_size, 1));
  MET_TRY(at_least("max-seq-len", config.max_seq_len, 2));
  MET_TRY(at_least("tbt-deadline-ms", config.tbt_deadline_us, 1));
  MET_TRY(at_least("kv-admit-watermark", config.kv_admit_watermark, 0));
  MET_TRY(at_least("chunk-grid", config.chunk_grid_tokens, 1));
  MET_TRY(at_least("prompt-logprobs-tokens", config.prompt_logprobs_tokens, config.chunk_grid_tokens));
  if (config.block_tokens > cache::ChainHasher::kBlockTokensMax)
    return invalid("block-tokens", "block-tokens is " + std::to_string(config.block_tokens) +
                                       ", the most is " +
                                       std::to_string(cache::ChainHasher::kBlockTokensMax));
  if (config.depth != 1 && config.depth != 2)
    return invalid("scheduler-config", "depth is " + std::to_string(config.depth) + ", it is 1 or 2");
  if (config.chunk_grid_tokens % config.block_tokens != 0)
    return invalid("chunk-grid", "the chunk grid of " + std::to_string(config.chunk_grid_tokens) +
                                     " tokens is not whole blocks of " + std::to_string(config.block_tokens));
  MET_TRY(at_least("max-prefill-tokens", config.prefill_tokens_max(),
                   std::min<std::int64_t>(config.chunk_grid_tokens, config.max_seq_len)));
  MET_TRY(at_least("mixed-prefill-tokens", config.mixed_prefill_tokens, config.chunk_grid_tokens));
  const std::int64_t needed = config.max_seq_len / config.block_tokens + 1;
  if (config.blocks_total - 1 < needed)
    return invalid("kv-cache-gb", "the KV pool has " + std::to_string(config.blocks_total - 1) +
                                      " blocks, one sequence of max-seq-len " +
                                      std::to_string(config.max_seq_len) + " needs " +
                                      std::to_string(needed));
  return {};
}

void StepPlan::clear() {
  preempt.clear();
  resume.clear();
  admit.clear();
  forks.clear();
  rows.clear();
  waits.clear();
  decode_rows = 0;
  bucket = 0;
  tokens = {};
  swap_blocks = 0;
  store = -1;
  load = -1;
  drop = -1;
  waits_behind = 0;
  wake_us = -1;
  slai_skipped = false;
  slai_infeasible = false;
}

int bucket_of(int decode_rows, int max_batch_size) {
  if (decode_rows <= 0) return 0;
  int bucket = 1;
  while (bucket < decode_rows) bucket = bucket < 8 ? bucket * 2 : bucket < 64 ? bucket + 8 : bucket + 16;
  return std::min(bucket, std::max(max_batch_size, decode_rows));
}

void StepBatch::clear() {
  leaves.clear();
  removed.clear();
  restores.clear();
  captures.clear();
  added.clear();
  swap_out.clear();
  copies.clear();
  swap_in.clear();
  rows.clear();
  device_rows.clear();
  decode_rows = 0;
  tokens.clear();
  positions.clear();
  block_table.clear();
  logits.clear();
  samples.clear();
  prompt_logprobs.clear();
}

void StepBatch::reserve(const StepLimits& limits) {
  const auto rows_max = static_cast<std::size_t>(limits.rows);
  const auto tokens_max = static_cast<std::size_t>(limits.tokens);
  removed.reserve(rows_max);
  leaves.reserve(rows_max);
  restores.reserve(rows_max);
  captures.reserve(rows_max);
  added.reserve(rows_max);
  copies.reserve(static_cast<std::size_t>(limits.copies));
  swap_out.reserve(static_cast<std::size_t>(limits.swaps));
  swap_in.reserve(static_cast<std::size_t>(limits.swaps));
  rows.reserve(rows_max);
  device_rows.reserve(rows_max);
  tokens.reserve(tokens_max);
  positions.reserve(tokens_max);
  block_table.reserve(static_cast<std::size_t>(limits.table));
  logits.reserve(static_cast<std::size_t>(limits.logits));
  samples.reserve(rows_max);
}

StepLimits step_limits(const PlanConfig& config) {
  const std::int64_t blocks_row = config.blocks_of(config.max_seq_len) + 1;
  return {.tokens = config.batch_tokens_max(),
          .rows = config.max_batch_size,
          .logits = config.max_batch_size + config.prompt_logprobs_tokens,
          .table = config.max_batch_size * blocks_row,
          .table_row = blocks_row,
          .copies = config.max_batch_size,
          .swaps = config.swap_blocks > 0 ? std::int64_t{config.blocks_total} : 0};
}

}  // namespace met::scheduler
