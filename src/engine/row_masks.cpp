#include "engine/row_masks.h"

namespace met::engine {

RowMasks::RowMasks(int rows, std::int64_t vocabulary)
    : words_((static_cast<std::size_t>(vocabulary) + 31) / 32),
      states_(static_cast<std::size_t>(rows)),
      masks_(static_cast<std::size_t>(rows)) {
  filled_.reserve(static_cast<std::size_t>(rows));
}

void RowMasks::update(const scheduler::StepBatch& batch) {
  for (const std::int32_t row : batch.removed) states_[static_cast<std::size_t>(row)].reset();
  for (const scheduler::RowAdded& added : batch.added) {
    const auto row = static_cast<std::size_t>(added.device_row);
    states_[row].reset();
    if (added.constraint == nullptr) continue;
    states_[row] = added.constraint->begin();
    masks_[row].resize(words_);
    for (const scheduler::TokenId id : added.output) states_[row]->accept(id);
  }
}

void RowMasks::fill(const scheduler::StepBatch& batch) {
  filled_.clear();
  for (const scheduler::SampleWork& work : batch.samples) {
    const auto row = static_cast<std::size_t>(work.device_row);
    const bool says = states_[row] != nullptr && states_[row]->fill(masks_[row]);
    filled_.push_back(says ? work.device_row : -1);
  }
}

std::span<const std::uint32_t> RowMasks::of(std::size_t sample) const {
  const std::int32_t row = filled_[sample];
  if (row < 0) return {};
  return masks_[static_cast<std::size_t>(row)];
}

void RowMasks::accept(const scheduler::SampleWork& work, scheduler::SampleResult& result) {
  const auto& state = states_[static_cast<std::size_t>(work.device_row)];
  if (state == nullptr || result.flags != 0) return;
  if (!state->accept(result.id)) result.flags |= scheduler::kFlagEmptyMask;
}

}  // namespace met::engine
