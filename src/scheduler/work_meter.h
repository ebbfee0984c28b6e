// What was computed lately and how much of it again, and how long answers turn out: what entries are held to (S26).
#pragma once

#include <cstdint>

#include "scheduler/plan.h"

namespace met::scheduler {

class WorkMeter {
 public:
  void observe_step(const TokenCounts& tokens) {
    work_.recomputed += tokens.recomputed;
    work_.computed += tokens.decode + tokens.prefill + tokens.recomputed;
    if (work_.computed < kRemembered) return;
    work_.computed /= 2;
    work_.recomputed /= 2;
  }
  /// Of a sequence that ended. A new value counts one quarter, so that a change of load shows within a few ends.
  void observe_outputs(std::int64_t outputs) {
    if (outputs > 0) work_.outputs = work_.outputs == 0 ? outputs : (3 * work_.outputs + outputs) / 4;
  }
  /// Of one that was preempted in the middle: about as much may follow.
  void observe_cut(std::int64_t outputs) { observe_outputs(2 * outputs); }

  const RecentWork& recent() const { return work_; }

 private:
  static constexpr std::int64_t kRemembered = 65'536;  // tokens; older ones count half as much
  RecentWork work_;
};

}  // namespace met::scheduler
