#include "engine/model_runner.h"

namespace met::engine {

void check_wave(const scheduler::StepPlan& plan, PrefillMode mode) {
  const scheduler::Row* first = nullptr;
  for (const scheduler::Row& row : plan.rows) {
    if (row.kind != scheduler::RowKind::kPrefill) continue;
    MET_CHECK(first == nullptr || joins_wave(mode, wave_row(*first), wave_row(row)),
              "a planned row may not go with its wave");
    if (first == nullptr) first = &row;
  }
}

}  // namespace met::engine
