// Runs steps without a scheduler: sequences with blocks of their own, any mix of rows a step. For benchmarks
// and tests.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/loaded_model.h"

namespace met::engine {

class DirectSession {
 public:
  /// `model` outlives the session and serves nobody else meanwhile.
  explicit DirectSession(LoadedModel& model) : model_(model) {}

  /// One row of a step: the next ids of a sequence, which is begun by its first row.
  struct Row {
    int sequence = 0;
    std::span<const std::int32_t> ids;
  };
  /// Runs one step. Its logits stay readable until the next one.
  Result<> step(std::span<const Row> rows);
  /// Logits of the last token of row i of the last step, [vocabulary].
  std::span<const float> logits(std::size_t row) {
    return model_.runner->logits_row(static_cast<std::int32_t>(row));
  }
  /// Begins `to` with the first `positions` (whole blocks) of `from`, whose blocks it shares.
  void share(int from, int to, std::int64_t positions);
  /// Forgets all sequences; their blocks may be used again.
  void reset();

 private:
  struct Sequence {
    std::vector<std::int32_t> blocks;
    std::int64_t length = 0;
  };
  /// Whether a step stays inside what the buffers were sized for.
  Result<> check(std::span<const Row> rows);

  LoadedModel& model_;
  std::map<int, Sequence> sequences_;
  std::int32_t next_block_ = 1;  // block 0 is the null block
  scheduler::StepBatch batch_;
};

}  // namespace met::engine
