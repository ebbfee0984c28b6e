#include "layers/cuda/step_data.h"

#include "met/step.h"

namespace met::layers::cuda {

StepLayout::StepLayout(const StepCapacity& capacity) {
  std::size_t end = 0;
  const auto place = [&](std::size_t& offset, std::int64_t count, std::size_t bytes) {
    offset = end;
    end = (end + static_cast<std::size_t>(count) * bytes + 15) / 16 * 16;
  };
  place(counts, 1, sizeof(StepCounts));
  place(head_counts, kHeadRuns, sizeof(StepCounts));
  place(rows, capacity.rows, sizeof(StepRow));
  for (std::size_t* array : {&ids, &device_rows, &positions, &slots})
    place(*array, capacity.tokens, sizeof(std::int32_t));
  place(logit_rows, capacity.logits, sizeof(std::int32_t));
  block_table = end;
}

}  // namespace met::layers::cuda
