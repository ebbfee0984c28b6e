// What a step processes, as the kernels see it: arrays in device memory whose addresses never change, so that
// a captured step is replayed for any mix of rows. C++20, no dependencies.
#pragma once

#include <cstdint>

namespace met {

/// One row of a step: tokens [token_begin, token_begin + tokens) of the step's token arrays are positions
/// [position, position + tokens) of one sequence, whose KV blocks are block_table[table_begin …].
struct StepRow {
  std::int32_t token_begin;
  std::int32_t tokens;
  std::int32_t position;
  std::int32_t table_begin;
};

/// Counts of the step that runs. Kernels read them at run time.
struct StepCounts {
  std::int32_t tokens;  ///< tokens of all rows
  std::int32_t rows;
  std::int32_t logits;       ///< tokens whose logits are wanted
  std::int32_t decode_rows;  ///< the first rows, with one token each
};

}  // namespace met
