// One sampler a device row: turns rows of logits into ids.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "scheduler/device.h"

namespace met::engine {

class RowSamplers {
 public:
  RowSamplers(int rows, int vocabulary);
  ~RowSamplers();

  /// Rows that end and begin with this step.
  void update(const scheduler::StepBatch& batch);
  /// One row of them.
  void remove(std::int32_t device_row);
  void add(const scheduler::RowAdded& added);
  /// Samples one id and counts it for the row's penalties. `logits` is scratch afterwards. `allowed`: a bit for each
  /// token, empty: all.
  scheduler::SampleResult sample(const scheduler::SampleWork& work, std::span<float> logits,
                                 std::span<const std::uint32_t> allowed = {});
  /// The chosen id's log-probability and the `top` best, from raw logits.
  scheduler::PositionLogprobs log_probabilities(std::span<const float> logits, scheduler::TokenId chosen,
                                                int top);

 private:
  struct Rows;
  std::unique_ptr<Rows> rows_;
  int vocabulary_;
};

}  // namespace met::engine
