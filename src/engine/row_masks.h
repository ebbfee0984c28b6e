// What may follow in the rows of a step: one constraint state a device row (docs/grammar.md).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sampling/constraint.h"
#include "scheduler/device.h"

namespace met::engine {

/// A step: update(), then fill() where it overlaps with the device's work on the step, then accept() of each sample
/// that has its id. A row with a constraint is planned only after its last id was settled (E8), so its masks never
/// wait for the device.
class RowMasks {
 public:
  RowMasks(int rows, std::int64_t vocabulary);

  /// Rows that end and begin with this step. A resumed row's state takes its outputs again (S19).
  void update(const scheduler::StepBatch& batch);
  /// Whether a sample of the step is under a constraint.
  bool any(const scheduler::StepBatch& batch) const;
  /// One mask for each sample of the step, valid until the next call: a bit for each id that may follow; empty:
  /// every id may. Before `min_tokens` outputs end ids are not among them unless nothing else is.
  std::span<const std::span<const std::uint32_t>> fill(const scheduler::StepBatch& batch);
  /// Takes the sampled id; one that could not follow flags its row. A row without one that failed by a bound says so.
  void accept(const scheduler::SampleWork& work, scheduler::SampleResult& result);

 private:
  struct Row {
    std::unique_ptr<sampling::ConstraintState> state;  ///< null: no constraint
    std::vector<std::uint32_t> mask;                   ///< made for the first constraint of a row
    std::vector<scheduler::TokenId> end_ids;
    std::int64_t outputs = 0;
    std::int64_t min_tokens = 0;
  };
  bool fill(Row& row);
  Row& at(std::int32_t device_row) { return rows_[static_cast<std::size_t>(device_row)]; }

  std::size_t words_;
  std::vector<Row> rows_;  ///< by device row
  std::vector<std::span<const std::uint32_t>> filled_;
};

}  // namespace met::engine
