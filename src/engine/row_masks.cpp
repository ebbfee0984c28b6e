#include "engine/row_masks.h"

#include <algorithm>

namespace met::engine {

RowMasks::RowMasks(int rows, std::int64_t vocabulary)
    : words_((static_cast<std::size_t>(vocabulary) + 31) / 32), rows_(static_cast<std::size_t>(rows)) {
  filled_.reserve(rows_.size());
}

void RowMasks::update(const scheduler::StepBatch& batch) {
  for (const std::int32_t row : batch.removed) at(row).state.reset();
  for (const scheduler::RowAdded& added : batch.added) {
    Row& row = at(added.device_row);
    row.state.reset();
    if (added.constraint == nullptr) continue;
    row.state = added.constraint->begin();
    row.mask.resize(words_);
    row.end_ids.assign(added.eos_ids.begin(), added.eos_ids.end());
    row.end_ids.insert(row.end_ids.end(), added.stop_ids.begin(), added.stop_ids.end());
    row.min_tokens = added.min_tokens;
    row.outputs = std::ssize(added.output);
    for (const scheduler::TokenId id : added.output) row.state->accept(id);
  }
}

bool RowMasks::any(const scheduler::StepBatch& batch) const {
  return std::ranges::any_of(batch.samples, [&](const scheduler::SampleWork& work) {
    return rows_[static_cast<std::size_t>(work.device_row)].state != nullptr;
  });
}

/// Whether the row's mask says anything.
bool RowMasks::fill(Row& row) {
  if (row.state == nullptr) return false;
  const bool says = row.state->fill(row.mask);
  if (row.outputs >= row.min_tokens) return says;
  if (!says) std::ranges::fill(row.mask, ~0U);
  std::vector<std::uint32_t> kept = row.mask;
  for (const scheduler::TokenId id : row.end_ids) {
    const auto bit = static_cast<std::size_t>(id);
    if (bit / 32 < kept.size()) kept[bit / 32] &= ~(1U << (bit % 32));
  }
  if (std::ranges::any_of(kept, [](std::uint32_t word) { return word != 0; })) row.mask = std::move(kept);
  return true;
}

std::span<const std::span<const std::uint32_t>> RowMasks::fill(const scheduler::StepBatch& batch) {
  filled_.clear();
  for (const scheduler::SampleWork& work : batch.samples) {
    Row& row = at(work.device_row);
    filled_.push_back(fill(row) ? std::span<const std::uint32_t>(row.mask)
                                : std::span<const std::uint32_t>());
  }
  return filled_;
}

void RowMasks::accept(const scheduler::SampleWork& work, scheduler::SampleResult& result) {
  Row& row = at(work.device_row);
  if (row.state == nullptr) return;
  if (result.flags == 0) {
    ++row.outputs;
    if (!row.state->accept(result.id)) result.flags |= scheduler::kFlagEmptyMask;
  }
  if ((result.flags & scheduler::kFlagEmptyMask) != 0 && row.state->over_bound())
    result.flags |= scheduler::kFlagMaskBound;
}

}  // namespace met::engine
