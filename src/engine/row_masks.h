// What may follow in the rows of a step: one constraint state a device row (docs/grammar.md).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sampling/constraint.h"
#include "scheduler/device.h"

namespace met::engine {

/// A step: update(), then fill() where it overlaps with the device's work on the step, then for each sample of() and,
/// when it has its id, accept(). A row with a constraint is planned only after its last id was settled (E8), so its
/// masks never wait for the device.
class RowMasks {
 public:
  RowMasks(int rows, std::int64_t vocabulary);

  /// Rows that end and begin with this step. A resumed row's state takes its outputs again (S19).
  void update(const scheduler::StepBatch& batch);
  /// Masks of the step's samples.
  void fill(const scheduler::StepBatch& batch);
  /// Of sample i of the step that was filled last: a bit for each id that may follow; empty: every id may.
  std::span<const std::uint32_t> of(std::size_t sample) const;
  /// Takes the sampled id; one that could not follow flags its row.
  void accept(const scheduler::SampleWork& work, scheduler::SampleResult& result);

 private:
  std::size_t words_;
  std::vector<std::unique_ptr<sampling::ConstraintState>> states_;  ///< by device row, null: no constraint
  std::vector<std::vector<std::uint32_t>> masks_;  ///< by device row; made for the first constraint of a row
  std::vector<std::int32_t> filled_;               ///< by sample: the device row whose mask it is, -1: none
};

}  // namespace met::engine
