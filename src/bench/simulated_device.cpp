#include "bench/simulated_device.h"

namespace met::bench {

std::int64_t StepTime::of_swaps(const scheduler::StepBatch& batch) const {
  return std::ssize(batch.swap_out) * swap_block_ns / 1000 + std::ssize(batch.swap_in) * swap_block_ns / 1000;
}

std::int64_t StepTime::of(const scheduler::StepBatch& batch) const {
  if (batch.rows.empty()) return 0;
  std::int64_t context = 0;
  std::int64_t pairs = 0;
  for (const StepRow& row : batch.rows) {
    const std::int64_t before = row.position;
    const std::int64_t tokens = row.tokens;
    context += before;
    if (tokens > 1) pairs += tokens * before + tokens * (tokens + 1) / 2;
  }
  const bool mixed = batch.decode_rows > 0 && batch.decode_rows < std::ssize(batch.rows);
  return step_us + (mixed ? mixed_us : 0) +
         (std::ssize(batch.tokens) * token_ns + context * context_ns) / 1000 + pairs * pair_ps / 1'000'000;
}

Result<> SimulatedDevice::enqueue(const scheduler::StepPlan& /*plan*/, const scheduler::StepBatch& batch) {
  MET_CHECK(enqueued_ - settled_ < steps_.size(), "too many steps in flight");
  for (const scheduler::RowAdded& added : batch.added)
    rows_.at(static_cast<std::size_t>(added.device_row)) = {
        static_cast<std::size_t>(added.sampling->seed.value()), std::ssize(added.prompt)};
  Step& step = steps_[enqueued_++ % steps_.size()];
  step.ids.clear();
  for (const scheduler::SampleWork& work : batch.samples) {
    const DeviceRow& row = rows_[static_cast<std::size_t>(work.device_row)];
    step.ids.push_back(token_of(requests_[row.request].output_text, work.position - row.prompt));
  }
  step.swap_us = time_.of_swaps(batch);
  const std::int64_t us = time_.of(batch) + step.swap_us;
  busy_us_ += us;
  last_done_us_ = std::max(clock_.now_us() + time_.host_us, last_done_us_) + us;
  step.done_us = last_done_us_;
  return {};
}

Result<> SimulatedDevice::settle(const scheduler::StepBatch& /*batch*/, scheduler::StepResults& results) {
  MET_CHECK(settled_ < enqueued_, "nothing is in flight");
  const Step& step = steps_[settled_++ % steps_.size()];
  clock_.set(step.done_us);
  results.swap_us = step.swap_us;
  for (std::size_t i = 0; i < results.samples.size(); ++i) {
    results.samples[i].id = step.ids[i];
    results.samples[i].flags = 0;
  }
  return {};
}

}  // namespace met::bench
