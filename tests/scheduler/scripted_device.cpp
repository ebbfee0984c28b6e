#include "tests/scheduler/scripted_device.h"

#include <algorithm>
#include <string>

namespace met::scheduler::testing {

TokenId next_id(const std::vector<TokenId>& context, int choice, int vocab) {
  std::uint64_t hash = 1469598103934665603ULL + static_cast<std::uint64_t>(choice) * 7919;
  for (const TokenId id : context) hash = (hash ^ static_cast<std::uint64_t>(id + 1)) * 1099511628211ULL;
  hash ^= hash >> 29;
  return static_cast<TokenId>((hash * 0x9E3779B97F4A7C15ULL >> 33) % static_cast<std::uint64_t>(vocab));
}

ScriptedDevice::ScriptedDevice(const PlanConfig& config, DeviceScript script, VirtualClock& clock)
    : config_(config), limits_(step_limits(config)), script_(std::move(script)), clock_(clock) {
  kv_.assign(static_cast<std::size_t>(config.blocks_total),
             std::vector<Position>(static_cast<std::size_t>(config.block_tokens)));
  checkpoints_.resize(static_cast<std::size_t>(config.recurrent.slots));
  host_.resize(static_cast<std::size_t>(config.swap_blocks));
  rows_.resize(static_cast<std::size_t>(config.max_batch_size));
}

int ScriptedDevice::rows_known() const {
  return static_cast<int>(
      std::count_if(rows_.begin(), rows_.end(), [](const auto& row) { return row.has_value(); }));
}

Result<> ScriptedDevice::enqueue(const StepPlan& plan, const StepBatch& batch) {
  MET_CHECK(std::ssize(in_flight_) < config_.depth, "too many steps in flight");
  if (steps_ == script_.refuses_at) return fail(ErrorCode::kDevice, "the scripted device has no memory left");
  MET_CHECK(std::ssize(batch.tokens) <= limits_.tokens && std::ssize(batch.rows) <= limits_.rows &&
                std::ssize(batch.logits) <= limits_.logits &&
                std::ssize(batch.block_table) <= limits_.table && std::ssize(batch.copies) <= limits_.copies,
            "a step over its limits");
  MET_CHECK(std::is_sorted(batch.logits.begin(), batch.logits.end()), "logits ascend");
  MET_CHECK(batch.rows.size() == plan.rows.size(), "plan and batch");
  for (const StateCopy& leaf : batch.leaves)
    checkpoints_.at(static_cast<std::size_t>(leaf.checkpoint)) =
        rows_.at(static_cast<std::size_t>(leaf.device_row))->state;
  for (const std::int32_t row : batch.removed) {
    MET_CHECK(rows_.at(static_cast<std::size_t>(row)).has_value(), "removed row is not known");
    rows_[static_cast<std::size_t>(row)].reset();
  }
  for (const RowAdded& added : batch.added) {
    auto& row = rows_.at(static_cast<std::size_t>(added.device_row));
    MET_CHECK(!row && added.sampling->seed, "an added row is free, and its seed is set");
    row.emplace();
    row->prompt.assign(added.prompt.begin(), added.prompt.end());
    row->history = row->prompt;
    row->history.insert(row->history.end(), added.output.begin(), added.output.end());
    row->choice = added.sampling->choice;
  }
  MET_CHECK(std::ssize(batch.swap_out) <= limits_.swaps && std::ssize(batch.swap_in) <= limits_.swaps &&
                std::ssize(batch.swap_out) + std::ssize(batch.swap_in) == plan.swap_blocks,
            "swap copies");
  for (const StateCopy& restore : batch.restores)
    rows_.at(static_cast<std::size_t>(restore.device_row))->state =
        checkpoints_.at(static_cast<std::size_t>(restore.checkpoint));
  for (const SwapCopy& copy : batch.swap_out) place(copy.slot) = kv_.at(static_cast<std::size_t>(copy.block));
  for (const BlockCopy& copy : batch.copies)
    kv_.at(static_cast<std::size_t>(copy.to)) = kv_.at(static_cast<std::size_t>(copy.from));
  for (const SwapCopy& copy : batch.swap_in) kv_.at(static_cast<std::size_t>(copy.block)) = place(copy.slot);

  std::vector<std::vector<TokenId>> contexts(batch.rows.size());
  for (std::size_t row = 0; row < batch.rows.size(); ++row) run_row(batch, row, contexts);
  Done done;
  for (const SampleWork& work : batch.samples)
    done.samples.push_back(sample(work, contexts[static_cast<std::size_t>(work.row)]));
  for (const PromptLogprobWork& work : batch.prompt_logprobs)
    done.prompt_logprobs.push_back({.chosen = -static_cast<float>(work.id), .top = {}});
  std::int64_t us = script_.step_us + script_.token_us * std::ssize(batch.tokens);
  done.swap_us = script_.swap_us * plan.swap_blocks;
  us += done.swap_us;
  if (const auto at = script_.step_us_at.find(steps_); at != script_.step_us_at.end()) us = at->second;
  last_done_us_ = std::max(clock_.now_us(), last_done_us_) + us;
  done.done_us = last_done_us_;
  done.replayed = batch.decode_rows == std::ssize(batch.rows);
  done.failed = steps_++ == script_.fails_at;
  in_flight_.push_back(std::move(done));
  return {};
}

void ScriptedDevice::run_row(const StepBatch& batch, std::size_t row,
                             std::vector<std::vector<TokenId>>& contexts) {
  const StepRow& work = batch.rows[row];
  const auto device_row = static_cast<std::size_t>(batch.device_rows[row]);
  MET_CHECK(rows_.at(device_row).has_value(), "a row that the device does not know");
  const auto place = [&](std::int32_t position) -> Position& {
    const auto entry = static_cast<std::size_t>(work.table_begin + position / config_.block_tokens);
    const BlockId block = batch.block_table.at(entry);
    MET_CHECK(block > 0, "a row reaches the null block");
    return kv_.at(static_cast<std::size_t>(block))[static_cast<std::size_t>(position % config_.block_tokens)];
  };
  for (std::int32_t i = 0; i < work.tokens; ++i) {
    const auto token = static_cast<std::size_t>(work.token_begin + i);
    const std::int32_t position = work.position + i;
    MET_CHECK(batch.positions.at(token) == position, "positions");
    TokenId id = batch.tokens.at(token);
    if (id == kFromDevice) id = rows_[device_row]->last;
    MET_CHECK(id >= 0, "an id without a producer");
    place(position) = {.position = position, .id = id};
    if (!config_.recurrent.on) continue;
    std::vector<TokenId>& state = rows_[device_row]->state;
    MET_CHECK(std::ssize(state) == position, "H1: a row begins at the position of its state");
    state.push_back(id);
    for (const StateCapture& capture : batch.captures)
      if (capture.device_row == static_cast<std::int32_t>(device_row) && capture.position == position + 1)
        checkpoints_.at(static_cast<std::size_t>(capture.checkpoint)) = state;
  }
  for (std::int32_t position = 0; position < work.position + work.tokens; ++position) {
    // An id that another position wrote is read as it is: the text then differs from the solo run's.
    TokenId id = place(position).position == position ? place(position).id : -2;
    if (config_.recurrent.on && rows_[device_row]->state[static_cast<std::size_t>(position)] != id) id = -2;
    contexts[row].push_back(id);
  }
}

SampleResult ScriptedDevice::sample(const SampleWork& work, const std::vector<TokenId>& context) {
  DeviceRow& row = *rows_[static_cast<std::size_t>(work.device_row)];
  MET_CHECK(work.position == std::ssize(context), "position of the sampled id");
  MET_CHECK(std::ssize(row.history) == std::ssize(context), "the sampler has seen another number of ids");
  SampleResult result;
  result.id = next_id(context, row.choice, script_.vocab);
  if (script_.flags) result.flags = script_.flags(row.prompt, row.choice, work.position);
  if (work.logprobs >= 0) result.logprobs.chosen = -static_cast<float>(result.id);
  row.last = result.id;
  row.history.push_back(result.id);
  return result;
}

Result<> ScriptedDevice::settle(const StepBatch& batch, StepResults& results) {
  MET_CHECK(!in_flight_.empty(), "nothing is in flight");
  const Done done = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  MET_CHECK(done.samples.size() == batch.samples.size() && results.samples.size() == done.samples.size(),
            "results of another step");
  clock_.set(done.done_us);
  if (done.failed) return fail(ErrorCode::kDevice, "the scripted device failed");
  results.samples = done.samples;
  results.prompt_logprobs = done.prompt_logprobs;
  results.swap_us = done.swap_us;
  results.replayed = done.replayed;
  return {};
}

void ScriptedSpill::start(const SpillMove& move) {
  MET_CHECK(polls_left_ == 0 && move.host.size() == move.disk.size(), "one move at a time");
  move_ = move;
  polls_left_ = std::max(polls, 1);
  // What is on its way may have been read or written already, or not yet.
  if (!move.store)
    for (const SwapSlot slot : move.host) device_.place(slot).clear();
}

bool ScriptedSpill::poll(Done& done) {
  if (polls_left_ == 0 || --polls_left_ > 0) return false;
  done = {.result = {}, .us = 10 * std::ssize(move_.host)};
  if (moves_++ == fails_at) {
    done.result = fail(ErrorCode::kIo, "the scripted disk failed");
    return true;
  }
  for (std::size_t i = 0; i < move_.host.size(); ++i) {
    auto& host = device_.place(move_.host[i]);
    auto& disk = disk_.at(static_cast<std::size_t>(move_.disk[i]));
    move_.store ? disk = host : host = disk;
  }
  return true;
}

}  // namespace met::scheduler::testing
